"""Turns: how people count a run. Derived from the exchanges, never stored.

Rules of this module:
- A turn is a model exchange and all that follows it in its lane until the next one; turn 0 came before any of them.
  An SDK's retries of one request are one turn.
- Only top-level exchanges count; what happened inside another exchange belongs to it.
- Where agents have names, the turns of each are counted in its lane; a turn is of the agent that asked its model.
- Reports name few lanes: a lane that asked no model (a task around one tool) counts in the lane that started it,
  and so does one whose model calls ran while nobody else's did (a task around one model call).
- Lanes side by side in which one agent talks, one lane after the other, are one lane (a task around each of its calls).

Also what the calls of a run say about it: which of them change something outside, and whether it is an outage, in which
no call of a model was answered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.model.exchanges import Failure, FramesReply, HttpCall, HttpReply, ToolCall, ToolReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Call, Exchange, Outcome, Run
    from pytest_agentreplay.model.reading import Reader


class Turn(NamedTuple):
    """One turn: `number` counts from 1 for `agent` in `lane` (0: before any model call); `model` is None in turn 0.

    `exchanges` are all top-level ones in order of start, `model` among them (its last attempt). `who` tells people
    whose turn it is: "researcher", "researcher main.2" where that name has several lanes, "lane main.2" without a
    name, and "" in a run that has nobody else.
    """

    number: int
    lane: str
    model: Exchange | None
    exchanges: tuple[Exchange, ...]
    agent: str = ""
    who: str = ""

    @property
    def title(self) -> str:
        """The turn as reports show it: "turn 4", "researcher turn 4", "turn 4 of lane main.2"."""
        if self.agent and self.who:
            return f"{self.who} turn {self.number}"
        return f"turn {self.number} of {self.who}" if self.who else f"turn {self.number}"


class TurnPosition(NamedTuple):
    """Where an exchange stands: its turn, of how many in its strand, and which call of how many in the whole run."""

    turn: Turn
    turns: int
    position: int
    positions: int


def is_model(call: Call, reader: Reader) -> bool:
    """Whether a turn begins here."""
    if isinstance(call, ToolCall):
        return call.boundary == "model"
    return reader.read_call(call).kind == "model"


def tool_of(call: Call, reader: Reader) -> ToolCall | None:
    """The tool call that `call` is, or asks for over a wire; None for what is no tool call."""
    function = function_of(call, reader)
    return function if function is not None and function.boundary == "tool" else None


def function_of(call: Call, reader: Reader) -> ToolCall | None:
    """As `tool_of`, for retrievals too: whatever function is called that is no model."""
    if isinstance(call, ToolCall):
        return None if call.boundary == "model" else call
    reading = reader.read_call(call)
    return ToolCall(reading.name, reading.parameters) if reading.kind == "tool" else None


def label(call: Call, reader: Reader) -> str:
    """A call as reports show it: "tool refund", "model gpt-5", "retrieval search", "embeddings e-3", "GET a.b/c"."""
    if isinstance(call, ToolCall):
        return f"{call.boundary} {call.name}"
    reading = reader.read_call(call)
    return reading.name if reading.kind == "http" else f"{reading.kind} {reading.name}"


def top_level(run: Run) -> list[Exchange]:
    """The exchanges that are not part of another one, in order of start."""
    return [exchange for exchange in run.exchanges if exchange.parent is None]


def turns(run: Run, reader: Reader) -> tuple[Turn, ...]:
    """All turns of a run, lane by lane in order of their first exchange. Turn 0 is there when it is not empty."""
    return divide(top_level(run), reader)[0]


def homes(run: Run, reader: Reader) -> dict[str, str]:
    """For each lane that holds a top-level exchange, the lane that reports name."""
    return divide(top_level(run), reader)[1]


def divide(exchanges: Iterable[Exchange], reader: Reader) -> tuple[tuple[Turn, ...], dict[str, str]]:
    """The turns of top-level exchanges given in order of start, and the told lane of each lane."""
    exchanges = list(exchanges)
    return divide_at(exchanges, {exchange.start for exchange in exchanges if is_model(exchange.call, reader)})


def divide_at(exchanges: list[Exchange], models: set[int]) -> tuple[tuple[Turn, ...], dict[str, str]]:
    """As `divide`, where it is known which exchanges, by their `start`, ask a model."""
    lane_homes = _find_homes(exchanges, models)
    sequences: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        sequences.setdefault(lane_homes[exchange.lane], []).append(exchange)
    return _name_owners(
        [turn for lane, sequence in sequences.items() for turn in _split(lane, sequence, models)]
    ), lane_homes


def place(run: Run, reader: Reader, exchange: Exchange) -> tuple[int, int, int, int]:
    """Where an exchange stands: (turn, turns, position, positions); see `Divergence`.

    An exchange that happened inside another one stands where the outermost one does. Raises ValueError for one
    that is not of this run.
    """
    position = seat(turns(run, reader), outermost(run, exchange))
    return position.turn.number, position.turns, position.position, position.positions


def outermost(run: Run, exchange: Exchange) -> Exchange:
    """The top-level exchange that `exchange` is or belongs to."""
    if exchange.parent is None:
        return exchange
    by_start = {other.start: other for other in run.exchanges}
    parent: int | None = exchange.parent
    while parent is not None and parent in by_start:
        exchange = by_start[parent]
        parent = exchange.parent
    return exchange


def seat(all_turns: tuple[Turn, ...], exchange: Exchange) -> TurnPosition:
    """Like `place`, over turns that are at hand."""
    for turn in all_turns:
        if any(exchange.start == other.start for other in turn.exchanges):
            last = max(other.number for other in all_turns if (other.lane, other.agent) == (turn.lane, turn.agent))
            starts = [other.start for each in all_turns for other in each.exchanges]
            return TurnPosition(turn, last, sum(start <= exchange.start for start in starts), len(starts))
    msg = f"exchange {exchange.start} is not of this run"
    raise ValueError(msg)


def home(lane_homes: Mapping[str, str], lane: str) -> str:
    """The told lane of `lane`, which need not have been seen before: then that of its nearest known ancestor."""
    while lane not in lane_homes and "." in lane:
        lane = lane.rpartition(".")[0]
    return lane_homes.get(lane, lane)


def _split(lane: str, sequence: list[Exchange], models: set[int]) -> list[Turn]:
    """Cut one lane into turns. A retry continues the turn of the attempt before it."""
    cuts: list[tuple[Exchange | None, list[Exchange]]] = [(None, [])]
    for exchange in sequence:
        last = cuts[-1][0]
        if exchange.start in models:
            if last is not None and exchange.attempt > last.attempt and exchange.call == last.call:
                cuts[-1] = (exchange, cuts[-1][1])
            else:
                cuts.append((exchange, []))
        cuts[-1][1].append(exchange)
    begun = [(model.agent if model else "", exchanges) for model, exchanges in cuts]
    # What came before any model call is of the agent that asks first, or of whom the calls are.
    begun[0] = begun[1][0] if len(begun) > 1 else next((x.agent for x in sequence if x.agent), ""), begun[0][1]
    numbers = Counter({begun[0][0]: -1})
    lane_turns = []
    for (model, exchanges), (agent, _) in zip(cuts, begun, strict=True):
        numbers[agent] += 1
        lane_turns.append(Turn(numbers[agent], lane, model, tuple(exchanges), agent))
    return lane_turns if cuts[0][1] else lane_turns[1:]


def _name_owners(unnamed: list[Turn]) -> tuple[Turn, ...]:
    """Return the turns, each with the words for whose it is."""
    sequences = {(turn.lane, turn.agent) for turn in unnamed}
    if len(sequences) < 2:
        return tuple(unnamed)
    lanes = Counter(agent for _, agent in sequences)
    owners = {
        (lane, agent): agent if agent and lanes[agent] == 1 else f"{agent or 'lane'} {lane}"
        for lane, agent in sequences
    }
    return tuple(turn._replace(who=owners[turn.lane, turn.agent]) for turn in unnamed)


def _find_homes(exchanges: list[Exchange], models: set[int]) -> dict[str, str]:
    """Return the lane that reports name for each lane, by the rules at the top of this file."""
    talk: dict[str, list[Exchange]] = {}
    for exchange in exchanges:
        if exchange.start in models:
            talk.setdefault(exchange.lane, []).append(exchange)
    apart = _find_apart(talk)
    lane_homes = _join_lanes(talk, apart)

    def find(lane: str) -> str:
        if lane not in lane_homes:
            parent = lane.rpartition(".")[0]
            lane_homes[lane] = lane if not parent or lane in apart else find(parent)
        return lane_homes[lane]

    return {exchange.lane: find(exchange.lane) for exchange in exchanges}


def _join_lanes(talk: dict[str, list[Exchange]], apart: set[str]) -> dict[str, str]:
    """Return that lane for those in which nobody but one named agent talks, where these lanes never overlap."""
    theirs: dict[tuple[str, str], list[str]] = {}
    for lane, exchanges in talk.items():
        agent = exchanges[0].agent
        if agent and all(exchange.agent == agent for exchange in exchanges):
            theirs.setdefault((lane.rpartition(".")[0], agent), []).append(lane)
    lane_homes: dict[str, str] = {}
    for lanes in theirs.values():
        ends = [max(exchange.finish or exchange.start for exchange in talk[lane]) for lane in lanes]
        one_by_one = all(end < talk[lane][0].start for end, lane in zip(ends, lanes[1:], strict=False))
        if one_by_one and not apart.isdisjoint(lanes):
            lane_homes |= dict.fromkeys(lanes, lanes[0])
    return lane_homes


def _find_apart(talk: dict[str, list[Exchange]]) -> set[str]:
    """Return the lanes whose conversation ran beside that of a sibling or of the lane that started them."""
    spans: dict[str, list[tuple[int, int, str]]] = {}
    apart = set()
    for lane, exchanges in talk.items():
        parent = lane.rpartition(".")[0]
        span = (exchanges[0].start, max(exchange.finish or exchange.start for exchange in exchanges), lane)
        spans.setdefault(parent, []).append(span)
        starts = [exchange.start for exchange in talk.get(parent, ())]
        if bisect_left(starts, span[0]) != bisect_left(starts, span[1]):
            apart.add(lane)
        else:
            before = bisect_left(starts, span[0]) - 1
            if before >= 0 and (talk[parent][before].finish or 0) > span[0]:
                apart.add(lane)
    for siblings in spans.values():
        siblings.sort()
        furthest, holder = -1, ""
        for start, end, lane in siblings:
            if holder and start < furthest:
                apart.update((lane, holder))
            if end > furthest:
                furthest, holder = end, lane
    return apart


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def has_effects(call: Call, reader: Reader, reads: Callable[[str], bool]) -> bool:
    """Whether a call may change something. `reads` knows the tools, by name, that were declared to change nothing."""
    tool = function_of(call, reader)
    if tool is not None:
        return tool.boundary == "tool" and not reads(tool.name)
    if not isinstance(call, HttpCall) or call.method in SAFE_METHODS:
        return False
    return reader.read_call(call).kind == "http"


REFUSED = frozenset({401, 402, 403, 407, 408, 429})
"""Statuses below 500 by which a service refuses whoever asks. Others (400, 404, 422) answer what was asked."""


def outage(run: Run, reader: Reader) -> str:
    """Why no model call of `run` was answered, by its last one; "" where one was, or where none was made."""
    reasons = [_find_reason(x.outcome) for x in run.exchanges if is_model(x.call, reader)]
    return reasons[-1] if reasons and all(reasons) else ""


def _find_reason(outcome: Outcome | None) -> str:
    """Return what came in the place of an answer; "" for an answer, a part of one, and a call that was given up."""
    match outcome:
        case Failure():
            return "" if outcome.cancelled else _describe_failure(outcome)
        case HttpReply(status=status) if status >= 500 or status in REFUSED:
            return f"{status} {outcome.reason}".rstrip()
        case HttpReply(failure=Failure(cancelled=False) as failure) if not outcome.body.data:
            return _describe_failure(failure)
        case FramesReply(failure=Failure() as failure) if not outcome.body.data:
            return _describe_failure(failure)
        case ToolReply(failure=Failure() as failure) if not outcome.items:
            return _describe_failure(failure)
        case _:
            return ""


def _describe_failure(failure: Failure) -> str:
    name = failure.type.rpartition(".")[2]
    message = failure.message.strip().partition("\n")[0]
    return f"{name}: {message}" if message else name
