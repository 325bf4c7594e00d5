"""What looks wrong in a frozen run, as checks that are true of it, and what a fixed agent might show instead.

A proposal, for a person to read: what is `observed` holds on the run that it was inferred from; what is `desired` does
not, so that it says something. Where only words can say what is wanted, they are `semantic`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import Check
from pytest_agentreplay.cases.checks.calls import failed
from pytest_agentreplay.cases.foreign_records import reached
from pytest_agentreplay.cases.success_claims import claim
from pytest_agentreplay.cases.symptoms import (
    Symptom,
    asserted,
    broken_replies,
    ended_badly,
    first_line,
    graded,
    known,
    spoken,
    stopped,
    text_of,
    unanswered,
    unremarkable,
)
from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.rules import show

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.cases.judging import CaseEvidence
    from pytest_agentreplay.cases.turn import ToolCallView
    from pytest_agentreplay.core.model import Json, JsonObject

LOOP = 3
"""So many identical calls are a loop; of failing ones, one less."""
ERROR = re.compile(
    r"\s*(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b|\s*(?:(?:an )?error|exception|traceback)\b", re.IGNORECASE
)
"""How a result begins that is an error in a text, where nothing else marks it."""


@dataclass(frozen=True, slots=True)
class Inference:
    """What was inferred of a run. `told` are sentences for people, the first of them fit for a title."""

    observed: tuple[Check, ...]
    desired: tuple[Check, ...]
    semantic: tuple[str, ...]
    told: tuple[str, ...]


def inferred(evidence: CaseEvidence) -> Inference:
    """What looks wrong in the run that `evidence` is of."""
    found = list(symptoms(evidence))
    if not any(symptom.observed for symptom in found):
        found.append(unremarkable(evidence, alone=not found))
    return Inference(
        _once(symptom.observed for symptom in found),
        _once(symptom.desired for symptom in found),
        tuple(dict.fromkeys(symptom.semantic for symptom in found if symptom.semantic)),
        tuple(dict.fromkeys(symptom.told for symptom in found)),
    )


def symptoms(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Everything that looks wrong, what weighs most first."""
    yield from claimed(evidence)
    yield from disclosed(evidence)
    yield from stopped(evidence)
    yield from repeated(evidence)
    yield from failed_tools(evidence)
    yield from broken_replies(evidence)
    yield from ended_badly(evidence)
    yield from unanswered(evidence)
    yield from asserted(evidence)
    yield from graded(evidence)


def claimed(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Tools whose last call failed, and an answer that says nothing of it."""
    answer = spoken(evidence.output)
    for call in {call.name: call for call in evidence.tool_calls}.values() if answer else ():
        if not went_wrong(call):
            continue
        tells = f"The answer tells that {call.name} failed, and claims nothing that was not done"
        if said := claim(answer, call.name):
            told = f"The answer says {said!r} after {call.name} failed"
            yield Symptom(told, Check("output", {"contains": said}), Check("output", {"not_contains": said}), tells)
        else:
            yield Symptom(f"{call.name} failed, and whether the answer says so is for a person to read", semantic=tells)


def disclosed(evidence: CaseEvidence) -> Iterator[Symptom]:
    """An answer that holds something of somebody else's record."""
    own = known(evidence, "user")
    found = reached(spoken(evidence.output), evidence.tool_calls, own) if own else None
    if found is None:
        return
    call, field, text = found
    told = f"The answer tells something of a record whose {field} is not {own}"
    yield Symptom(
        told, Check("output", {"contains": text}), Check("no_identity_but", {"path": show((field,)), "is": own})
    )
    if field not in call.arguments:
        wanted: Json = {"name": call.name, "arguments": {show((field,)): own}, "at_least": 1}
        yield Symptom(f"{call.name} was not asked for the records of {own}", desired=Check("tool_called", wanted))


def repeated(evidence: CaseEvidence) -> Iterator[Symptom]:
    """The same call again and again."""
    calls: dict[str, list[ToolCallView]] = {}
    for call in evidence.tool_calls:
        calls.setdefault(f"{call.name} {canonical(_plain(call.arguments))}", []).append(call)
    most: dict[str, list[ToolCallView]] = {}
    for same in calls.values():
        if len(same) >= LOOP - all(map(went_wrong, same)) and len(same) > len(most.get(same[0].name, ())):
            most[same[0].name] = same
    for name, same in most.items():
        told = f"{name} was called {len(same)} times with the same arguments"
        seen: Json = {"name": name, "at_least": len(same)}
        fewer: Json = {"name": name, "at_most": min(len(same), LOOP) - 1}
        yield Symptom(told, Check("repeated_call", seen), Check("repeated_call", fewer))


def failed_tools(evidence: CaseEvidence) -> Iterator[Symptom]:
    """Each tool that failed, and the arguments that its error speaks of.

    Where the answer hides the failure it is the answer that has to change: whether the tool is asked again is open.
    """
    for name, count in Counter(call.name for call in evidence.tool_calls if went_wrong(call)).items():
        call = next(call for call in evidence.tool_calls if went_wrong(call) and call.name == name)
        error = text_of(call.result)  # type: ignore[arg-type]
        told = f"{name} failed{f' {count} times' if count > 1 else ''}: {first_line(error)}"
        seen = Check("tool_failed", name)
        if not failed(call):
            part: Json = {"at": name, "side": "reply", "path": "$", "contains": first_line(error)}
            seen = Check("exchange", part)
        blamed = argued(call, error) if not claim(spoken(evidence.output), name) else {}
        wrong: Json = {"name": name, **blamed}
        yield Symptom(told, seen, Check("tool_not_called", wrong) if blamed else None)


def went_wrong(call: ToolCallView) -> bool:
    """Whether a call failed, or gave a text that begins as errors do."""
    return failed(call) or (isinstance(call.result, str) and ERROR.match(call.result) is not None)


def argued(call: ToolCallView, error: str = "") -> JsonObject:
    """The plain arguments of a call by their paths; of one that failed, those whose value its error names."""
    given = _plain(call.arguments).items()
    plain: JsonObject = {name: value for name, value in given if isinstance(value, str | int | float)}
    if error:
        plain = {name: value for name, value in plain.items() if len(str(value)) > 1 and str(value) in error}
        numbers: JsonObject = {name: value for name, value in plain.items() if not isinstance(value, str)}
        plain = numbers or plain  # an error names the order that it is about, too; a number is what was wrong with it
    return {"arguments": {show((name,)): value for name, value in plain.items()}} if plain else {}


def _once(checks: Iterator[Check | None]) -> tuple[Check, ...]:
    return tuple({canonical([check.word, check.wanted]): check for check in checks if check is not None}.values())


def _plain(arguments: dict[str, object]) -> JsonObject:
    return {name: value if _is_json(value) else repr(value) for name, value in arguments.items()}  # type: ignore[misc]


def _is_json(value: object) -> bool:
    try:
        canonical(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
