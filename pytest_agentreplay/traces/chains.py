"""Which model call goes on from which, and which records are of one call.

Every request of an agent says again what was said before it. A call goes on from the one whose messages and reply begin
its own, the longest such beginning counts. Where a program has changed its history no beginning fits, and the ids of
tool calls tell; where the provider keeps the history, the id of the response does.

A wrapper and the SDK that it calls, or two instrumentations of one client, record a call twice. Two records are of one
call only if they show it: the same response id, or one within the time of the other with the same request or reply, or
without any. Two calls, one of which was made inside the other, stay two.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, string
from pytest_agentreplay.traces.formats import group_by
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.trace import Step

_BEGINNING = 2
"""Messages by which conversations are told apart: many of them share their instructions."""


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A call goes on from the call number `before`; `added` are the parts that it says beyond that one's request.

    `rewritten` says that the history is not what was asked and answered.
    """

    before: int
    added: tuple[JsonObject, ...]
    rewritten: bool = False


def links(calls: Sequence[ModelCall]) -> list[ChainLink | None]:
    """For each call the one that it goes on from; None where a conversation begins."""
    history = _Known(calls)
    return [history.add(index) for index in range(len(calls))]


def parts(messages: Iterable[JsonObject]) -> list[tuple[str, JsonObject]]:
    """What messages say, part by part with its role; thoughts are no part of it, few APIs take them back."""
    return [
        (string(message.get("role")), part)
        for message in messages
        for part in objects(message.get("parts"))
        if part.get("type") != "reasoning"
    ]


def tool_calls(call: ModelCall) -> list[JsonObject]:
    """The parts of a reply that ask for tools."""
    return [part for _, part in parts([call.reply or {}]) if part.get("type") == "tool_call"]


def arguments(part: JsonObject) -> Json:
    """The arguments of a tool call; some APIs write none as an empty text."""
    value = parse_text(part.get("arguments"))
    return {} if value in ("", None) else value


class _Known:
    """The calls so far, by the ways in which a later one can be known to go on from them."""

    def __init__(self, calls: Sequence[ModelCall]) -> None:
        self.calls = calls
        self.ends: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        """What was said up to here -> the calls that end so, and whether their reply is part of it."""
        self.minted: dict[tuple[str, str], int] = {}
        self.responses: dict[str, int] = {}
        self.taken: set[int] = set()
        self.lately: dict[str, _Line] = {}
        """What was said last, by how it begins."""

    def add(self, index: int) -> ChainLink | None:
        """The link of the next call, which is known from now on."""
        call = self.calls[index]
        begun = canonical([*call.messages[:_BEGINNING]])
        line = self.lately.get(begun)
        if line is None or not line.leads_to(call):
            line = self.lately[begun] = _Line(call.dialect)
        line.go_on(call.messages)
        link = self._kept_elsewhere(call, line.parts)
        link = link or next((best for trail in line.trails if (best := self._longest(trail, line.parts))), None)
        link = link or self._by_tool_calls(call, line.parts)
        if link is not None:
            self.taken.add(link.before)
        self._register(index, line.trails)
        return link

    def _register(self, index: int, trails: list[list[int]]) -> None:
        call = self.calls[index]
        answered = parts([call.reply or {}])
        keys = [part_key("assistant", part) for _, part in answered]
        for trail in trails:
            self.ends[trail[-1]].append((index, False))
            if answered:
                end = list(accumulate(keys, _mix_keys, initial=trail[-1]))[-1]
                self.ends[end].append((index, True))
        for part in tool_calls(call):
            if string(part.get("id")):
                self.minted[call.dialect, string(part["id"])] = index
        if call.response_id:
            self.responses[call.response_id] = index

    def _longest(self, trail: list[int], parts: list[JsonObject]) -> ChainLink | None:
        for length in range(len(parts), 0, -1):
            candidates = [
                (before, answered)
                for before, answered in self.ends.get(trail[length], ())
                # The same request again is another run, unless it is tried again after a failure.
                if answered or length < len(parts) or self.calls[before].reply is None
            ]
            if candidates:
                before, answered = next(
                    (candidate for candidate in reversed(candidates) if candidate[0] not in self.taken), candidates[-1]
                )
                rewritten = not answered and self.calls[before].reply is not None
                return ChainLink(before, tuple(parts[length:]), rewritten)
        return None

    def _kept_elsewhere(self, call: ModelCall, parts: list[JsonObject]) -> ChainLink | None:
        before = self.responses.get(string(call.parameters.get("previous_response_id")))
        return ChainLink(before, tuple(parts)) if before is not None else None

    def _by_tool_calls(self, call: ModelCall, parts: list[JsonObject]) -> ChainLink | None:
        for at in range(len(parts) - 1, -1, -1):
            before = self.minted.get((call.dialect, string(parts[at].get("id"))))
            if before is not None and string(parts[at].get("type")) in {"tool_call", "tool_call_response"}:
                own = [part for part in parts if self.minted.get((call.dialect, string(part.get("id")))) == before]
                return ChainLink(before, tuple(own), rewritten=True)
        return None


class _Line:
    """What the requests of one conversation say, part by part; each goes on where the one before it ended."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.messages: tuple[JsonObject, ...] = ()
        self.parts: list[JsonObject] = []
        """The parts without the instructions."""
        self.trails: list[list[int]] = []
        """A key for all that was said up to each part: with the instructions, and without them."""

    def leads_to(self, call: ModelCall) -> bool:
        """Whether the request of `call` begins as the last one did, word for word."""
        return self.dialect == call.dialect and call.messages[: len(self.messages)] == self.messages

    def go_on(self, messages: tuple[JsonObject, ...]) -> None:
        """Say what `messages` say beyond those that were said."""
        spoken = parts(messages[len(self.messages) :])
        if not self.trails or any(role == "system" for role, _ in spoken):
            spoken = parts(messages)
            system = canonical([part for role, part in spoken if role == "system"])
            self.parts, self.trails = [], [[hash((self.dialect, system))], [hash(self.dialect)]]
        for role, part in spoken:
            if role != "system":
                key = part_key(role, part)
                self.parts.append(part)
                for trail in self.trails:
                    trail.append(_mix_keys(trail[-1], key))
        self.messages = messages


def _mix_keys(before: int, key: int) -> int:
    return hash((before, key))


def part_key(role: str, part: JsonObject) -> int:
    """One number for all ways to write the same part."""
    kind = part.get("type")
    if kind == "text":
        return hash((role == "assistant", string(part.get("content"))))
    if kind == "tool_call":
        return hash((string(part.get("id")), string(part.get("name")), canonical(arguments(part))))
    if kind == "tool_call_response":
        return hash((string(part.get("id")), canonical(parse_text(part.get("response")))))
    return hash(canonical(part))


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
    inside = group_by(kept, outer.__getitem__)
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
        is_same_id = outer.response_id == inner.response_id != ""
        alike = is_same_id or "" in {outer.response_id, inner.response_id}
    elif isinstance(outer, ToolRun) and isinstance(inner, ToolRun):
        is_same_id, alike = False, outer.name == inner.name
        if not alike or (outer.call_id and inner.call_id):
            return outer.call_id == inner.call_id != ""
    else:
        return False
    equal = [mine == its for mine, its in zip(_list_content(outer), _list_content(inner), strict=True) if mine and its]
    if not (any(equal) if equal else alike):
        return False
    end, started, ended = outer.ended, inner.started or 0, inner.ended or 0
    return end is None or (is_same_id and not equal) or (started <= end and (is_same_id or ended <= end + _ROUNDING))


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
