"""A case for tools that evaluate: a configuration of promptfoo, rows of OpenAI Evals.

What is desired becomes assertions of promptfoo on the output and on the trajectory. Assertions on the trajectory read
the spans that the provider sends, so tracing is switched on. OpenAI Evals has a row of the Evals API, and a sample of
the registry. Both know texts, and no tools.

Formats: https://www.promptfoo.dev/docs/configuration/expected-outputs/ and https://github.com/openai/evals.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import dump_json
from pytest_agentreplay.snapshots.codec import yaml_text
from pytest_agentreplay.traces.exporting.subject import Exported, unsaid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.exporting.subject import Subject

PROMPTFOO = "promptfoo"
OUTPUTS = {"contains": "contains", "not_contains": "not-contains", "equals": "equals", "matches": "regex"}
SEQUENCES = {"equal": "exact", "subsequence": "in_order"}
PLAIN_PATH = re.compile(r"(?:\$\.)?([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
USED, UNUSED = "trajectory:tool-used", "not-trajectory:tool-used"
MATCHED = "trajectory:tool-args-match"


def write_promptfoo(subject: Subject) -> Exported:
    """The configuration with one test."""
    checks: list[Json] = []
    losses = ["frozen replies and tool results: promptfoo asks the provider, and its tools run for real"]
    for check in subject.desired:
        parts = list(assertions(*check))
        checks += [part for part in parts if isinstance(part, dict)]
        losses += [
            unsaid(PROMPTFOO, "desired", (f"{check[0]} {part}", None)) for part in parts if isinstance(part, str)
        ]
        if not parts:
            losses.append(unsaid(PROMPTFOO, "desired", check))
    checks += [{"type": "llm-rubric", "value": words} for words in subject.semantic]
    document: JsonObject = {
        "description": subject.title or subject.id,
        "prompts": ["{{input}}"],
        "providers": ["file://provider.py"],
        "tracing": {"enabled": True, "otlp": {"http": {"enabled": True}}},
        "tests": [{"description": subject.id, "vars": {"input": dump_json(subject.input)}, "assert": checks}],
    }
    head = (
        f"# Made of {subject.folder} by `agentreplay case export --to promptfoo`.\n"
        "# provider.py is yours: it runs the agent on the input, and sends its spans (GenAI conventions).\n"
    )
    return Exported(((f"{subject.name}.promptfoo.yaml", head + yaml_text.dump(document)),), tuple(losses))


def assertions(word: str, expected: Json) -> Iterator[JsonObject | str]:
    """One check in the words of promptfoo, and the names of what it has no word for; nothing where it has none."""
    match word, expected:
        case "output", dict() if "path" not in expected:
            for how, text in expected.items():
                if how in OUTPUTS:
                    yield {"type": OUTPUTS[how], "value": text}
                elif how == "exists":
                    yield {"type": "javascript", "value": f"(String(output ?? '') !== '') === {json.dumps(text)}"}
        case "tool_called", str():
            yield {"type": USED, "value": expected}
        case "tool_called", dict() as call if call.get("arguments"):
            yield from match_arguments(call, MATCHED)
        case "tool_not_called", dict() as call if call.get("arguments"):
            yield from match_arguments(call, f"not-{MATCHED}")
        case "tool_called", dict():
            yield {"type": USED, "value": {"name": expected["name"], **bounds(expected)}}
        case "tool_not_called", dict():
            yield {"type": UNUSED, "value": expected["name"]}
        case (("tool_not_called" | "forbidden_tools"), _):
            yield from (
                {"type": UNUSED, "value": name} for name in (expected if isinstance(expected, list) else [expected])
            )
        case "tool_order", dict():
            for how, steps in expected.items():
                if how in SEQUENCES and isinstance(steps, list):
                    names = [step["name"] if isinstance(step, dict) else step for step in steps]
                    yield {"type": "trajectory:tool-sequence", "value": {"mode": SEQUENCES[how], "steps": names}}
                    if any(isinstance(step, dict) and step.get("arguments") for step in steps):
                        yield "arguments"
        case "cost", {"at_most": limit}:
            yield {"type": "cost", "threshold": limit}
        case "duration", {"at_most": int() | float() as limit}:
            yield {"type": "latency", "threshold": round(limit * 1000)}
        case "turns", dict():
            yield {"type": "trace-span-count", "value": {"pattern": "chat *", **bounds(expected, least=None)}}


def match_arguments(call: JsonObject, kind: str) -> Iterator[JsonObject | str]:
    """Yield the check of a call with arguments; how often it comes cannot be checked there, so that is lost."""
    often = [(name, call[name]) for name in ("times", "at_least", "at_most") if name in call]
    paths = call["arguments"]
    arguments = nest_paths(paths.items()) if isinstance(paths, dict) else {}
    if arguments and all(number != 0 for _, number in often):
        yield {"type": kind, "value": {"name": call["name"], "mode": "partial", "args": arguments}}
        yield from (name for name, number in often if (name, number) != ("at_least", 1))


def bounds(expected: JsonObject, *, least: int | None = 1) -> JsonObject:
    """How often: at least once, unless something else is said."""
    times = expected.get("times")
    limits = {"min": expected.get("at_least", least if times is None else times), "max": expected.get("at_most", times)}
    return {name: bound for name, bound in limits.items() if bound is not None}


def nest_paths(paths: Iterable[tuple[str, Json]]) -> JsonObject:
    """Return the arguments at plain JSON paths as one object; {} where any of them says more than names."""
    root: JsonObject = {}
    for path, value in paths:
        match = PLAIN_PATH.fullmatch(path)
        if match is None or isinstance(value, dict):
            return {}
        *above, last = match[1].split(".")
        inside = root
        for name in above:
            inside = inside.setdefault(name, {})  # type: ignore[assignment]
        inside[last] = value
    return root


EVALS = "OpenAI Evals"
ROW = {"contains": "must_contain", "not_contains": "must_not_contain", "equals": "must_equal", "matches": "must_match"}
"""How a row names what is wanted of the output: criteria of the eval refer to `item.must_contain`."""


def write_openai_evals(subject: Subject) -> Exported:
    """The rows of both forms, one line each."""
    item: JsonObject = {"id": subject.id, "title": subject.title, "input": list(subject.messages)}
    losses = ["tools and their frozen results: the model is asked anew, without them"]
    ideal: list[str] = []
    for word, expected in subject.desired:
        checked = texts(expected) if word == "output" and isinstance(expected, dict) else {}
        for name, text in checked.items():
            listed = item.setdefault(ROW[name], [])
            assert isinstance(listed, list)
            listed.append(text)
            ideal += [text] if name in {"contains", "equals"} else []
        if not checked:
            losses.append(unsaid(EVALS, "desired", (word, expected)))
        elif isinstance(expected, dict):
            losses += [unsaid(EVALS, "desired", (f"{word} {name}", None)) for name in expected if name not in checked]
    if subject.semantic:
        item["criteria"] = list(subject.semantic)
    sample: JsonObject = {"input": list(subject.messages), "ideal": list(ideal)}
    row: JsonObject = {"item": item}
    if isinstance(subject.trace.output, str):
        row["sample"] = {"output_text": subject.trace.output}  # what the recorded run said: graders can be tried on it
    files = [(f"{subject.name}.evals.jsonl", json.dumps(row, ensure_ascii=False) + "\n")]
    if ideal:
        files.append((f"{subject.name}.registry.jsonl", json.dumps(sample, ensure_ascii=False) + "\n"))
    else:
        losses.append("a sample for the registry: it compares with an ideal text, and the case names none")
    return Exported(tuple(files), tuple(losses))


def texts(expected: JsonObject) -> dict[str, str]:
    """What a check of the whole output says of its text."""
    if "path" in expected:
        return {}
    return {name: text for name, text in expected.items() if name in ROW and isinstance(text, str)}
