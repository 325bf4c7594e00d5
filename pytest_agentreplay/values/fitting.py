"""A call of now beside a recorded one: without what the recording does not compare.

That is what frozen tools had changed in an object by then ("changed"), what a recorded closure of a function does not
hold, and in a file without the entry "arguments" in its kit, such as a trace of another tool, the receiver.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import SELF

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject, ToolCall

CLOSURE = "types.SimpleNamespace"
"""The class that a receiver is written with where it is what the closure of a function holds."""

_PORTS = re.compile(r'((?:127\.0\.0\.1|0\.0\.0\.0|localhost|::1\]?)(?::|",)|["_]port":)\d+')
"""Ports of local services, which are others in each process, in the text of a receiver."""

_STATEFUL = frozenset({"$state", "$object"})


def fit_call(recorded: ToolCall, now: ToolCall, *, receivers: bool = True) -> ToolCall:
    """Return `now` with the parts of `recorded` that are not compared in place of its own.

    `receivers` says whether the recording holds those of its calls.
    """
    arguments = cast("JsonObject", _fit_value(recorded.arguments, now.arguments))
    facts = dict(now.facts)
    closure = _read_closure(facts.get(SELF))
    if closure is not None and _read_closure(recorded.facts.get(SELF)) is None:
        # A recording without the closure has the receiver that the closure holds as `self`, or nothing of it.
        facts[SELF] = closure.get(SELF)
        receivers = False
    if SELF in facts and SELF in recorded.facts:
        was = recorded.facts[SELF]
        fitted = _fit_value(was, facts.pop(SELF))
        is_same = _PORTS.sub(r"\1", canonical(fitted)) == _PORTS.sub(r"\1", canonical(was))
        facts[SELF] = was if is_same else fitted
    elif not receivers:
        facts.pop(SELF, None)
    return replace(now, arguments=arguments, facts=facts)


def _read_closure(receiver: Json) -> JsonObject | None:
    node = _read_node(receiver)
    return cast("JsonObject", node[1][1]) if node is not None and node[1][0] == CLOSURE else None


def has_changes(call: ToolCall) -> bool:
    """Whether something of a call is not compared because a frozen tool has changed it."""
    return _has_changes(call.arguments) or _has_changes(call.facts.get(SELF))


def _has_changes(data: Json) -> bool:
    if isinstance(data, dict):
        node = _read_node(data)
        return (node is not None and len(node[1]) > 2) or any(map(_has_changes, data.values()))
    return isinstance(data, list) and any(map(_has_changes, data))


def _read_node(data: Json) -> tuple[str, list[Any]] | None:
    """The tag and the parts of a written instance; None of anything else."""
    if isinstance(data, dict) and len(data) == 1:
        ((tag, payload),) = data.items()
        if tag in _STATEFUL and isinstance(payload, list) and len(payload) > 1 and isinstance(payload[1], dict):
            return tag, payload
    return None


def _fit_value(recorded: Json, now: Json) -> Json:
    was, here = _read_node(recorded), _read_node(now)
    if was is not None and here is not None and was[0] == here[0] and was[1][0] == here[1][0]:
        return {was[0]: _fit_instance(was[1], here[1])}
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        return [_fit_value(a, b) for a, b in zip(recorded, now, strict=True)]
    return _fit_fields(recorded, now) if isinstance(recorded, dict) and isinstance(now, dict) else now


def _fit_fields(recorded: JsonObject, now: JsonObject) -> JsonObject:
    return {name: _fit_value(recorded[name], part) if name in recorded else part for name, part in now.items()}


def _fit_instance(recorded: list[Any], now: list[Any]) -> list[Any]:
    """Both states without what has changed on either side: that stands in both as it was recorded."""
    changed = {name for side in (recorded, now) for name in _list_changed(side)}
    if recorded[0] == CLOSURE:
        changed |= now[1].keys() - recorded[1].keys()
    kept = {name: part for name, part in now[1].items() if name not in changed}
    restored = {name: part for name, part in recorded[1].items() if name in changed}
    return [recorded[0], _fit_fields(recorded[1], kept) | restored, *recorded[2:]]


def _list_changed(node: list[Any]) -> list[str]:
    match node:
        case [_, _, {"changed": list(names)}, *_]:
            return [name for name in names if isinstance(name, str)]
    return []
