"""What looks wrong about how a run ended: a symptom each, with the check that shows it and what should be instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import Check
from pytest_agentreplay.cases.checks.values import texts
from pytest_agentreplay.core.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.core.kit import table
from pytest_agentreplay.core.model import HttpReply
from pytest_agentreplay.core.turns import turns
from pytest_agentreplay.dialects import READER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.cases.judging import CaseEvidence
    from pytest_agentreplay.core.model import Json, JsonObject

ASSERTED = re.compile(r"assert (?:'(?P<text>[^'\\]+)'|\"(?P<other>[^\"\\]+)\") (?P<without>not )?in ")
"""What pytest says of an assertion on a text."""
FIRST_LINE = 120
"""Characters of an error's text that a check holds."""
BAD = frozenset({"I", "F", "FAIL", "FAILED", "INCORRECT"})
"""Grades that say in words that a run was wrong; of a number nobody knows which end is good."""
ERROR_STATUS = 400
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
"""What no text file can hold."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that looks wrong: what it is in words, the check that shows it, what should be instead."""

    told: str
    observed: Check | None = None
    desired: Check | None = None
    semantic: str = ""


def stopped(evidence: CaseEvidence) -> Iterator[Symptom]:
    """A run that some limit has ended."""
    limit = known(evidence, "limits")
    count = sum(turn.model is not None for turn in turns(evidence.run, READER)) if evidence.run is not None else 0
    if not limit:
        return
    seen, fewer = Check("turns", {"at_least": count}), Check("turns", {"at_most": count - 1})
    yield Symptom(f"It was stopped by {limit}", *((seen, fewer) if count > 1 else ()))


def broken_replies(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Replies over HTTP that are errors, or whose JSON is cut."""
    for turn in turns(evidence.run, READER) if evidence.run is not None else ():
        for x in turn.exchanges:
            if not isinstance(x.outcome, HttpReply):
                continue
            data = x.outcome.body.data
            torn = data[:1] in (b"{", b"[") and isinstance(parse(data.decode(errors="replace")), NotJson)
            if x.outcome.status < ERROR_STATUS and not torn:
                continue
            what = "half a JSON body" if torn else "an error"
            told = f"Turn {turn.number} was answered {x.outcome.status} with {what}"
            seen = Check("error", {"class": f"HTTP {x.outcome.status}"}) if x.outcome.status >= ERROR_STATUS else None
            wants = (
                f"What turn {turn.number} got ({x.outcome.status}, {what}) is not taken for a result" if torn else ""
            )
            yield Symptom(told, seen, semantic=wants)


def ended_badly(evidence: CaseEvidence) -> Iterator[Symptom]:
    """A run that ended with an error."""
    if evidence.status != "error":
        return
    kind, text = evidence.errors[-1] if evidence.errors else ("", "")
    said: JsonObject = {key: value for key, value in (("class", kind), ("text", first_line(text))) if value}
    told = ": ".join(["It ended with an error", *map(str, said.values())])
    yield Symptom(told, Check("status", "error"), Check("status", "ok"))
    yield Symptom(told, Check("error", said) if said else None)


def unanswered(evidence: CaseEvidence) -> Iterator[Symptom]:
    """A run without a final answer."""
    came = evidence.run is not None and any(x.outcome is not None for x in evidence.run.exchanges)
    if evidence.output in (None, "") and came:
        yield Symptom("There is no final answer", Check("output", {"exists": False}), Check("output", {"exists": True}))


def asserted(evidence: CaseEvidence) -> Iterator[Symptom]:
    """What the test wanted whose recording this is."""
    end = evidence.run.header.outcome if evidence.run is not None else {}
    said = first_line(str(end.get("message", "")))
    if end.get("status") != "failed" or evidence.status == "error" or not said:
        return
    wants = f"What the test wanted holds: {said}"
    answer = spoken(evidence.output)
    found = ASSERTED.match(said)
    text = (found["text"] or found["other"]) if found else ""
    if found and bool(found["without"]) == (text in answer):
        kind, seen = ("not_contains", "contains") if found["without"] else ("contains", "not_contains")
        yield Symptom(f"The test failed: {said}", Check("output", {seen: text}), Check("output", {kind: text}), wants)
    else:
        yield Symptom(f"The test failed: {said}", semantic=wants)


def graded(evidence: CaseEvidence) -> Iterator[Symptom]:
    """What the source thought of the run."""
    for name, grade in table(case_of(evidence), "grades").items():
        if str(grade).upper() in BAD:
            yield Symptom(f"It was graded {name}: {grade}", semantic=f"The answer deserves better than {name}: {grade}")


def unremarkable(evidence: CaseEvidence, *, alone: bool) -> Symptom:
    """What is said of a run that shows nothing wrong by itself: only a person knows why it was kept."""
    answer = first_line(spoken(evidence.output))
    return Symptom(
        "Nothing in it looks wrong by itself",
        Check("output", {"contains": answer} if answer else {"exists": bool(text_of(evidence.output).strip())}),
        semantic="Say what is wrong with this run, and what a fixed agent shows instead" if alone else "",
    )


def known(evidence: CaseEvidence, name: str) -> str:
    """One word that the source tells of the run."""
    found = case_of(evidence).get(name)
    if not found and evidence.run is not None:
        found = table(evidence.run.header.kit, "annotations").get(name)
    return found if isinstance(found, str) else ""


def case_of(evidence: CaseEvidence) -> JsonObject:
    """What the frozen run tells of itself beside its exchanges."""
    return table(evidence.run.header.kit, "case") if evidence.run is not None else {}


def text_of(output: Json) -> str:
    """An output as text."""
    return output if isinstance(output, str) else "" if output is None else canonical(output)


def spoken(output: Json) -> str:
    """What an output says, a line for each text in it: a check looks for a passage in one of them."""
    return "\n".join(texts(output)) if output is not None else ""


def first_line(text: str) -> str:
    """The beginning of a text, as much as a check holds and a case file can write."""
    line: str = next((line for line in text.splitlines() if line.strip()), "")
    found = UNWRITABLE.search(line[:FIRST_LINE])
    return line[: found.start() if found else FIRST_LINE]
