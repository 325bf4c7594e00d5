"""One wire call under way, and the ends of it that are no answer: a failure, a refusal, a silence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.callers import agents_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.model import Failure, Headers, HttpCall
    from pytest_agentreplay.intercept.session.interceptions import InterceptedCall, Interception


@dataclass(slots=True)
class Wire:
    """One wire call under way: who asks, what was answered, and how a recorded failure is `revived` for the library."""

    interception: Interception
    intercepted: InterceptedCall
    call: HttpCall
    revive: Callable[[Failure], BaseException]


def attempt_of(headers: Headers) -> int:
    """Which attempt an SDK says that this is, from 1."""
    for name, value in headers:
        match name.lower():
            case "x-stainless-retry-count" if value.isdecimal():
                return 1 + int(value)
            case "amz-sdk-request" if (told := _ATTEMPT.match(value)) is not None:
                return int(told[1])
    return 1


_ATTEMPT = re.compile(r"attempt=([0-9]{1,9})")


def refuse(wire: Wire, what: str) -> NoReturn:
    """Latch that the agent wants more of a call than was recorded. Always raises ReplayDiverged."""
    interception, call = wire.interception, wire.call
    summary = f"{what}: {interceptions.describe(call)}"
    divergence = Divergence(Kind.EXTRA, summary, lane=interception.call_context().path, now=call)
    latched = interception.latch(divergence, agents_line(interception.root))
    raise ReplayDiverged(interceptions.refusal(latched), latched)


def never(wire: Wire) -> NoReturn:
    """Block a thread whose call never ended in the recording until the test is over. Always raises ReplayDiverged."""
    if not wire.intercepted.can_wait():
        refuse(wire, "no answer had come when the recorded run ended")
    wire.intercepted.never_now()


async def forever(wire: Wire) -> None:
    """Wait until cancelled, as the recorded call was."""
    try:
        await wire.intercepted.never()
    finally:
        wire.intercepted.finish()
