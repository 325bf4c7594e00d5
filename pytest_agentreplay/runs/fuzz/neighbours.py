"""The neighbours of a run: which perturbations fit it, how they are drawn, the run that several make, and its clock."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import chain, combinations
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pytest_agentreplay.backends.order_permutations import draw_numbers
from pytest_agentreplay.backends.perturbation import ALONE, LASTING, NOT_DRAWN, OPERATORS, Perturbation
from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.model.turns import has_effects, is_model, top_level
from pytest_agentreplay.providers import READER
from pytest_agentreplay.runs.fuzz import content_changes, wire_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_agentreplay.model.exchanges import Exchange, Json, Outcome, Run


FAULTS = ("server-error", "partial-error", "html-error", "empty-error", "connection-reset", "timeout", "broken-body",
          "tool-reset")  # fmt: skip
# They are drawn first at calls that change something, and at the next ones: who repeats a call may do it twice.
FIRST = ("tool-error", "tool-reset", "connection-reset", "server-error")
STREAMS = ("split-stream", "stream-comments", "stream-crlf", "unknown-event", "unknown-field", "member-order",
           "cut-stream", "double-event")  # fmt: skip
REPLIES = ("malformed-arguments", "wrong-types", "negative-arguments", "unknown-tool", "repeated-use", "empty-answer",
           "refusal", "length", "endless-loop", "other-arguments", "other-tool", "other-answer")  # fmt: skip
RESULTS = ("tool-error", "null-result", "empty-result", "dropped-field", "wrong-type-result", "huge-result",
           "right-to-left", "other-unit", "injection", "stale-result", "shuffled-items", "dropped-item",
           "doubled-item")  # fmt: skip
# By operator, what lists the arguments by which it fits a call, and what makes the answer of a call another one.
FAMILIES: dict[str, tuple[Callable[..., Sequence[Json]], Callable[..., Outcome]]] = {
    **dict.fromkeys((*FAULTS, "outage"), (wire_changes.list_faults, wire_changes.make_fault)),
    **dict.fromkeys(STREAMS, (wire_changes.list_changes, wire_changes.change_bytes)),
    **dict.fromkeys(REPLIES, (content_changes.list_replies, content_changes.change_reply)),
    **dict.fromkeys(RESULTS, (content_changes.list_results, content_changes.change_result)),
}
WORDS = (*content_changes.WORD_CHANGES,)
"""They change what the agent is given, which a case alone knows."""
MOST_AT_ONCE = 3
"""Perturbations of one neighbour."""

NEAREST = 6
"""Orders of answers that are candidates of their own: those in which two answers have changed places come first, and
of four overlapping calls three such orders have shown a race."""

READ = re.compile(r"([^.=\s]+)\s*=\s*read(?:\s+as\s+(\S+))?\s*$")

Neighbour: TypeAlias = tuple[Perturbation, ...]


class Candidate(NamedTuple):
    """An operator that fits a call, with its arguments, the simplest first. The lowest rank is drawn first."""

    operator: str
    at: int
    arguments: Sequence[Json]
    rank: int = 3


def list_candidates(run: Run, *, orders: int = 0, words: bool = False, tools: Iterable[str] = ()) -> list[Candidate]:
    """Return what can be changed in a run.

    `orders` is the number of other orders in which its answers may come, `words` says that the agent's input is known,
    and `tools` are the lines that declare tools ("shop.lookup = read"): all but those that read change something.
    """
    reads = {match[2] or match[1] for line in tools if (match := READ.search(line))}
    calls = [*enumerate(top_level(run), 1)]
    effects = {at for at, x in calls if has_effects(x.call, READER, reads.__contains__)}
    candidates: list[Candidate] = []
    for at, exchange in calls:
        fitting = {operator: each for operator in OPERATORS if (each := list_arguments(operator, exchange, run))}
        fields = fitting.get("dropped-field", ())[:1]
        if {*fields} & {*fitting.get("other-unit", ())}:  # the field of a unit
            candidates.append(Candidate("dropped-field", at, fields, 1))
        candidates += [Candidate(operator, at, arguments) for operator, arguments in fitting.items()]
    candidates += [Candidate("completion-order", 0, (number,)) for number in range(1, min(orders, NEAREST) + 1)]
    if orders > NEAREST:
        candidates.append(Candidate("completion-order", 0, range(NEAREST + 1, orders + 1)))
    candidates += [Candidate("clock", at, instants) for at, instants in list_instants(run)]
    candidates += [Candidate(operator, 0, (None,)) for operator in WORDS * words]
    return [each._replace(rank=min(each.rank, rank_change(each.operator, each.at, effects))) for each in candidates]


def rank_change(operator: str, at: int, effects: set[int]) -> int:
    """Return when a change of a call is drawn, the earliest 0. `effects` are the calls that change something."""
    if operator in FIRST and effects & {at, at - 1}:
        return 0
    leads = at < max(effects, default=0)
    if operator in {"injection", "other-unit"} or (operator == "tool-error" and leads):
        return 1
    return 2 if effects & {at - 1, at, at + 1} or (operator in RESULTS and leads) else 3


def list_arguments(operator: str, exchange: Exchange, run: Run) -> Sequence[Json]:
    """Return the arguments of an operator at a call, the simplest first; none where it does not fit."""
    if exchange.abandoned or operator not in FAMILIES:
        return ()
    list_fitting, _ = FAMILIES[operator]
    return list_fitting(operator, exchange, run)


def draw_neighbours(candidates: Sequence[Candidate], *, seed: int, budget: int) -> list[Neighbour]:
    """Return at most `budget` different neighbours, the same for the same seed on every machine.

    Each candidate comes by itself, in an order drawn by the seed within its rank: first all with their simplest
    argument, then those that have others with one of these. After that any of them comes with any argument, or two and
    three come together.
    """
    draw = draw_numbers(seed)
    drawn = [candidate for candidate in candidates if candidate.operator not in NOT_DRAWN]
    order = sorted(shuffle(drawn, draw), key=lambda candidate: candidate.rank)
    simplest = [Perturbation(candidate.operator, candidate.at, candidate.arguments[0]) for candidate in order]
    # A stream that asks for an effect is cut behind each of its first events: part of what it asks for may be done.
    streams = [each for each in order if each.operator == "cut-stream" and each.rank < 3]
    others = [Perturbation(each.operator, each.at, argument) for each in streams for argument in each.arguments[1:12]]
    others += [pick(candidate, draw) for candidate in order if len(candidate.arguments) > 1]
    neighbours: dict[Neighbour, None] = dict.fromkeys((perturbation,) for perturbation in (*simplest, *others))
    every = [Perturbation(each.operator, each.at, argument) for each in drawn for argument in each.arguments]
    together = [candidate for candidate in drawn if candidate.operator not in ALONE]
    tries = 0
    while drawn and len(neighbours) < budget and tries < 4 * budget:
        tries += 1
        if draw(2) or not together:
            neighbours[every[draw(len(every))],] = None
            continue
        several = (together[draw(len(together))] for _ in range(2 + draw(MOST_AT_ONCE - 1)))
        by_place = {candidate.at: candidate for candidate in several}
        chosen = [pick(by_place[at], draw) for at in sorted(by_place)]
        last = next((place for place, each in enumerate(chosen, 1) if each.operator in LASTING), len(chosen))
        neighbours[tuple(chosen[:last])] = None
    return [*neighbours][:budget]


def shuffle(candidates: Sequence[Candidate], draw: Callable[[int], int]) -> list[Candidate]:
    """Return the candidates in a drawn order."""
    left = [*candidates]
    return [left.pop(draw(len(left))) for _ in candidates]


def pick(candidate: Candidate, draw: Callable[[int], int]) -> Perturbation:
    """Return a candidate with one of its arguments."""
    return Perturbation(candidate.operator, candidate.at, candidate.arguments[draw(len(candidate.arguments))])


def list_smaller(neighbour: Neighbour) -> list[Neighbour]:
    """Return the neighbours that have fewer of the perturbations, the fewest first."""
    sizes = range(1, len(neighbour))
    return [subset for size in sizes for subset in combinations(neighbour, size)]


def list_simpler(neighbour: Neighbour, candidates: Sequence[Candidate], most: int = 12) -> list[Neighbour]:
    """Return the neighbours in which one perturbation has a simpler argument, the simplest first."""
    arguments: dict[tuple[str, int], list[Json]] = {}
    for candidate in candidates:
        arguments.setdefault(candidate[:2], []).extend(candidate.arguments)
    simpler = []
    for place, perturbation in enumerate(neighbour):
        for argument in arguments.get(perturbation[:2], ())[:most]:
            if argument == perturbation.argument:
                break
            simpler.append((*neighbour[:place], perturbation._replace(argument=argument), *neighbour[place + 1 :]))
    return simpler


def perturb(run: Run, neighbour: Neighbour, file: str) -> Run:
    """Return the neighbour of a run. What a session does itself (order of answers, the user's words) is left to it.

    Raises CaseError, which names `file`, for a perturbation that does not fit.
    """
    calls = top_level(run)
    for perturbation in neighbour:
        operator, at, argument = perturbation
        if operator not in OPERATORS:
            raise CaseError(f"there is no operator {operator}", file=file)
        if operator == "completion-order" or operator in WORDS:
            continue
        if not 0 < at <= len(calls):
            raise CaseError(f"{operator} at call {at}: the run has the calls 1 to {len(calls)}", file=file)
        present = next((x for x in run.exchanges if x.start == calls[at - 1].start), None)
        if present is not None and operator == "clock":
            run = shift_clock(run, present.start, read_instant(argument, file))
            continue
        if present is None or not is_applicable(operator, present, argument, run):
            raise CaseError(f"{operator} at call {at} does not fit that call ({argument})", file=file)
        run = apply(run, present, perturbation)
    return run


def is_applicable(operator: str, exchange: Exchange, argument: Json, run: Run) -> bool:
    """Return whether an operator can change a call by that argument; a number of bytes, a text to inject may be any."""
    texts = list_arguments("right-to-left", exchange, run) if operator == "injection" else ()
    arguments = [*list_arguments(operator, exchange, run), *texts]
    if operator in {"cut-stream", "split-stream"}:
        return bool(arguments) and type(argument) is int and argument > 0
    return argument in arguments


def read_instant(argument: Json, file: str) -> datetime:
    """Return an instant in ISO 8601. Raises CaseError."""
    try:
        instant = datetime.fromisoformat(str(argument))
    except ValueError:
        raise CaseError(f"clock: {argument} is no instant like 2028-02-29T00:00:00+00:00", file=file) from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def apply(run: Run, exchange: Exchange, perturbation: Perturbation) -> Run:
    """Return the run with one call changed."""
    operator, _, argument = perturbation
    place = run.exchanges.index(exchange)
    before, after = run.exchanges[:place], run.exchanges[place + 1 :]
    _, change = FAMILIES[operator]
    changed = replace(exchange, outcome=change(operator, exchange, argument, run), parts=())
    if operator in FAULTS:
        # An exchange in the place of the recorded one, which comes after it: for whoever repeats the call.
        number = max(max(x.start, x.finish or 0) for x in run.exchanges) + 1
        return replace(run, exchanges=(*before, changed, replace(exchange, start=number, finish=number), *after))
    if operator in LASTING:  # the last answer of a kind is repeated for whoever asks for more
        after = tuple(x for x in after if not is_model(x.call, READER))
    return replace(run, exchanges=(*before, changed, *after))


ZONES = ("UTC", "Europe/Berlin", "America/New_York")
"""Midnights and changes of summer time are those of these zones, beside the one of the recording."""
HALF_A_SECOND = 500_000_000


def list_instants(run: Run) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield calls of the agent with the instants, in ISO 8601, that the clock may pass there.

    The first call comes once for each kind of instant, since what is computed at a program's end sees any of them by
    it. Every later call comes once.
    """
    calls = top_level(run)
    zone = run.header.kit.get("zone")
    name = zone.get("name") if isinstance(zone, dict) else zone
    kinds = find_instants(run.header.clock, [*dict.fromkeys([*([name] if isinstance(name, str) else []), *ZONES])])
    yield from ((1, instants) for instants in kinds if calls)
    every = [*dict.fromkeys(chain.from_iterable(kinds))]
    yield from ((at, every) for at in range(2, len(calls) + 1))


def find_instants(clock: int, zones: Sequence[str]) -> list[list[str]]:
    """Return the next midnights in these zones, then ends of months, of years, 29 February, changes of summer time."""
    began = datetime.fromtimestamp(clock / 1e9, UTC)
    leap = next(year for year in range(began.year, began.year + 9) if year % 4 == 0 and (year % 100 or year % 400 == 0))
    kinds: list[list[str]] = [[] for _ in range(5)]
    for name in zones:
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            continue
        today = began.astimezone(zone).date()
        next_month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
        leap_days = [today.replace(leap, 2, 29), today.replace(leap, 3, 1)]
        days = [[today + timedelta(days=1)], [next_month], [today.replace(today.year + 1, 1, 1)], leap_days]
        for kind, dates in zip(kinds, days, strict=False):
            kind += [datetime.combine(date, time(), zone).astimezone(UTC).isoformat() for date in dates]
        kinds[-1] += find_changes(zone, began.year)
    return [[*dict.fromkeys(kind)] for kind in kinds if kind]


def find_changes(zone: ZoneInfo, year: int) -> Iterator[str]:
    """Yield the instants of a year at which the offset of a zone changes, to the hour."""
    hour = datetime(year, 1, 1, tzinfo=UTC)
    while hour.year == year:
        following = hour + timedelta(hours=1)
        if hour.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            yield following.isoformat()
        hour = following


def shift_clock(run: Run, start: int, instant: datetime) -> Run:
    """Return the run at another time: the clock passes `instant` once the exchange `start` is answered.

    Agents see the time of the last answer: the call itself is made half a second before the instant, and whatever
    comes after its answer sees a time half a second past it.
    """
    here = next(x for x in run.exchanges if x.start == start)
    began = here.timing.start
    seen = round(instant.timestamp()) * 1_000_000_000
    moved = (place_exchange(x, start, began) for x in run.exchanges)
    header = replace(run.header, clock=seen - HALF_A_SECOND - began)
    return replace(run, header=header, exchanges=tuple(moved))


def place_exchange(exchange: Exchange, start: int, began: int) -> Exchange:
    """Return an exchange a second later where it is answered with, or after, the exchange `start`, made at `began`."""
    timing = exchange.timing
    if exchange.start < start or timing.end is None:
        return exchange
    later = 2 * HALF_A_SECOND
    first = None if timing.first is None else timing.first + later
    begin = timing.start if exchange.start == start else max(timing.start, began) + later
    return replace(exchange, timing=replace(timing, start=begin, first=first, end=timing.end + later))
