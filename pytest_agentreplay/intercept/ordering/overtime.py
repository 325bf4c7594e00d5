"""Overtime: what is left to a test body once its backend has refused, and how it is ended when it takes more.

A refusal ends the task or thread that made the call. Who waits for what that one was to give (an event, an item of a
queue, a result) would wait for ever, and the test with it. So the latch, and nothing before it, starts a thread that
waits some seconds and then ends the body, again and again until it is over: where its event loop is idle the test's
task is cancelled; where its thread is at work or waits, a signal that nobody else uses interrupts it, and the handler
raises the refusal. Ctrl-C and SIGALRM belong to others and are left alone.

A runner of cases has a time in this process (`Deadline`). When it is over, all that the runner asks is refused, and it
is ended in the same way, at once. What nothing can end from inside, since it waits in C, is reported, and the process
ends. Threads that it leaves behind are named; once all else is done, they do not keep the process from ending.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from pytest_agentreplay.errors import ReplayDiverged, RunnerError
from pytest_agentreplay.intercept.environment import debuggers
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.callers import (
    Root,
    find_floor,
    find_line,
    find_root,
    find_trio_root,
    is_agents,
    list_awaited_frames,
    list_body_frames,
    split_at_loop,
)
from pytest_agentreplay.intercept.session.pending_call import format_refusal
from pytest_agentreplay.model.divergence import Divergence, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from pytest_agentreplay.intercept.session.interceptions import Interception

# Seconds without a call: longer than a body needs to come to its end, once the call that it hangs on is refused. The
# slowest of those refused among 100 random programs took 0.18 s, 0.3 s beside four busy ones (`order_limits.py`).
QUIET = 5.0

# The same for a body that goes on calling; each of these calls is refused, so that nothing can come of them. It is the
# most that a body gets: with `QUIET` at 10 one that only waits was ended after 8.0 s (`order_limits.py`).
LONGEST = 8.0

# Seconds that `except` and `finally` of the body have, before it is ended again, then at each beat. An event, a future
# and twenty tasks that clean up for 1 ms ended within 10 ms of the first attempt (`order_limits.py`).
AGAIN = 2.0

# Seconds between two looks at a body that has to end: 40 looks of `stall_watch` in 10 s took 4 ms of CPU
# (`order_limits.py`).
BEAT = 0.25

# How many lines later, at the most, a body is ended that catches what it is ended with.
LINES = 32

# Signals that do no harm when nobody listens, in order of choice; the last one is that of Windows.
SIGNALS = ("SIGURG", "SIGWINCH", "SIGBREAK")


class Overtime:
    """The watch over one test body, from `start` to `stop`. `waiting` is the agent's line where it was ended, or "".

    `at_once`: it has had its time before the refusal, and gets no more. `floor` is the frame on which the body stands.
    """

    def __init__(self, interception: Interception) -> None:
        """Watch over the body of the test of `interception`; nothing happens before `start`."""
        self.waiting = ""
        self.at_once = False
        self._interception = interception
        self._process = os.getpid()
        self._body = 0
        self.floor: FrameType | None = None
        self._signal: signal.Signals | None = None
        self._before: Any = None
        self._root: Root | None = None
        self._divergence: Divergence | None = None
        self._thread: threading.Thread | None = None
        self._attempts = 0
        self._poked = False
        self._requested = self._came = 0  # how often a loop was asked to cancel, and how often it came to it
        self._traced: list[Any] = []  # the trace function that ours has replaced
        self._over = threading.Event()
        # A finalizer may make a call, and be refused, while we hold it.
        self._lock = threading.RLock()

    def start(self) -> None:
        """The body begins, in this thread. Costs a signal handler, where that is the main thread."""
        self._body = threading.get_ident()
        self.floor = find_floor()
        if threading.current_thread() is threading.main_thread():
            self._signal = find_free_signal()
            if self._signal is not None:
                self._before = signal.signal(self._signal, self._interrupt_body)
        self._interception.ending.on_refusal = self._begin_overtime
        if self._interception.ending.refused is not None:
            self._begin_overtime(self._interception.ending.refused)

    @contextlib.contextmanager
    def call_from(self, frame: FrameType) -> Iterator[None]:
        """Around a body that `frame`, which is ours, calls by itself."""
        floor, self.floor = self.floor, frame
        try:
            yield
        finally:
            self.floor = floor

    def stop(self) -> None:
        """The body is over; everything is as before `start`."""
        self._interception.ending.on_refusal = None
        self._over.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(AGAIN)  # the next test may fork
        if self._signal is not None and signal.getsignal(self._signal) == self._interrupt_body:
            signal.signal(self._signal, self._before)
        if self._traced:
            sys.settrace(self._traced.pop())
        self.floor = self._root = None

    @contextlib.contextmanager
    def watch_task(self) -> Iterator[None]:
        """Around a test that is a coroutine, in the task that runs it. Raises the refusal where it was cancelled."""
        task: Any = lanes.find_runner()
        if (loop := lanes.find_running_loop()) is not None:
            self._root = Root(loop.call_soon_threadsafe, task.cancel, task.get_coro())
            try:
                yield
            except sys.modules["asyncio"].CancelledError:
                if not self._attempts:
                    raise
                while task.cancelling():
                    task.uncancel()
                raise self._make_refusal() from None
        elif (trio := sys.modules.get("trio")) is not None and isinstance(task, trio.lowlevel.Task):
            with trio.CancelScope() as scope:
                self._root = Root(trio.lowlevel.current_trio_token().run_sync_soon, scope.cancel, task.coro)
                yield
            if scope.cancelled_caught:
                raise self._make_refusal()
        else:
            yield

    def _begin_overtime(self, divergence: Divergence) -> None:
        """The backend has refused: from now on the body is on its overtime."""
        with self._lock:
            if self._thread is not None or self._over.is_set() or os.getpid() != self._process:
                return
            self._divergence = divergence
            self._thread = threading.Thread(target=self._wait, name="agentreplay-overtime", daemon=True)
            token = lanes.CALL_CONTEXT.set(None)  # it is no thread of the test's
            try:
                self._thread.start()
            finally:
                lanes.CALL_CONTEXT.reset(token)

    def _wait(self) -> None:
        # Beats are counted: the test may have stopped every clock.
        beats = quiet = 0
        seen = self._interception.pending.activity
        while not self.at_once and quiet * BEAT < QUIET and beats * BEAT < LONGEST:
            if self._over.wait(BEAT):
                return
            beats += 1
            activity = self._interception.pending.activity
            quiet, seen = quiet + 1 if seen == activity else 0, activity
        pause = AGAIN
        while not debuggers.is_attached():
            with self._lock:
                if self._over.is_set():
                    return
                self._end()
            if self._over.wait(pause):
                return
            pause = BEAT

    def _end(self) -> None:
        """End the body once, from beside it: cancel its task where the loop comes to it, else interrupt its thread."""
        frames = list_body_frames(sys._current_frames().get(self._body), self.floor)
        within, loop = split_at_loop(frames)
        root = self._root or find_root(loop)
        if root is not None and not list_awaited_frames(root.coroutine):
            root = None  # its task is done, and the loop waits for threads that it has started
        idle = root is not None and not any(is_agents(frame.f_code) for frame in within)
        if not self._attempts:
            waiting = list_awaited_frames(root.coroutine) if root is not None and idle else []
            self.waiting = find_line([*waiting, *frames], self._interception.root)
        self._attempts += 1
        if root is not None and idle and self._came == self._requested:
            self._ask(root)
        elif self._signal is not None and frames:
            self._poked = True
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(self._body, self._signal)
            else:
                _thread.interrupt_main(self._signal)

    def _ask(self, root: Root) -> None:
        """Have the loop of `root` cancel it."""

        def cancel() -> None:
            self._came += 1
            if not self._over.is_set():
                self._raise_at_later_line(list_awaited_frames(root.coroutine))
                root.cancel()

        self._requested += 1
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            root.soon(cancel)

    def _interrupt_body(self, _signum: int, frame: FrameType | None) -> None:
        """Raise the refusal in the body's thread; have a loop of trio's, which is idle here, cancel its main task."""
        if not self._poked or self._over.is_set() or os.getpid() != self._process:
            return
        self._poked = False
        frames = list_body_frames(frame, self.floor)
        if not frames:
            return
        within, loop = split_at_loop(frames)
        root = find_trio_root(loop)
        if root is not None and self._came == self._requested and not any(is_agents(frame.f_code) for frame in within):
            if self._attempts == 1:
                self.waiting = find_line([*list_awaited_frames(root.coroutine), *frames], self._interception.root)
            self._ask(root)
            return
        self._raise_at_later_line(frames)
        raise self._make_refusal()

    def _make_refusal(self) -> ReplayDiverged:
        assert self._divergence is not None
        return ReplayDiverged(format_refusal(self._divergence), self._divergence)

    def _raise_at_later_line(self, frames: Iterable[FrameType]) -> None:
        """At a second attempt and after: raise the refusal at a line of the agent's too, at each attempt one later.

        Who catches whatever is raised where it waits, and waits again, does not catch it at each of its lines.
        """
        if self._attempts == 1:
            return
        left = (self._attempts - 2) % LINES

        def at_line(_frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal left
            if event == "line" and not self._over.is_set():
                if not left:
                    raise self._make_refusal()
                left -= 1
            return at_line

        for frame in frames:
            if is_agents(frame.f_code):
                frame.f_trace = at_line
        if not self._traced:
            self._traced.append(sys.gettrace())
        sys.settrace(lambda frame, _event, _arg: at_line if is_agents(frame.f_code) else None)


def find_free_signal() -> signal.Signals | None:
    """The first of `SIGNALS` that this system has and nobody handles."""
    signals = (getattr(signal, name) for name in SIGNALS if hasattr(signal, name))
    return next((number for number in signals if signal.getsignal(number) is signal.SIG_DFL), None)


# Seconds in which it is tried to end what has run out of time, before the process is ended. A body that catches
# whatever is raised and waits again was ended `AGAIN` after the first attempt, with the second one (`order_limits.py`).
MERCY = 20.0

# Seconds that threads left behind have after all else is done. With 0.1 a thread that had a second left was cut off,
# with 2 it came to its end (`order_limits.py`).
PATIENCE = 2.0

# The exit code of a process that was ended so, as of all that cannot run.
CANNOT = 125
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

    def describe_overdue(self) -> RunnerError:
        """What there is to say of a body that was ended, with the threads that it has left behind."""
        # https://docs.python.org/3/library/sys.html#sys._current_frames, CPython alone
        frames, root = sys._current_frames(), self._interception.root
        threads = [thread for thread in threading.enumerate() if thread.ident in self._interception.work.working]
        _left.update(threads)
        lines = [
            f"left behind: thread {thread.name}"
            f"{format_place(find_line(list_body_frames(frames.get(thread.ident or 0), None), root))}"
            for thread in threads
        ]
        return RunnerError("\n  ".join((self._describe("and was ended"), *lines)))

    def _watch(self, body: int, despair: Despair) -> None:
        while not self._over.wait(self._seconds):
            if not debuggers.is_attached():
                break
        if self._over.is_set():
            return
        frames = list_body_frames(sys._current_frames().get(body), self._overtime.floor)
        self._waiting = find_line(frames, self._interception.root)
        self.passed = self._overtime.at_once = True
        self._interception.latch(Divergence(Kind.LATE, f"its time was over after {self._seconds:g} s"), self._waiting)
        if not self._over.wait(MERCY) and not debuggers.is_attached():
            despair(
                self._describe(
                    "and nothing can end it but the end of this process (--runner-cmd runs it in one of its own)"
                )
            )

    def _describe(self, how: str) -> str:
        line = self._overtime.waiting or self._waiting
        text = f"{self._who} was still running after {self._seconds:g} s{format_place(line)}, {how}"
        return f"{text}; raise agentreplay_timeout, or --timeout"


def format_place(line: str) -> str:
    """Where something stands, if that is known."""
    return f", at {line}" if line else ""


def end_process(text: str) -> None:
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
