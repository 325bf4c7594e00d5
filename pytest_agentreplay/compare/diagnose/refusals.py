"""Why a changed call gets no recorded reply, where changed calls are served.

While changed requests are accepted, its content may not say which reply is its own. In a case the replies may be used
up, or none fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diff.texts import shorten
from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.model.turns import seat

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
    from pytest_agentreplay.model.exchanges import Call, Exchange

SHOWN = 4  # recorded calls that a report lists
ROOM = 90  # characters of each


ASK_LIVE = "ask the real model, with the tools frozen: `model: live` under `serve` in case.yaml, and --live"
RECORD = "or record the fixed agent as a test of its own: pytest --snapshot-record"
WRITE = "write what it gives then into a fixture of the case, with `tools: arguments` under `serve` in case.yaml"


def explain_undecided(progress: ReplayProgress, call: Call, options: Sequence[Exchange]) -> Divergence:
    """`call` has changed, and each of `options` was under way at once: nothing tells whose reply it takes."""
    summary = f"{progress.name(call)} changed, and could take the reply of {len(options)} recorded calls"
    cause = "these calls were under way at once, and the changed request holds nothing that only one of them held"
    return _refuse(progress, Kind.REQUEST, summary, call, options, cause=cause)


def explain_drift(
    progress: ReplayProgress, match: Exchange, call: Call, differences: tuple[Difference, ...]
) -> Divergence:
    """`call` is `match` under the rules, and differs in fields that they leave out."""
    fields = ", ".join(difference.path for difference in differences)
    summary = f"{progress.name(call)} differs in {fields}, which the rules leave out of the comparison"
    cause = "--strict-keys fails a replay whose requests differ in any field that a rule ignores or watches"
    hints = ("if it may differ, run without --strict-keys; if it matters, remove the rule",)
    return progress.make_divergence(Kind.KEYS, summary, match, call, differences, cause=cause, hints=hints)


def explain_contradiction(progress: ReplayProgress, call: Call, *, due: Exchange, like: Exchange) -> Divergence:
    """`call` comes where `due` is recorded, and its content is that of `like`."""
    taken = ", whose reply another call has taken" if like.start in progress.served else ""
    kind = Kind.REQUEST if taken else Kind.ORDER
    summary = f"{progress.name(call)} comes in the place of one recorded call and holds what another one held"
    cause = f"the first of these is due here, the changed request resembles the second{taken}"
    return _refuse(progress, kind, summary, call, (due, like), cause=cause)


def explain_taken(progress: ReplayProgress, call: Call, *, by: Call, recorded: Exchange) -> Divergence:
    """`call` is `recorded` unchanged, whose reply went to the changed call `by` before."""
    summary = f"the recorded reply to {progress.name(call)} was given to a changed call before"
    cause = f"a changed call came first in its place: {shorten(progress.format_call(by), ROOM)}"
    return _refuse(progress, Kind.REQUEST, summary, call, (recorded,), cause=cause)


def number_call(progress: ReplayProgress, exchange: Exchange) -> str:
    """Return a recorded call by its number and its turn: "call 2 (turn 1)"."""
    return f"call {seat(progress.turns, exchange).position} ({progress.name_turn(exchange)})"


def _refuse(
    progress: ReplayProgress, kind: Kind, summary: str, call: Call, options: Sequence[Exchange], *, cause: str
) -> Divergence:
    """Return the divergence of a call that may be one of several recorded ones, with a line for each."""
    first, lines = options[0], [progress.format_call(option.call) for option in options[:SHOWN]]
    differences = (Difference("call", lines[0], progress.format_call(call)),)
    detail = [
        f"recorded {number_call(progress, option)}: {shorten(line, ROOM)}"
        for option, line in zip(options, lines, strict=False)
    ]
    if len(options) > SHOWN:
        detail.append(f"and {len(options) - SHOWN} more")
    return progress.make_divergence(kind, summary, first, call, differences, cause=cause, detail=tuple(detail))


def explain_exhausted(progress: ReplayProgress, call: Call, lane: str, had: int) -> Divergence:
    """`call` is served by position, and all of the `had` replies that are recorded for it were given."""
    name, at = progress.name(call), progress.find_last(lane)
    is_tool = progress.find_tool(call) is not None
    hints = (ASK_LIVE, RECORD) if progress.is_model_call(call) else (WRITE,) if is_tool else ()
    if had:
        summary = f"{name} called more often than the case has replies"
        more = f"each once; it has {had} repl{'ies' if had > 1 else 'y'}, and all were given"
    else:
        summary, more = f"the case has no reply of {name}", "each once, and none is recorded in this lane"
    cause = f"replies are served in recorded order, {more}"
    return progress.make_divergence(Kind.EXTRA, summary, None, call, at=at, lane=lane, cause=cause, hints=hints)


def explain_unmatched(progress: ReplayProgress, calls: Sequence[Call], lane: str, advice: Iterable[str]) -> Divergence:
    """Nobody knows what a tool gives to the arguments that it is served by; `advice` says what to write.

    `calls` are the call as it was made, and without what the function adds by itself.
    """
    call, name = calls[0], progress.name(calls[0])
    tools = [x for x in progress.list_pending(lane) if progress.find_tool(x.call) is not None]
    options = [(x, progress.compare(x.call, call)) for x in tools if progress.name(x.call) == name for call in calls]
    nearest, differences = min(options, key=lambda option: len(option[1]), default=(None, ()))
    return progress.make_divergence(
        Kind.TOOL if nearest is None else Kind.ARGS,
        f"the case does not know what {name} gives to these arguments",
        nearest,
        call,
        differences or (Difference("call", ABSENT, progress.format_call(call)),),
        at=nearest or progress.find_last(lane),
        lane=lane,
        cause="tools answer the arguments that are known; what nobody has recorded somebody has to write",
        hints=tuple(advice) or (WRITE,),
    )


def explain_dialect(progress: ReplayProgress, call: Call, match: Exchange) -> Divergence:
    """Return the divergence of a recorded reply that cannot be written in the API in which `call` asks."""
    now, then = progress.reader.read_call(call).dialect, progress.reader.read_call(match.call).dialect
    summary = f"{progress.name(call)} is asked in another API than the one that has answered"
    differences, cause = (Difference("api", then, now),), f"a reply of {then} cannot be told as one of {now}"
    hints = (ASK_LIVE, RECORD)
    return progress.make_divergence(Kind.REQUEST, summary, match, call, differences, cause=cause, hints=hints)
