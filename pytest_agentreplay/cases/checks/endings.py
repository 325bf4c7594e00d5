"""Words about the end of a run: its status, its output, its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.checks.answers import HOLDS, AnswerCheck, fails, unknown
from pytest_agentreplay.cases.checks.values import compared, found_at, landing
from pytest_agentreplay.dialects.genai import parsed

if TYPE_CHECKING:
    from pytest_agentreplay.cases.evidence import CaseEvidence


def status(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """The run ended so."""
    if "status" in evidence.unknown:
        return unknown("nobody told how the run ended")
    if evidence.status == wanted:
        return HOLDS
    why = [f"  nearest   {': '.join(filter(None, evidence.errors[-1]))}"] if evidence.errors else []
    return fails("the run ended another way", wanted, evidence.status, *why)


def output(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """The final output is as wanted."""
    if "output" in evidence.unknown:
        return unknown("nobody told the output")
    there = is_something(evidence.output)
    if "path" not in wanted:
        return compared("output", [evidence.output] if there else [], wanted, there=there)
    if not there:
        return unknown("there is no output")
    tree, path = parsed(evidence.output), wanted["path"]
    return compared(f"output at {path}", found_at(path, tree), wanted, landing(path, tree), there=True)


def is_something(value: Any) -> bool:
    """Whether an output is one: not null, not blank."""
    return value is not None and (not isinstance(value, str) or bool(value.strip()))


def error(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Something went wrong, of this class (or any), with this text in it."""
    said = {"class": wanted} if isinstance(wanted, str) else wanted
    kind, text = said.get("class", ""), said.get("text", "")
    for name, message in evidence.errors:
        if kind in {"", name, name.rpartition(".")[2]} and text in message:
            return HOLDS
    if "errors" in evidence.unknown:
        return unknown("nobody told the errors")
    expected = " ".join(filter(None, [kind or "an error", f"with {text!r}" if text else ""]))
    there = "; ".join(": ".join(filter(None, one)) for one in evidence.errors) or "no error"
    return fails("no such error", expected, there[:200])
