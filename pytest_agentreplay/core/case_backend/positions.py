"""The recorded exchanges as they follow each other: in each lane those of one model, tool or endpoint."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.core.case_backend.case_backend import sort_of
from pytest_agentreplay.core.model import FrameCall
from pytest_agentreplay.core.tolerance import view
from pytest_agentreplay.core.turns import divide, function_of, home, label

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_agentreplay.core.backends.backend import Moment
    from pytest_agentreplay.core.model import Call, Exchange, JsonObject, ToolCall
    from pytest_agentreplay.core.reading import Reader

Part: TypeAlias = tuple[type, int | None, str]
"""What a call is put to: the class of its value, its connection, and "model" or the name of the tool or endpoint."""


class Positions:
    """Top-level exchanges in order of start, each to be taken once; what was given up has no reply and is left out."""

    def __init__(self, exchanges: Sequence[Exchange], reader: Reader) -> None:
        """Reads every call."""
        self._reader = reader
        self.homes = divide(exchanges, reader)[1]
        self._parts: dict[tuple[str, Part], deque[Exchange]] = defaultdict(deque)
        self._agents: dict[str, dict[str, None]] = defaultdict(dict)
        self._by_arguments: dict[str, deque[Exchange]] = defaultdict(deque)
        self._had: Counter[tuple[str, Part]] = Counter()
        for x in exchanges:
            if x.abandoned:
                continue
            lane, part = self.homes[x.lane], self.part(x.call)
            self._parts[lane, part].append(x)
            self._had[lane, part] += 1
            self._agents[x.agent][lane] = None
            if (tool := function_of(x.call, reader)) is not None:
                self._by_arguments[f"{part} {canonical(view(tool.arguments))}"].append(x)

    def part(self, call: Call) -> Part:
        """What a call is put to: any model is one part, since a fix may take another."""
        sort = sort_of(call, self._reader)
        connection = call.connection if isinstance(call, FrameCall) else None
        return type(call), connection, "model" if sort == "model" else label(call, self._reader)

    def lane(self, moment: Moment, part: Part) -> str:
        """The told lane of a call: the one where its agent is due, else its own; for an unknown one where it began.

        What began nowhere that is known belongs to the lane that was first.
        """
        here = home(self.homes, moment.lane)
        theirs = self._agents.get(moment.agent, {}) if moment.agent else {}
        if theirs and here not in theirs:
            return next((lane for lane in theirs if self._parts.get((lane, part))), here)
        return here if here in self.homes.values() else next(iter(self.homes.values()), here)

    def had(self, call: Call, moment: Moment) -> int:
        """How many replies are recorded in the lane and part of `call`, served ones too."""
        part = self.part(call)
        return self._had[self.lane(moment, part), part]

    def next(self, call: Call, moment: Moment, served: Collection[int]) -> Exchange | None:
        """Take the next exchange of the lane and part of `call`; None when all are served."""
        part = self.part(call)
        return _first(self._parts.get((self.lane(moment, part), part)), served)

    def of_arguments(self, call: Call, served: Collection[int]) -> Exchange | None:
        """Take the next exchange of the very same tool and arguments, of whatever lane."""
        tool = function_of(call, self._reader)
        for arguments in said_as(tool) if tool is not None else ():
            match = _first(self._by_arguments.get(f"{self.part(call)} {canonical(arguments)}"), served)
            if match is not None:
                return match
        return None

    def of_tool(self, call: Call, served: Collection[int]) -> list[tuple[Exchange, JsonObject]]:
        """The exchanges of the tool of `call` that are still to be given, of whatever lane, with their arguments."""
        queues = (queue for (_, part), queue in self._parts.items() if part == self.part(call))
        left = sorted((x for queue in queues for x in queue if x.start not in served), key=lambda x: x.start)
        return [(x, said_as(tool)[0]) for x in left if (tool := function_of(x.call, self._reader)) is not None]


def said_as(tool: ToolCall) -> tuple[JsonObject, ...]:
    """The arguments of a call as paths lead through them; and those without what the function takes by itself.

    A trace holds what the model asked for, and that is the second.
    """
    arguments = {name: view(value) for name, value in tool.arguments.items()}
    return (
        (arguments, {k: v for k, v in arguments.items() if k not in tool.defaults}) if tool.defaults else (arguments,)
    )


def _first(queue: deque[Exchange] | None, served: Collection[int]) -> Exchange | None:
    while queue:
        exchange = queue.popleft()
        if exchange.start not in served:
            return exchange
    return None
