"""The time that a runner has in this process. When it is over all that it asks is refused, and it is ended.

Ended it is as any body is that hangs after a refusal (`overtime`), at once. What nothing can end from inside, since it
waits in C, is told, and the process ends. Threads that it leaves behind are named; once all else is done, they do not
keep the process from ending.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.intercept.environment import debuggers
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.callers import find_line, stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.intercept.ordering.overtime import Overtime
    from pytest_agentreplay.intercept.session.interceptions import Interception

MERCY = 20.0
"""Seconds in which it is tried to end what has run out of time, before the process is ended."""
PATIENCE = 2.0
"""Seconds that threads left behind have after all else is done."""

CANNOT = 125
"""The exit code of a process that was ended so, as of all that cannot run."""
Despair: TypeAlias = "Callable[[str], None]"

_left: WeakSet[threading.Thread] = WeakSet()


class Deadline:
    """The watch over one body. `passed` says whether its time was over."""

    def __init__(self, interception: Interception, overtime: Overtime, seconds: float, who: str) -> None:
        """The body has `seconds`, 0 for as many as it takes; `who` names it for people."""
        self.passed = False
        self._interception = interception
        self._overtime = overtime
        self._seconds = seconds
        self._who = who
        self._waiting = ""
        self._over = threading.Event()

    @contextmanager
    def watch_runner(self, despair: Despair) -> Iterator[None]:
        """Around the body, in its thread. `despair` tells what it is given and ends the process."""
        if self._seconds:
            token = lanes.CALL_CONTEXT.set(None)  # it is no thread of the test's
            try:
                words = (threading.get_ident(), despair)
                threading.Thread(target=self._watch, args=words, name="agentreplay-deadline", daemon=True).start()
            finally:
                lanes.CALL_CONTEXT.reset(token)
        try:
            yield
        finally:
            self._over.set()

    def overdue(self) -> RunnerError:
        """What there is to say of a body that was ended, with the threads that it has left behind."""
        frames, root = sys._current_frames(), self._interception.root
        threads = [thread for thread in threading.enumerate() if thread.ident in self._interception.work.working]
        _left.update(threads)
        lines = [
            f"left behind: thread {thread.name}{at(find_line(stack(frames.get(thread.ident or 0), None), root))}"
            for thread in threads
        ]
        return RunnerError("\n  ".join((self._describe("and was ended"), *lines)))

    def _watch(self, body: int, despair: Despair) -> None:
        while not self._over.wait(self._seconds):
            if not debuggers.attached():
                break
        if self._over.is_set():
            return
        frames = stack(sys._current_frames().get(body), self._overtime.floor)
        self._waiting = find_line(frames, self._interception.root)
        self.passed = self._overtime.at_once = True
        self._interception.latch(Divergence(Kind.LATE, f"its time was over after {self._seconds:g} s"), self._waiting)
        if not self._over.wait(MERCY) and not debuggers.attached():
            despair(
                self._describe(
                    "and nothing can end it but the end of this process (--runner-cmd runs it in one of its own)"
                )
            )

    def _describe(self, how: str) -> str:
        line = self._overtime.waiting or self._waiting
        text = f"{self._who} was still running after {self._seconds:g} s{at(line)}, {how}"
        return f"{text}; raise agentreplay_timeout, or --timeout"


def at(line: str) -> str:
    """Where something stands, if that is known."""
    return f", at {line}" if line else ""


def despaired(text: str) -> None:
    """Tell `text`, and end this process."""
    sys.stderr.write(f"agentreplay: {text}\n")
    sys.stderr.flush()
    os._exit(CANNOT)


def let_end(code: int) -> None:
    """Have this process, which is done, end with `code` though threads that were left behind go on."""
    if any(thread.is_alive() and not thread.daemon for thread in _left):
        timer = threading.Timer(PATIENCE, os._exit, (code,))
        timer.daemon = True
        timer.start()
