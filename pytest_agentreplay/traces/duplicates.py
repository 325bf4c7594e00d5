"""Several records of one call: a wrapper and the SDK that it calls, or two instrumentations of one client.

Two records are of one call only if they show it: the same response id, or one within the time of the other with the
same request or reply, or without any. Two calls, one of which was made inside the other, stay two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers.lenient import arr, obj
from pytest_agentreplay.traces.chains import part_key, parts
from pytest_agentreplay.traces.formats import grouped
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.traces.trace import Step

_MERGED = "{} records repeat calls that other records hold: each call is kept once"
_ROUNDING = 1_000_000
"""Nanoseconds by which a record may end after the one around it: many clocks count milliseconds."""


def merge_duplicates(steps: Sequence[Step], around: Mapping[str, str]) -> tuple[list[Step], list[str]]:
    """Return the steps, each call once, and a sentence on the records that were merged, where there are any.

    `around` has for the id of a step the id of the nearest step or agent in which it happened.
    """
    kept = dict(enumerate(steps))
    places = {step.id: at for at, step in kept.items() if step.id}
    outer = [places.get(around.get(step.id, ""), -1) for step in steps]
    latest: dict[str, int] = {}
    for at in sorted(kept, key=lambda at: (steps[at].started or 0, -(steps[at].ended or 0))):
        if isinstance(call := steps[at], ModelCall):
            silent, place = not _has_content(call), f"{call.model} in {call.parent}"
            before = latest.get(call.response_id, latest.get(place, at) if silent and call.started else at)
            if before != at and outer[before] != at and _is_same(steps[before], call):
                outer[at] = before
            latest.setdefault(call.response_id or place, at)
            latest |= {} if silent else {place: at}
    inside = grouped(kept, outer.__getitem__)
    order = [*inside.get(-1, ())]
    for at in order:
        order += inside.get(at, ())
    for at in reversed(order):
        same = [inner for inner in inside.get(at, ()) if inner in kept and _is_same(kept[at], kept[inner])]
        if sum(_has_content(kept[inner]) for inner in same) > 1:
            inside.setdefault(outer[at], []).extend(same)  # what is around several calls is none of them
            del kept[at]
        else:
            for inner in same:
                kept[at] = _richer(kept[at], kept.pop(inner))
    return [*kept.values()], [_MERGED.format(len(steps) - len(kept))] if len(kept) < len(steps) else []


def _is_same(outer: Step, inner: Step) -> bool:
    """Return whether a record inside or beside another is of the same call."""
    if isinstance(outer, ModelCall) and isinstance(inner, ModelCall):
        named = outer.response_id == inner.response_id != ""
        alike = named or "" in {outer.response_id, inner.response_id}
    elif isinstance(outer, ToolRun) and isinstance(inner, ToolRun):
        named, alike = False, outer.name == inner.name
        if not alike or (outer.call_id and inner.call_id):
            return outer.call_id == inner.call_id != ""
    else:
        return False
    equal = [mine == its for mine, its in zip(_list_content(outer), _list_content(inner), strict=True) if mine and its]
    if not (any(equal) if equal else alike):
        return False
    end, started, ended = outer.ended, inner.started or 0, inner.ended or 0
    return end is None or (named and not equal) or (started <= end and (named or ended <= end + _ROUNDING))


def _has_content(step: Step) -> bool:
    return isinstance(step, ModelCall) and bool(step.messages or (step.reply or {}).get("parts"))


def _list_content(step: Step) -> tuple[list[Any], ...]:
    """Return what a call was asked and answered, as another record of it has the same, ids aside."""
    if isinstance(step, ToolRun):
        fields = obj(step.arguments)
        return [canonical(fields.get("kwargs", fields))] if fields and not arr(fields.get("args")) else [], []
    sides = (step.messages, [step.reply or {}])
    return tuple([part_key(role, part | {"id": ""}) for role, part in parts(side)] for side in sides)


def _richer(outer: Step, inner: Step) -> Step:
    """Return one step of two records of it: the one that has more, filled up from the other."""
    if isinstance(outer, ModelCall) and isinstance(inner, ModelCall):
        return fill_up(inner, outer) if _weight(inner) >= _weight(outer) else fill_up(outer, inner)
    assert isinstance(outer, ToolRun)
    assert isinstance(inner, ToolRun)
    return replace(
        outer,
        call_id=outer.call_id or inner.call_id,
        arguments=inner.arguments if outer.arguments is None else outer.arguments,
        result=inner.result if outer.result == UNKNOWN else outer.result,
        fault=outer.fault or inner.fault,
    )


def fill_up(call: ModelCall, other: ModelCall) -> ModelCall:
    """Return the call with what it lacks from the other."""
    lacking = [name for name in ModelCall.__dataclass_fields__ if not getattr(call, name)]
    return replace(call, **{name: getattr(other, name) for name in lacking})


def _weight(call: ModelCall) -> tuple[bool, int, bool]:
    return call.request is not None, len(call.messages), call.reply is not None
