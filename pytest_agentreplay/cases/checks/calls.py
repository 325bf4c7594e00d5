"""Words about tools: called, not called, failed, forbidden, in which order, over and over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases import tool_expectations
from pytest_agentreplay.cases.checks.answers import HOLDS, AnswerCheck, fails
from pytest_agentreplay.cases.checks.values import found_at, same
from pytest_agentreplay.cases.turn import short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.turn import ToolCallView


class Asked(tool_expectations.ToolExpectation):
    """A tool call that a check names: arguments by name or path, others do not matter."""

    __slots__ = ()

    def grants(self, name: str, arguments: object) -> bool:
        """Whether a call of `name` with `arguments` is meant."""
        return name == self.name and not self._unlike(arguments)

    def parting(self, call: ToolCallView) -> list[str]:
        """The arguments in which a call is not the one that is meant."""
        wanted = self.arguments or {}
        return [
            f"{path} {short(wanted[path])} -> {', '.join(map(short, found_at(path, call.arguments))) or 'nothing'}"
            for path in self._unlike(call.arguments)
        ]

    def _unlike(self, arguments: object) -> list[str]:
        wanted = self.arguments or {}
        return [path for path, want in wanted.items() if not any(same(want, it) for it in found_at(path, arguments))]


def asked(wanted: Any) -> Asked:
    """A call from a name, or `{name, arguments}`."""
    if isinstance(wanted, str):
        return Asked(wanted, None)
    return Asked(wanted["name"], wanted.get("arguments") or None)


def tool_called(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """A tool was called: so often, with such arguments."""
    want, calls = asked(wanted), evidence.tool_calls
    fitting = [call for call in calls if want.grants(call.name, call.arguments)]
    least, most = bounds(wanted if isinstance(wanted, dict) else {})
    if least <= len(fitting) and (most is None or len(fitting) <= most):
        return HOLDS
    expected = f"{want} {times(least, most)}"
    there = f"{len(fitting)} of {len(calls)} calls"
    if len(fitting) < least:
        near = [] if fitting else tool_expectations.nearest(want, calls)
        return fails(f"tool {want.name} was not called so", expected, there, *near, all_calls(calls))
    late = fitting[most or 0]
    return fails(f"tool {want.name} was called too often", expected, there, f"  nearest   {late!r} in turn {late.turn}")


def tool_not_called(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """A tool was not called, or not with such arguments."""
    want = asked(wanted)
    hit = next((call for call in evidence.tool_calls if want.grants(call.name, call.arguments)), None)
    if hit is None:
        return HOLDS
    return fails(f"tool {want.name} was called in turn {hit.turn}", f"no call of {want}", repr(hit))


def forbidden_tools(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """None of these tools was called."""
    hit = next((call for call in evidence.tool_calls if call.name in wanted), None)
    if hit is None:
        return HOLDS
    return fails(f"tool {hit.name} is forbidden and was called in turn {hit.turn}", "no call of it", repr(hit))


def tool_failed(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """A call of this tool failed."""
    mine = [call for call in evidence.tool_calls if call.name == wanted]
    if any(map(failed, mine)):
        return HOLDS
    if mine:
        return fails(f"tool {wanted} did not fail", "a failed call", repr(mine[-1]))
    near = tool_expectations.nearest(Asked(wanted, None), evidence.tool_calls)
    return fails(
        f"tool {wanted} was not called", "a failed call", "no call of it", *near, all_calls(evidence.tool_calls)
    )


def failed(call: ToolCallView) -> bool:
    """Whether a call raised, was marked as an error by its protocol, or gave an object whose `error` is filled."""
    result = call.result
    return call.failed or (isinstance(result, dict) and bool(result.get("error") or result.get("is_error")))


def tool_order(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """The tools were called in this order."""
    ((how, items),) = wanted.items()
    wants, calls = [asked(item) for item in items], evidence.tool_calls
    lines = tool_expectations.mismatch_of(how)(calls, wants)
    return AnswerCheck(False, (*lines, all_calls(calls))) if lines else HOLDS


def repeated_call(wanted: Any, evidence: CaseEvidence) -> AnswerCheck:
    """One tool was called with the same arguments again and again: so often."""
    said = {"name": wanted} if isinstance(wanted, str) else wanted
    name = said.get("name", "")
    counts: dict[tuple[str, str], list[ToolCallView]] = {}
    for call in evidence.tool_calls:
        if name in {"", call.name}:
            counts.setdefault((call.name, spelled(call.arguments)), []).append(call)
    often = max(counts.values(), key=len, default=[])
    least, most = bounds({"at_least": 0 if "at_most" in said else 2, **said})
    if least <= len(often) and (most is None or len(often) <= most):
        return HOLDS
    there = f"{len(often)} times {often[0]!r}" if often else "no call of it"
    head = f"no call{f' of {name}' if name else ''} was repeated so often"
    if len(often) >= least:
        head = f"tool {often[0].name} was called the same way too often"
    return fails(head, f"the same call {times(least, most)}", there)


def spelled(arguments: Mapping[str, object]) -> str:
    """The one text of arguments that mean the same."""
    return json.dumps(arguments, sort_keys=True, default=repr)


def bounds(wanted: Mapping[str, Any]) -> tuple[int, int | None]:
    """At least, at most. Called means once or more, unless `at_least` says otherwise."""
    if "times" in wanted:
        return wanted["times"], wanted["times"]
    return wanted.get("at_least", 1), wanted.get("at_most")


def times(least: int, most: int | None) -> str:
    """The bounds in words."""
    if most is None:
        return f"at least {least} time{'s' * (least != 1)}"
    if least == most:
        return f"{least} time{'s' * (least != 1)}"
    return f"{least} to {most} times" if least else f"at most {most} time{'s' * (most != 1)}"


def all_calls(calls: Sequence[ToolCallView]) -> str:
    """The names of all calls, on a line."""
    return f"  all calls  {', '.join(call.name for call in calls) or 'none'}"
