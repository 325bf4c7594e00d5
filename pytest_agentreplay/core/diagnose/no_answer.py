"""Why a case has no answer for an agent that asks otherwise: its replies are used up, or none fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.diagnose.replay_progress import line
from pytest_agentreplay.core.divergence import ABSENT, Difference, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.core.diagnose.replay_progress import ReplayProgress
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.model import Call, Exchange

ASK_LIVE = "ask the real model, with the tools frozen: `model: live` under `serve` in case.yaml, and --live"
RECORD = "or record the fixed agent as a test of its own: pytest --snapshot-record"
WRITE = "write what it gives then into a fixture of the case, with `tools: arguments` under `serve` in case.yaml"


def exhausted(standing: ReplayProgress, call: Call, lane: str, had: int) -> Divergence:
    """`call` is served by position, and all of the `had` replies that are recorded for it were given."""
    name = standing.name(call)
    if standing.speaks(call):
        hints: tuple[str, ...] = (ASK_LIVE, RECORD)
    else:
        hints = (WRITE,) if standing.tool(call) is not None else ()
    more = f"; it has {had} repl{'ies' if had > 1 else 'y'}, and all were given"
    return standing.divergence(
        Kind.EXTRA,
        f"{name} called more often than the case has replies" if had else f"the case has no reply of {name}",
        standing.last(lane),
        lane=lane,
        now=call,
        differences=(Difference("call", ABSENT, line(call, standing.reader)),),
        cause=f"replies are served by position, each once{more if had else ', and none is recorded in this lane'}",
        hints=hints,
    )


def unmatched(standing: ReplayProgress, calls: Sequence[Call], lane: str, advice: Iterable[str]) -> Divergence:
    """Nobody knows what a tool gives to the arguments that it is served by; `advice` says what to write.

    `calls` are the call as it was made, and without what the function adds by itself.
    """
    call, name = calls[0], standing.name(calls[0])
    same = [x for x in standing.pending(lane) if standing.tool(x.call) is not None and standing.name(x.call) == name]
    parted = [(x, standing.differences(x.call, call)) for x in same for call in calls]
    nearest, differences = min(parted, key=lambda call: len(call[1]), default=(None, ()))
    return standing.divergence(
        Kind.ARGS if nearest is not None else Kind.TOOL,
        f"the case does not know what {name} gives to these arguments",
        nearest or standing.last(lane),
        lane=lane,
        recorded=nearest,
        now=call,
        differences=differences or (Difference("call", ABSENT, line(call, standing.reader)),),
        cause="tools answer the arguments that are known; what nobody has recorded somebody has to write",
        hints=tuple(advice) or (WRITE,),
    )


def untold(standing: ReplayProgress, call: Call, match: Exchange) -> Divergence:
    """The recorded reply cannot be told in the API in which `call` asks."""
    now, then = standing.reader.read_call(call).dialect, standing.reader.read_call(match.call).dialect
    return standing.divergence(
        Kind.REQUEST,
        f"{standing.name(call)} is asked in another API than the one that has answered",
        match,
        recorded=match,
        now=call,
        differences=(Difference("api", then, now),),
        cause=f"a reply of {then} cannot be told as one of {now}",
        hints=(ASK_LIVE, RECORD),
    )
