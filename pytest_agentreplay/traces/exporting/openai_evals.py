"""A case for OpenAI Evals: a row of the Evals API, and a sample of the registry. Both know texts, and no tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_agentreplay.traces.exporting.subject import Exported, unsaid

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.traces.exporting.subject import Subject

TARGET = "OpenAI Evals"
ROW = {"contains": "must_contain", "not_contains": "must_not_contain", "equals": "must_equal", "matches": "must_match"}
"""How a row names what is wanted of the output: criteria of the eval refer to `item.must_contain`."""


def write(subject: Subject) -> Exported:
    """The rows of both forms, one line each."""
    item: JsonObject = {"id": subject.id, "title": subject.title, "input": list(subject.messages)}
    losses = ["tools and their frozen results: the model is asked anew, without them"]
    ideal: list[str] = []
    for word, wanted in subject.desired:
        found = texts(wanted) if word == "output" and isinstance(wanted, dict) else {}
        for name, text in found.items():
            listed = item.setdefault(ROW[name], [])
            assert isinstance(listed, list)
            listed.append(text)
            ideal += [text] if name in {"contains", "equals"} else []
        if not found:
            losses.append(unsaid(TARGET, "desired", (word, wanted)))
        elif isinstance(wanted, dict):
            losses += [unsaid(TARGET, "desired", (f"{word} {name}", None)) for name in wanted if name not in found]
    if subject.semantic:
        item["criteria"] = list(subject.semantic)
    sample: JsonObject = {"input": list(subject.messages), "ideal": list(ideal)}
    row: JsonObject = {"item": item}
    if isinstance(subject.trace.output, str):
        row["sample"] = {"output_text": subject.trace.output}  # what the recorded run said: graders can be tried on it
    files = [(f"{subject.name}.evals.jsonl", line(row))]
    if ideal:
        files.append((f"{subject.name}.registry.jsonl", line(sample)))
    else:
        losses.append("a sample for the registry: it compares with an ideal text, and the case names none")
    return Exported(tuple(files), tuple(losses))


def texts(wanted: JsonObject) -> dict[str, str]:
    """What a check of the whole output says of its text."""
    if "path" in wanted:
        return {}
    return {name: text for name, text in wanted.items() if name in ROW and isinstance(text, str)}


def line(value: JsonObject) -> str:
    """One row."""
    return json.dumps(value, ensure_ascii=False) + "\n"
