"""What a case answers from: the exchanges of a recording by position, tolerated arguments, and who else may serve.

`Positions` has the recorded exchanges as they follow each other, in each lane those of one model, tool or endpoint.
A model says the same thing in other arguments: `Tolerant` takes what a case tolerates of them as it is recorded,
and answers to that; what is left differs, and is reported.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from pytest_agentreplay.compare.tolerance import view
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import FrameCall, ToolCall
from pytest_agentreplay.model.turns import divide, function_of, home, is_model, label

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from pytest_agentreplay.backends.backend import Moment
    from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
    from pytest_agentreplay.compare.tolerance import TolerancePolicy
    from pytest_agentreplay.model.exchanges import Call, Exchange, Failure, JsonObject, Outcome, ToolReply
    from pytest_agentreplay.model.reading import Reader

# What a call is put to: the class of its value, its connection, and "model" or the name of the tool or endpoint.
Part: TypeAlias = tuple[type, int | None, str]


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
        """Return what a call is put to: any model is one part, since a fix may take another."""
        sort = find_sort(call, self._reader)
        connection = call.connection if isinstance(call, FrameCall) else None
        return type(call), connection, "model" if sort == "model" else label(call, self._reader)

    def lane(self, moment: Moment, part: Part) -> str:
        """The told lane of a call: the one where its agent is due, else its own; for an unknown one where it began.

        What began nowhere that is known belongs to the lane that was first.
        """
        here = home(self.homes, moment.lane)
        theirs = self._agents.get(moment.agent, {}) if moment.agent else {}
        # The agent is known and has never called in this lane: its own lane is meant, whatever number that has now.
        if theirs and here not in theirs:
            return next((lane for lane in theirs if self._parts.get((lane, part))), here)
        return here if here in self.homes.values() else next(iter(self.homes.values()), here)

    def count_recorded(self, call: Call, moment: Moment) -> int:
        """Return how many replies are recorded in the lane and part of `call`, served ones too."""
        part = self.part(call)
        return self._had[self.lane(moment, part), part]

    def take_next(self, call: Call, moment: Moment, served: Collection[int]) -> Exchange | None:
        """Take the next exchange of the lane and part of `call`; None when all are served."""
        part = self.part(call)
        return _take_first(self._parts.get((self.lane(moment, part), part)), served)

    def take_by_arguments(self, call: Call, served: Collection[int]) -> Exchange | None:
        """Take the next exchange of the very same tool and arguments, of whatever lane."""
        tool = function_of(call, self._reader)
        for arguments in list_spellings(tool) if tool is not None else ():
            match = _take_first(self._by_arguments.get(f"{self.part(call)} {canonical(arguments)}"), served)
            if match is not None:
                return match
        return None

    def list_of_tool(self, call: Call, served: Collection[int]) -> list[tuple[Exchange, JsonObject]]:
        """The exchanges of the tool of `call` that are still to be given, of whatever lane, with their arguments."""
        queues = (queue for (_, part), queue in self._parts.items() if part == self.part(call))
        left = sorted((x for queue in queues for x in queue if x.start not in served), key=lambda x: x.start)
        return [(x, list_spellings(tool)[0]) for x in left if (tool := function_of(x.call, self._reader)) is not None]


def list_spellings(tool: ToolCall) -> tuple[JsonObject, ...]:
    """Return the arguments of a call as paths lead through them; and those without what the function takes by itself.

    A trace holds what the model asked for, and that is the second.
    """
    arguments = {name: view(value) for name, value in tool.arguments.items()}
    return (
        (arguments, {k: v for k, v in arguments.items() if k not in tool.defaults}) if tool.defaults else (arguments,)
    )


def _take_first(queue: deque[Exchange] | None, served: Collection[int]) -> Exchange | None:
    # Another queue may have given an exchange away: each stands in that of its position and of its arguments.
    while queue:
        exchange = queue.popleft()
        if exchange.start not in served:
            return exchange
    return None


class Tolerant:
    """What a case tolerates of arguments. Without any rule nothing is near enough."""

    def __init__(self, tolerances: TolerancePolicy | None) -> None:
        """`tolerances` are those of the case, where its model is live."""
        self._rules = tolerances

    def answer(self, fixtures: CaseFixtures, tool: ToolCall) -> tuple[ToolReply | Failure, bool] | None:
        """What the fixtures say to the first arguments they know that are near enough; raises CaseError as they do."""
        for recorded in fixtures.recorded_arguments(tool.name) if self._rules is not None else ():
            for arguments in list_spellings(tool):
                if answer := fixtures.answer(tool.name, self._settle(tool.name, recorded, arguments)):
                    return answer
        return None

    def find_recorded(self, left: Iterable[tuple[Exchange, JsonObject]], tool: ToolCall | None) -> Exchange | None:
        """Return the first of the recorded calls that are left whose arguments are near enough."""
        rules = self._rules
        if rules is None or tool is None:
            return None
        pairs = ((x, recorded, arguments) for x, recorded in left for arguments in list_spellings(tool))
        return next(
            (x for x, recorded, arguments in pairs if rules.is_near(tool.name, recorded, arguments, "arguments")), None
        )

    def nearest_call(self, left: Sequence[tuple[Exchange, JsonObject]], call: Call, progress: ReplayProgress) -> Call:
        """`call` as people are told how it differs: what is tolerated of it as the nearest recorded call has it."""
        if self._rules is None or not isinstance(call, ToolCall):
            return call
        parted = [
            (x, replace(call, arguments=self._settle(call.name, recorded, arguments)))
            for x, recorded in left
            for arguments in list_spellings(call)
        ]
        return min(parted, key=lambda pair: len(progress.compare(pair[0].call, pair[1])), default=(None, call))[1]

    def _settle(self, tool: str, recorded: JsonObject, arguments: JsonObject) -> JsonObject:
        settled = self._rules.settle(tool, recorded, arguments, "arguments") if self._rules is not None else arguments
        assert isinstance(settled, dict)
        return settled


ServeMode: TypeAlias = Literal["strict", "position", "arguments", "live"]
Sort: TypeAlias = Literal["model", "tools", "other"]

SORTS: tuple[Sort, ...] = ("model", "tools", "other")


class CaseFixtures(Protocol):
    """The frozen tools of a case."""

    def answer(self, tool: str, arguments: JsonObject) -> tuple[ToolReply | Failure, bool] | None:
        """What the tool gives to these arguments, and whether a hand has written that; None where nobody knows."""

    def recorded_arguments(self, tool: str) -> Iterable[JsonObject]:
        """Return the arguments to which the answers of a tool are known."""

    def advice(self, tool: str, arguments: JsonObject) -> tuple[str, ...]:
        """Return the nearest fixture and the lines to write, for people, where nobody knows an answer."""


class Meaning(Protocol):
    """When two calls are the same, where that is not said by their bytes."""

    def text(self, call: Call) -> str:
        """Return a text of a call; two calls are the same where their texts are."""

    def plainly(self, call: Call) -> Call:
        """Return the call with nothing but what is compared, to tell people how two differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPolicy:
    """How each sort of call is served, and with what.

    Without a `meaning` the bytes of calls are compared. `tolerances` say which arguments of a tool's call are near
    enough to known ones, where a live model makes them.
    `retell` gives what came back to a recorded call (the second) in the form in which another one asks for it, `spell`
    what a tool gave as what comes back over a wire, like what was recorded there; each None where it cannot.
    """

    model: ServeMode = "strict"
    tools: ServeMode = "strict"
    other: ServeMode = "strict"
    fixtures: CaseFixtures | None = None
    meaning: Meaning | None = None
    retell: Callable[[Call, Call, Outcome], Outcome | None] | None = None
    spell: Callable[[Call, Outcome, Outcome | None], Outcome | None] | None = None
    tolerances: TolerancePolicy | None = None

    def way(self, sort: Sort) -> ServeMode:
        """Return how calls of a sort are served."""
        ways: dict[Sort, ServeMode] = {"model": self.model, "tools": self.tools, "other": self.other}
        return ways[sort]

    @property
    def strict(self) -> bool:
        """Whether nothing is answered but the recorded calls."""
        return all(self.way(sort) == "strict" for sort in SORTS)


def find_sort(call: Call, reader: Reader) -> Sort:
    """Whether a model is asked, or a tool (over a wire too, and a retrieval of this process), or anything else."""
    if is_model(call, reader):
        return "model"
    return "tools" if function_of(call, reader) is not None else "other"
