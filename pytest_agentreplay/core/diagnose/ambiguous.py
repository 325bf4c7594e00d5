"""Why a changed call gets no recorded reply while changed requests are accepted: its content does not tell which."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.diagnose.replay_progress import ReplayProgress, line
from pytest_agentreplay.core.diff.texts import shorten
from pytest_agentreplay.core.divergence import Difference, Divergence, Kind
from pytest_agentreplay.core.turns import seat

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_agentreplay.core.model import Call, Exchange, Run
    from pytest_agentreplay.core.reading import Reader

SHOWN = 4  # recorded calls that a report lists
ROOM = 90  # characters of each


def undecided(run: Run, reader: Reader, served: Collection[int], call: Call, options: Sequence[Exchange]) -> Divergence:
    """`call` has changed, and each of `options` was under way at once: nothing tells whose reply it takes."""
    standing = ReplayProgress(run, reader, served)
    return _report(
        standing,
        Kind.REQUEST,
        f"{standing.name(call)} changed, and could take the reply of {len(options)} recorded calls",
        call,
        options,
        cause="these calls were under way at once, and the changed request holds nothing that only one of them held",
    )


def contradicted(
    run: Run, reader: Reader, served: Collection[int], call: Call, *, due: Exchange, like: Exchange
) -> Divergence:
    """`call` comes where `due` is recorded, and its content is that of `like`."""
    standing = ReplayProgress(run, reader, served)
    taken = ", whose reply another call has taken" if like.start in served else ""
    return _report(
        standing,
        Kind.REQUEST if taken else Kind.ORDER,
        f"{standing.name(call)} comes in the place of one recorded call and holds what another one held",
        call,
        (due, like),
        cause=f"the first of these is due here, the changed request resembles the second{taken}",
    )


def describe_taken(
    run: Run, reader: Reader, served: Collection[int], call: Call, *, by: Call, recorded: Exchange
) -> Divergence:
    """`call` is `recorded` unchanged, whose reply went to the changed call `by` before."""
    standing = ReplayProgress(run, reader, served)
    return _report(
        standing,
        Kind.REQUEST,
        f"the recorded reply to {standing.name(call)} was given to a changed call before",
        call,
        (recorded,),
        cause=f"a changed call came first in its place: {shorten(line(by, reader), ROOM)}",
    )


def numbered(standing: ReplayProgress, exchange: Exchange) -> str:
    """A recorded call by its number and its turn: "call 2 (turn 1)"."""
    return f"call {seat(standing.turns, exchange).position} ({standing.turn(exchange)})"


def _report(
    standing: ReplayProgress, kind: Kind, summary: str, call: Call, options: Sequence[Exchange], *, cause: str
) -> Divergence:
    return standing.divergence(
        kind,
        summary,
        options[0],
        recorded=options[0],
        now=call,
        differences=(Difference("call", line(options[0].call, standing.reader), line(call, standing.reader)),),
        cause=cause,
        detail=(
            *(
                f"recorded {numbered(standing, option)}: {shorten(line(option.call, standing.reader), ROOM)}"
                for option in options[:SHOWN]
            ),
            *((f"and {len(options) - SHOWN} more",) if len(options) > SHOWN else ()),
        ),
    )
