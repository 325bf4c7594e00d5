"""Exchanges that a call may stand for though its pictures, sounds or files are others."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Call, Exchange


class NearMatches:
    """Exchanges that carry media, by all that stands beside these."""

    def __init__(self, matching: Matching, exchanges: Iterable[Exchange]) -> None:
        """Read them once."""
        self._matching = matching
        self._queues: dict[str, deque[Exchange]] = defaultdict(deque)
        for x in exchanges:
            if key := matching.key_beside(x.call):
                self._queues[key].append(x)

    def find(self, call: Call, lane: str, served: Collection[int]) -> Exchange | None:
        """The first unserved one whose media are near enough to those of `call`, of its lane before any other."""
        queue = self._queues.get(self._matching.key_beside(call), deque())
        while queue and queue[0].start in served:
            queue.popleft()
        for mine in (True, False):
            for x in queue:
                due = x.start not in served and (x.lane == lane) is mine
                if due and self._matching.near_enough(x.call, call):
                    return x
        return None
