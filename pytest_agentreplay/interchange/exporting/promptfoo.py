"""A case as a configuration of promptfoo: what is desired as assertions on the output and on the trajectory.

Assertions on the trajectory read the spans that the provider sends, so tracing is switched on.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pytest_agentreplay.interchange.exporting.subject import Exported, unsaid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.exporting.subject import Subject

TARGET = "promptfoo"
OUTPUTS = {"contains": "contains", "not_contains": "not-contains", "equals": "equals", "matches": "regex"}
SEQUENCES = {"equal": "exact", "subsequence": "in_order"}
PLAIN_PATH = re.compile(r"(?:\$\.)?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Names that some reader of YAML takes for something else."""
USED, UNUSED = "trajectory:tool-used", "not-trajectory:tool-used"


def write(subject: Subject) -> Exported:
    """The configuration with one test."""
    checks: list[Json] = []
    losses = ["frozen replies and tool results: promptfoo asks the provider, and its tools run for real"]
    for wanted in subject.desired:
        told = list(assertions(*wanted))
        checks += told
        if not told:
            losses.append(unsaid(TARGET, "desired", wanted))
    checks += [{"type": "llm-rubric", "value": words} for words in subject.semantic]
    document: JsonObject = {
        "description": subject.title or subject.id,
        "prompts": ["{{input}}"],
        "providers": ["file://provider.py"],
        "tracing": {"enabled": True, "otlp": {"http": {"enabled": True}}},
        "tests": [
            {
                "description": subject.id,
                "vars": {"input": json.dumps(subject.input, ensure_ascii=False)},
                "assert": checks,
            }
        ],
    }
    head = (
        f"# Made of {subject.folder} by `agentreplay export --to promptfoo`.\n"
        "# provider.py is yours: it runs the agent on the input, and sends its spans (GenAI conventions).\n"
    )
    return Exported(((f"{subject.name}.promptfoo.yaml", head + "\n".join(block(document)) + "\n"),), tuple(losses))


def assertions(word: str, wanted: Json) -> Iterator[Json]:
    """One check in the words of promptfoo; nothing where it has none."""
    match word, wanted:
        case "output", dict() if "path" not in wanted:
            for how, text in wanted.items():
                if how in OUTPUTS:
                    yield {"type": OUTPUTS[how], "value": text}
                elif how == "exists":
                    yield {"type": "javascript", "value": f"(String(output ?? '') !== '') === {json.dumps(text)}"}
        case "tool_called", str():
            yield {"type": USED, "value": wanted}
        case "tool_called", dict():
            yield from called(wanted)
        case (("tool_not_called" | "forbidden_tools"), _):
            for name in wanted if isinstance(wanted, list) else [wanted]:
                yield {"type": UNUSED, "value": name.get("name") if isinstance(name, dict) else name}
        case "tool_order", dict():
            for how, steps in wanted.items():
                if how in SEQUENCES:
                    yield {"type": "trajectory:tool-sequence", "value": {"mode": SEQUENCES[how], "steps": steps}}
        case "cost", {"at_most": limit}:
            yield {"type": "cost", "threshold": limit}
        case "duration", {"at_most": int() | float() as limit}:
            yield {"type": "latency", "threshold": round(limit * 1000)}
        case "turns", dict():
            bounds = {"min": wanted.get("at_least"), "max": wanted.get("at_most")}
            said = {name: bound for name, bound in bounds.items() if bound is not None}
            yield {"type": "trace-span-count", "value": {"pattern": "chat *", **said}}


def called(wanted: JsonObject) -> Iterator[Json]:
    """How often a tool was called, and with which arguments."""
    times = wanted.get("times")
    bounds = {"min": wanted.get("at_least", times), "max": wanted.get("at_most", times)}
    said = {name: bound for name, bound in bounds.items() if bound is not None}
    paths = wanted.get("arguments")
    arguments = nested(paths.items()) if isinstance(paths, dict) else {}
    if arguments:
        value = {"name": wanted.get("name"), "mode": "partial", "args": arguments}
        yield {"type": "trajectory:tool-args-match", "value": value}
    if said or not arguments:
        yield {"type": USED, "value": {"name": wanted.get("name"), **said}}


def nested(paths: Iterable[tuple[str, Json]]) -> JsonObject:
    """The arguments at plain JSON paths as one object; {} where any of them says more than names."""
    found: JsonObject = {}
    for path, value in paths:
        match = PLAIN_PATH.fullmatch(path)
        if match is None or isinstance(value, dict):
            return {}
        *above, last = match[1].split(".")
        inside = found
        for name in above:
            inside = inside.setdefault(name, {})  # type: ignore[assignment]
        inside[last] = value
    return found


def block(value: Json, indent: str = "") -> Iterator[str]:
    """The lines of a value in YAML: blocks, with every scalar in the form of JSON, which is YAML's too."""
    match value:
        case dict() if value:
            for name, inner in value.items():
                yield from member(f"{indent}{name if bare(name) else scalar(name)}:", inner, indent + "  ")
        case list() if value:
            for item in value:
                first, *rest = block(item, indent + "  ")
                yield f"{indent}- {first.strip()}"
                yield from rest
        case _:
            yield f"{indent}{scalar(value)}"


def member(head: str, value: Json, indent: str) -> Iterator[str]:
    """One member of an object: a scalar on the line of its name, a block below it."""
    if isinstance(value, dict | list) and value:
        yield head
        yield from block(value, indent)
    else:
        yield f"{head} {scalar(value)}"


def bare(name: str) -> bool:
    """Whether a name stands for itself without quotes."""
    return name.isascii() and name.isidentifier() and name.lower() not in WORDS


def scalar(value: Json) -> str:
    """A scalar, or an empty container. What YAML takes for the end of a line is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == " " else f"\\U{ord(char):08x}" for char in text)
