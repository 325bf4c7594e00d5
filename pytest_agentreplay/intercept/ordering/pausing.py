"""Threads in a replay of what was recorded as one strand: what they do beside each other now must be seen.

Such a run has no order of answers to keep, and each would come at once. Then two steps that were made one after the
other, and are made by two threads now, would look the same as before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.ordering.work import LOOK, Threads
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from pytest_agentreplay.intercept.session.interceptions import Interception

LONGEST_PAUSE = 0.25
"""Seconds for which an answer is held back at most: a thread that computes for itself is not waited for."""


class Pausing:
    """Holds an answer to a thread back until no other thread of the test is at work. Costs nothing where none is."""

    now = staticmethod(clocks.monotonic)

    def __init__(self, interception: Interception) -> None:
        """Nothing is looked at before somebody is answered."""
        self._interception = interception
        self._others = Threads(interception)
        self._resting: set[int] = set()

    def __call__(self) -> None:
        """Wait, in a thread that is about to get its answer."""
        me, interception = threading.get_ident(), self._interception
        beside = interception.working.keys() - {me} or interception.threads or me != interception.main().thread
        if not beside or lanes.in_loop():
            return
        self._resting.add(me)
        try:
            until = self.now() + LONGEST_PAUSE
            while self._others.at_work(self._resting, now := self.now()) and now < until:
                clocks.sleep(LOOK / 4)
        finally:
            self._resting.discard(me)
