"""Why a changed call gets no recorded reply, where changed calls are served.

While changed requests are accepted, its content may not say which reply is its own. In a case the replies may be used
up, or none fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diagnose.progress import ReplayProgress, format_line
from pytest_agentreplay.compare.diff.texts import shorten
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.turns import seat

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.model.exchanges import Call, Exchange

SHOWN = 4  # recorded calls that a report lists
ROOM = 90  # characters of each


def explain_undecided(progress: ReplayProgress, call: Call, options: Sequence[Exchange]) -> Divergence:
    """`call` has changed, and each of `options` was under way at once: nothing tells whose reply it takes."""
    return _report(
        progress,
        Kind.REQUEST,
        f"{progress.name(call)} changed, and could take the reply of {len(options)} recorded calls",
        call,
        options,
        cause="these calls were under way at once, and the changed request holds nothing that only one of them held",
    )


def explain_drift(
    progress: ReplayProgress, match: Exchange, call: Call, differences: tuple[Difference, ...]
) -> Divergence:
    """`call` is `match` under the rules, and differs in fields that they leave out."""
    fields = ", ".join(difference.path for difference in differences)
    return progress.make_divergence(
        Kind.KEYS,
        f"{progress.name(call)} differs in {fields}, which the rules leave out of the comparison",
        match,
        recorded=match,
        now=call,
        differences=differences,
        cause="--strict-keys fails a replay whose requests differ in any field that a rule ignores or watches",
        hints=("if it may differ, run without --strict-keys; if it matters, remove the rule",),
    )


def explain_contradiction(progress: ReplayProgress, call: Call, *, due: Exchange, like: Exchange) -> Divergence:
    """`call` comes where `due` is recorded, and its content is that of `like`."""
    taken = ", whose reply another call has taken" if like.start in progress.served else ""
    return _report(
        progress,
        Kind.REQUEST if taken else Kind.ORDER,
        f"{progress.name(call)} comes in the place of one recorded call and holds what another one held",
        call,
        (due, like),
        cause=f"the first of these is due here, the changed request resembles the second{taken}",
    )


def explain_taken(progress: ReplayProgress, call: Call, *, by: Call, recorded: Exchange) -> Divergence:
    """`call` is `recorded` unchanged, whose reply went to the changed call `by` before."""
    return _report(
        progress,
        Kind.REQUEST,
        f"the recorded reply to {progress.name(call)} was given to a changed call before",
        call,
        (recorded,),
        cause=f"a changed call came first in its place: {shorten(format_line(by, progress.reader), ROOM)}",
    )


def number_call(progress: ReplayProgress, exchange: Exchange) -> str:
    """Return a recorded call by its number and its turn: "call 2 (turn 1)"."""
    return f"call {seat(progress.turns, exchange).position} ({progress.name_turn(exchange)})"


def _report(
    progress: ReplayProgress, kind: Kind, summary: str, call: Call, options: Sequence[Exchange], *, cause: str
) -> Divergence:
    return progress.make_divergence(
        kind,
        summary,
        options[0],
        recorded=options[0],
        now=call,
        differences=(
            Difference("call", format_line(options[0].call, progress.reader), format_line(call, progress.reader)),
        ),
        cause=cause,
        detail=(
            *(
                f"recorded {number_call(progress, option)}: {shorten(format_line(option.call, progress.reader), ROOM)}"
                for option in options[:SHOWN]
            ),
            *((f"and {len(options) - SHOWN} more",) if len(options) > SHOWN else ()),
        ),
    )


ASK_LIVE = "ask the real model, with the tools frozen: `model: live` under `serve` in case.yaml, and --live"
RECORD = "or record the fixed agent as a test of its own: pytest --snapshot-record"
WRITE = "write what it gives then into a fixture of the case, with `tools: arguments` under `serve` in case.yaml"


def explain_exhausted(progress: ReplayProgress, call: Call, lane: str, had: int) -> Divergence:
    """`call` is served by position, and all of the `had` replies that are recorded for it were given."""
    name = progress.name(call)
    if progress.is_model_call(call):
        hints: tuple[str, ...] = (ASK_LIVE, RECORD)
    else:
        hints = (WRITE,) if progress.find_tool(call) is not None else ()
    more = f"; it has {had} repl{'ies' if had > 1 else 'y'}, and all were given"
    return progress.make_divergence(
        Kind.EXTRA,
        f"{name} called more often than the case has replies" if had else f"the case has no reply of {name}",
        progress.find_last(lane),
        lane=lane,
        now=call,
        differences=(Difference("call", ABSENT, format_line(call, progress.reader)),),
        cause=f"replies are served by position, each once{more if had else ', and none is recorded in this lane'}",
        hints=hints,
    )


def explain_unmatched(progress: ReplayProgress, calls: Sequence[Call], lane: str, advice: Iterable[str]) -> Divergence:
    """Nobody knows what a tool gives to the arguments that it is served by; `advice` says what to write.

    `calls` are the call as it was made, and without what the function adds by itself.
    """
    call, name = calls[0], progress.name(calls[0])
    same = [
        x
        for x in progress.list_pending(lane)
        if progress.find_tool(x.call) is not None and progress.name(x.call) == name
    ]
    parted = [(x, progress.compare(x.call, call)) for x in same for call in calls]
    nearest, differences = min(parted, key=lambda call: len(call[1]), default=(None, ()))
    return progress.make_divergence(
        Kind.ARGS if nearest is not None else Kind.TOOL,
        f"the case does not know what {name} gives to these arguments",
        nearest or progress.find_last(lane),
        lane=lane,
        recorded=nearest,
        now=call,
        differences=differences or (Difference("call", ABSENT, format_line(call, progress.reader)),),
        cause="tools answer the arguments that are known; what nobody has recorded somebody has to write",
        hints=tuple(advice) or (WRITE,),
    )


def explain_dialect(progress: ReplayProgress, call: Call, match: Exchange) -> Divergence:
    """Return the divergence of a recorded reply that cannot be written in the API in which `call` asks."""
    now, then = progress.reader.read_call(call).dialect, progress.reader.read_call(match.call).dialect
    return progress.make_divergence(
        Kind.REQUEST,
        f"{progress.name(call)} is asked in another API than the one that has answered",
        match,
        recorded=match,
        now=call,
        differences=(Difference("api", then, now),),
        cause=f"a reply of {then} cannot be told as one of {now}",
        hints=(ASK_LIVE, RECORD),
    )
