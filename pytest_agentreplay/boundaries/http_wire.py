"""One wire call under way, and the ends of it that are no answer: a failure, a refusal, a silence."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.boundaries import crossing as doorstep
from pytest_agentreplay.boundaries.http_failures import thawed
from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.errors import ReplayDiverged

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.boundaries.crossing import Crossing, Passage
    from pytest_agentreplay.core.model import Failure, HttpCall


@dataclass(slots=True)
class Wire:
    """One wire call under way: who asks, what was answered, the native request and the library that it is of."""

    crossing: Crossing
    passage: Passage
    call: HttpCall
    request: Any
    library: ModuleType


def native(failure: Failure, wire: Wire) -> BaseException:
    """The recorded failure as an exception of the library, told of the request that it belongs to."""
    error: Any = thawed(failure, wire.library)
    if isinstance(error, wire.library.HTTPError):
        error.request = wire.request
    raised: BaseException = error
    return raised


def refuse(wire: Wire, what: str) -> NoReturn:
    """Latch that the agent wants more of a call than was recorded. Always raises ReplayDiverged."""
    crossing, call = wire.crossing, wire.call
    summary = f"{what}: {doorstep.describe(call)}"
    divergence = Divergence(Kind.EXTRA, summary, lane=crossing.strand().path, now=call)
    latched = crossing.gate.latch(divergence, doorstep.origin(crossing.root))
    raise ReplayDiverged(doorstep.refusal(latched), latched)


def never(wire: Wire) -> NoReturn:
    """Block a thread whose call never ended in the recording until the test is over. Always raises ReplayDiverged."""
    if threading.current_thread() is threading.main_thread():
        # The thread that would have to end the test: it would wait for itself.
        refuse(wire, "no answer had come when the recorded run ended")
    wire.passage.wait_for_end()
    raise ReplayDiverged(f"refused: {doorstep.describe(wire.call)} never ended in the recording, and now its test has")


async def forever(wire: Wire) -> None:
    """Wait until cancelled, as the recorded call was."""
    import asyncio

    try:
        loop = asyncio._get_running_loop()
        await (loop.create_future() if loop is not None else sys.modules["trio"].sleep_forever())
    finally:
        wire.passage.finish()
