"""The stall rule of a replay that keeps no order: answers come at once, and a wait may still never end.

A call that was given up when recorded is waited for, and nobody gives it up any more. Or an event loop waits for what a
recorded call was to bring, and the program does not make that call. Both are ended as under the recorded order, by
idle time. A tool that runs for real (`--replay-tools=verify`) may take as long as it likes.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.release_order import END
from pytest_agentreplay.intercept.ordering import idle as idling
from pytest_agentreplay.intercept.ordering.release import SILENCE, TICK, WORKING, ReleaseQueue
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.release_order import ReleaseSchedule
    from pytest_agentreplay.intercept.ordering.idle import Idle
    from pytest_agentreplay.intercept.ordering.release import Explain
    from pytest_agentreplay.intercept.session.interceptions import Interception

WAITS = "all that is left of your code waits, and nothing that still runs can end that: the test was ended"


class StallWatch(ReleaseQueue):
    """Watches the event loops of one replay; hands nothing over.

    `missing` gives the divergence for what is recorded and was not called so far; None where all was called.
    """

    def __init__(
        self,
        schedule: ReleaseSchedule,
        interception: Interception,
        explain: Explain,
        missing: Callable[[], Divergence | None],
    ) -> None:
        """Nothing is watched before `watch`."""
        super().__init__(schedule, interception, explain)
        self._missing = missing

    def watch(self) -> None:
        """A task of the event loop that runs here is about to get an answer: watch the loop from now on."""
        loop = lanes.running_loop()
        if loop is not None and not self._interception.ended.is_set():
            self._watched(loop)

    def _consider(self, here: Idle | None) -> float | None:
        if self._divergence is not None or self._interception.refused is not None:
            return None
        if self._interception.comparing:
            return TICK
        return self._give_up(here) if self._endless else self._deadlocked(here)

    def _deadlocked(self, here: Idle | None) -> float | None:
        """End the test if `here` waits for nothing that could come, and a recorded call is missing."""
        awaited = self.schedule.to_be_asked(END)
        if awaited is None or not isinstance(here, idling.SelectorIdle) or here.timeout is not None or here.listens:
            return None
        before = self.schedule.before(awaited.start)
        gap = 0 if before is None else max(0, awaited.timing.start - before.timing.start) / 1e9
        alone = all(thread.ident == here.thread for thread in threading.enumerate())
        if self._time.idle - self._moved_idle < (SILENCE if alone else WORKING) + 4 * gap:
            self._idles = True
            return TICK
        if self._unquiet(here) or self._at_work()[0]:
            return TICK
        divergence = self._missing()
        if divergence is not None:
            self._latch(replace(divergence, detail=(*divergence.detail, WAITS)), "")
        return None
