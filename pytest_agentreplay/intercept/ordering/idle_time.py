"""How long a program was left alone: what a stall is told by, the same on a slow machine as on a fast one.

Wall time passes while the program computes, while another process has the processor, and while this one is stopped.
None of that says that nothing will come any more. So time is counted by looks: each look says for how long nobody will
look again, and the next one counts what has passed since, but no more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class IdleTime:
    """Two clocks, in seconds: `looked` runs between two looks, `idle` only where the program had nothing to do."""

    __slots__ = ("_at", "_idle", "_now", "_wait", "idle", "looked")

    def __init__(self, now: Callable[[], float]) -> None:
        """Both begin with 0."""
        self.idle = self.looked = 0.0
        self._now = now
        self._at = self._wait = 0.0
        self._idle = False

    def look(self) -> None:
        """Count what has passed since `wait`, and nothing more until the next `wait`."""
        now = self._now()
        passed = min(self._wait, max(0.0, now - self._at))
        self.looked += passed
        self.idle += passed if self._idle else 0.0
        self._at, self._wait, self._idle = now, 0.0, False

    def wait(self, seconds: float, *, idle: bool) -> None:
        """The next look comes in so many seconds; `idle` says that the program has nothing to do until then."""
        self._wait, self._idle = seconds, idle
