"""The stall rule, whatever the order of answers: a replayed test of which all that is left waits is ended.

A program may wait for what a recorded call was to bring, and not make that call any more: an answer over a lasting
connection, an item of a queue, an `Event`. Or it waits to be given up in a call that never ended when recorded. Nobody
refuses anything then, so one thread looks four times a second whether anything of the test can still go on by itself.
Where nothing can, the missing call is latched, and `Overtime` ends the test.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.environment import debuggers
from pytest_agentreplay.intercept.ordering.overtime import BEAT
from pytest_agentreplay.intercept.ordering.pausing import is_waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from pytest_agentreplay.intercept.ordering.overtime import Overtime
    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.model.divergence import Divergence

    Missing = Callable[[], tuple[Divergence, float] | None]

# Seconds in which nothing happens, beyond four times the recorded pause, before a test that waits is ended. It is what
# a stall costs: 0.75 s with 0.5, 5.25 s with 5 (`order_limits.py`). A woken thread runs within 15 ms.
QUIET = 5.0

# The same where the world could still bring something: a child process, a socket, a timer, a thread of others, or
# whatever a thread waits for in C code: it stands at one place, and the process computes nothing. A child that took 0.1
# s when recorded and takes 8 s now was ended with 0.5, and waited for with 30 (`order_limits.py`).
LONGER = 30.0

# Seconds from which a timeout is none: trio sleeps for a day where it has no timer.
FOREVER = 3600.0

# Packages in which a thread waits for a child process.
CHILDREN = frozenset({"subprocess", "multiprocessing"})

# Modules in which an event loop waits, or a thread of its own waits for a child of it.
LOOPS = frozenset({"asyncio.unix_events", "asyncio.windows_events"})

WAITS = "all that is left of your code waits, and nothing that still runs can end that: the test was ended"


class StallWatch:
    """The watch over one replayed body, from `start` to `stop`.

    `missing` returns the divergence for the recorded call that is waited for, and the seconds that went by before it
    when recorded; None where no call is missing.
    """

    def __init__(self, interception: Interception, overtime: Overtime, missing: Missing) -> None:
        """Nothing is watched before `start`."""
        self._interception = interception
        self._overtime = overtime
        self._missing = missing
        self._places: dict[int, object] = {}
        self._computed = 0.0

    def start(self) -> None:
        """Watch the body that begins. The thread is none of the test's, and `threading` does not list it."""
        _follow_forks(self)
        self.resume()

    def resume(self) -> None:
        """Watch on, after a fork."""
        self._over, self._gone = _thread.allocate_lock(), _thread.allocate_lock()
        self._over.acquire()
        self._gone.acquire()
        _thread.start_new_thread(self._watch, (self._over, self._gone))

    def stop(self) -> None:
        """Watch no more, and wait for the thread to be gone. Twice does nothing."""
        if _watching is self:
            _follow_forks(None)
            self.rest()

    def rest(self) -> None:
        """Watch no more for a while: whoever forks is warned where it has more than one thread."""
        self._over.release()
        self._gone.acquire()

    def _watch(self, over: _thread.LockType, gone: _thread.LockType) -> None:
        # Beats are counted: the test may have stopped every clock, and a process that was stopped has beaten once.
        beats, seen = 0, None
        try:
            while not over.acquire(timeout=BEAT):
                interception = self._interception
                moved = interception.pending.activity, interception.work.finished
                beats, seen = beats + 1 if moved == seen else 0, moved
                if beats * BEAT < QUIET or interception.ending.refused is not None:
                    continue
                # A test that fails already, and goes on to show what comes, may look without end for what does not.
                ahead = getattr(interception.backend, "ahead", None)
                patience = self._find_patience() if ahead is None else QUIET
                if patience is None or interception.pending.comparing or debuggers.is_attached():
                    beats = 0
                elif beats * BEAT >= patience and (missing := self._missing()) is not None:
                    divergence, pause = missing
                    if beats * BEAT >= patience + 4 * pause:
                        self._overtime.at_once = True
                        interception.latch(replace(divergence, detail=(*divergence.detail, WAITS)), "")
        finally:
            gone.release()

    def _find_patience(self) -> float | None:
        """Return for how many seconds what the test waits for may stay away; None while something is at work."""
        # https://docs.python.org/3/library/sys.html#sys._current_frames, CPython alone
        interception, frames = self._interception, sys._current_frames()
        ours = {interception.work.main_thread, *list(interception.work.working)}
        threads = [thread for thread in list(interception.work.threads) if thread.is_alive()]
        if interception.work.starting or any(thread.ident not in interception.work.working for thread in threads):
            return None
        before, self._places = self._places, {thread: (id(frame), frame.f_lasti) for thread, frame in frames.items()}
        computed, self._computed = self._computed, clocks.process_time()
        rests = self._computed - computed < BEAT / 5
        limits = [
            _find_limit(thread, frame, still=rests and before.get(thread) == self._places[thread])
            for thread, frame in frames.items()
            if thread in ours
        ]
        if None in limits:
            return None
        beside = (thread for thread in frames if thread not in ours and thread != threading.get_ident())
        if any(not is_waiting(thread) and not _get_module(frames[thread]).startswith("execnet.") for thread in beside):
            limits.append(LONGER)
        if any(loop.is_running() and _is_listening(loop) for loop in list(interception.work.loops)):
            limits.append(LONGER)
        return max(limit for limit in limits if limit is not None) if limits else None


def _find_limit(thread: int, frame: FrameType, *, still: bool) -> float | None:
    """Return for how long what a thread waits for may stay away; None for a thread that is at work."""
    module = _get_module(frame)
    if module.partition(".")[0] in CHILDREN:
        return LONGER
    if module not in LOOPS and not is_waiting(thread):
        return LONGER if still else None
    timeout = frame.f_locals.get("timeout")  # of Condition.wait, Thread.join and the selectors; -1 stands for none
    if isinstance(timeout, int | float) and 0 <= timeout < FOREVER:
        return max(LONGER, timeout + QUIET)
    return QUIET


def _get_module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _is_listening(loop: object) -> bool:
    """Whether an event loop waits for sockets or pipes beside the one by which it is woken."""
    selector = getattr(loop, "_selector", None)
    return selector is None or len(selector.get_map() or ()) > 1


_watching: StallWatch | None = None
_follows = False


def _follow_forks(watch: StallWatch | None) -> None:
    """Have `watch` rest while the process forks."""
    global _watching, _follows  # noqa: PLW0603  handlers of forks stay for good; one process replays one test at a time
    _watching = watch
    if not _follows and hasattr(os, "register_at_fork"):
        _follows = True
        os.register_at_fork(before=_rest_before_fork, after_in_parent=_go_on_after_fork, after_in_child=_stop_in_child)


def _rest_before_fork() -> None:
    if _watching is not None:
        _watching.rest()


def _go_on_after_fork() -> None:
    if _watching is not None:
        _watching.resume()


def _stop_in_child() -> None:
    global _watching  # noqa: PLW0603
    _watching = None
