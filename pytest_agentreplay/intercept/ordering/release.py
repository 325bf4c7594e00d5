"""The scheduler of a replay: it hands recorded answers over in the order in which they came, one at a time.

A call that is made (`ask`) waits for its answer (`wait`, `wait_in_thread`) as it waited for the network: as a `Waiter`.
`_consider` decides, each time a loop is idle or a thread looks around. It goes through the recorded events:

1. Take the event that came next. None is left: let every waiter go, there is no order left to keep.
2. `Quiet.is_settled`: what was handed over last has not run its course yet. Look again in `LOOK` seconds.
3. `_find_awaited`: nobody waits for this event, or a call that had been made by then is missing. `_find_wait` says how
   long something may still bring it: a thread or job at work (`WORKING`), a timer that was due by then (`GRACE`), a
   task that waits for something unknown (`SILENCE`). When nothing can, `_handle_stall` ends the test; where only a call
   is missing that was made beside it, the schedule goes on without it. Where `look_ahead` allows it, what was asked for
   is handed over although the call before it is overdue: what comes next shows whether that comes later or never.
4. `_find_too_early`: somebody waits in the same loop who had asked only after this event. `_end_test` ends the test.
5. `_hand_over`: the event has come, its waiter is let go, and all begins anew.

Invariants:
- One answer at a time: the next one goes out when each event loop is idle, each thread that was let go waits again or
  had `SETTLE` seconds, and no other thread of the test is at work.
- The order depends on what the program does, never on how long it takes: limits count the time in which the process is
  idle (`quiet.IdleTime`), so neither a slow machine nor a debugger makes a stall.
- A call is handed the answer that its schedule names, or the test ends with a divergence that names both sides; nothing
  is answered by a guess. With `loose`, or while a call is overdue, what was asked for is handed over instead.
- Who waits for a call that never ended when recorded waits to be given up; where nothing is left that could do it, the
  test ends (`_give_up`).
- All state is kept under one lock, and no code of the program runs while it is held.

`docs/explanation/order.md` lists the limits. Long for one module: waiting and deciding share one lock, and each looks
at what the other keeps. What the program does meanwhile is seen by `quiet`.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_agentreplay import clocks
from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.ordering.idle import RoundsIdle, SelectorIdle, TrioIdle, watch_running_loop
from pytest_agentreplay.intercept.ordering.pausing import LOOK, Sleepers, describe_pending_timer
from pytest_agentreplay.intercept.ordering.quiet import GRACE, TICK, Quiet
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.session.callers import find_agents_line, find_line, walk_waiting
from pytest_agentreplay.intercept.session.pending_call import AnswerOrder
from pytest_agentreplay.model.release_order import END, ReleaseEvent, lanes_above

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from types import FrameType

    from pytest_agentreplay.intercept.ordering.idle import Idle
    from pytest_agentreplay.intercept.session.lanes import ThreadActivity
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.session.session_parts import Ending
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, Exchange, Json
    from pytest_agentreplay.model.release_order import ReleaseSchedule

    Explain = Callable[[Call, Exchange, Exchange | None], Divergence]
    LookAhead = Callable[[Call, Exchange, Exchange, str], bool]

# What is waited for of a call that never ended.
NEVER = END + 1

TOO_LATE = "refused: an answer is waited for after its test has ended"


class OrderedTest(Protocol):
    """The test whose answers are in order, as far as the scheduler knows it: what is at work in it, and how it ends."""

    work: ThreadActivity
    ending: Ending
    root: str

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Fail the test with its first divergence, which is returned; `origin` is the agent's line."""


@dataclass(slots=True, eq=False, repr=False)
class Waiter:
    """Somebody who waits until an answer has come as far as `chunks`. `idle` is None for a thread."""

    intercepted: PendingCall
    chunks: int
    idle: Idle | None
    wake: Callable[[], object]
    start: int = field(init=False)
    thread: int = field(default_factory=threading.get_ident)
    source: object = field(default_factory=lanes.find_runner)
    future: object = None
    over: bool = False
    refused: bool = False

    def __post_init__(self) -> None:
        assert self.intercepted.exchange is not None
        self.start = self.intercepted.exchange.start

    def walk_frames(self) -> Iterable[FrameType]:
        """Where it waits, and where those wait that started it, the innermost frame first."""
        return walk_waiting(self.source, self.intercepted.call_context)


class Overtaking(NamedTuple):
    """A call that was answered at once in the loop `idle`, before one recorded before it; `tasks` were there then."""

    call: Call
    exchange: Exchange
    line: str
    idle: Idle
    tasks: Collection[object]


class ReleaseQueue(AnswerOrder):
    """The order of one replay. Safe from any thread and task.

    `explain` gives the divergence for a call, recorded as its first exchange, that came or waits before the second;
    without a second it waits for an answer that never came.
    `look_ahead` says of such a call, with the agent's line, whether it is answered first, since the test fails anyway.
    `loose` hands over what has been asked for where the recorded order cannot be kept, and names no one.
    `waits` lets answers take as long as they took.
    Answers to writes wait for what sleeps beside them and is not one of `asleep`; None: for nothing.
    """

    now = staticmethod(clocks.monotonic)

    def __init__(
        self,
        schedule: ReleaseSchedule,
        test: OrderedTest,
        explain: Explain,
        *,
        loose: bool = False,
        waits: bool = False,
        look_ahead: LookAhead = lambda *_: False,
        asleep: Json = None,
    ) -> None:
        """Nothing is watched before somebody waits."""
        self.schedule = schedule
        self.quiet = Quiet(test.work, self.now)
        self._test = test
        self._explain = explain
        self._loose = loose
        self._look_ahead = look_ahead
        self._waits = waits
        self._lock = threading.RLock()
        self._asleep = Sleepers(test.work, asleep)
        self._lookout: Waiter | None = None
        self._waiting: dict[int, Waiter] = {}
        self._endless: dict[int, Waiter] = {}  # those that wait to be given up
        self._early: list[Waiter] = []
        self._overtaking: list[Overtaking] = []
        self._overdue: set[int] = set()
        self._disturbed = False
        self._made: dict[int, float] = {}
        self._divergence: Divergence | None = None

    def ask(self, start: int) -> None:
        """The call that is recorded as `start` was made."""
        with self._lock:
            self.schedule.ask(start)
            self.quiet.note_move()
            for overtaking in self._overtaking:
                self._check_overtaken(overtaking, start)
            if self._waits:
                self._made[start] = self.now()

    def is_released(self, intercepted: PendingCall, chunks: int) -> bool:
        """Whether the answer has come so far."""
        assert intercepted.exchange is not None
        start = intercepted.exchange.start
        return self.schedule.count_released(start) >= chunks or not self.schedule.holds(start)

    def disturb(self) -> None:
        """A message came over a lasting connection: what it sets off is as early as it likes."""
        self._disturbed = True
        for idle in list(self.quiet.loops.values()):
            idle.slept = True

    def drop(self, start: int) -> None:
        """Whoever made the call wants no more of its answer."""
        # No lock: a finalizer may come here while another thread has it. Whoever waits looks again by itself.
        if self.schedule.count_released(start) < END:
            self.schedule.drop(start)

    async def wait(self, intercepted: PendingCall, chunks: int) -> None:
        """Wait until the answer has come as far as `chunks`. Raises ReplayDiverged where the order cannot be kept."""
        exchange = intercepted.exchange
        assert exchange is not None
        if self.schedule.count_released(exchange.start) >= chunks or not self.schedule.holds(exchange.start):
            return
        # When recorded, the task had its answer before it gave way to any other: it must not let them run first now.
        at_once = not exchange.suspended or chunks <= exchange.at_once
        if at_once and self._find_loop_to_wait_in(exchange.start, gives_way=True) is None:
            self._answer_at_once(intercepted, exchange, exchange.at_once if exchange.suspended else END)
            return
        if self._test.ending.over.is_set():
            raise ReplayDiverged(TOO_LATE)
        await self._wait_in_loop(intercepted, chunks)

    def wait_in_thread(self, intercepted: PendingCall, chunks: int, *, at_once: bool = False) -> None:
        """As `wait`, for a thread; that of a running event loop is held only while nothing can run in this loop."""
        del at_once
        exchange = intercepted.exchange
        assert exchange is not None
        if self.schedule.count_released(exchange.start) >= chunks or not self.schedule.holds(exchange.start):
            return
        if not lanes.is_in_loop():
            self._wait_in_thread(intercepted, chunks)
            return
        idle = self._find_loop_to_wait_in(exchange.start)
        if idle is None or not self._wait_in_thread(intercepted, END, idle):
            self._answer_at_once(intercepted, exchange, END)

    async def abandon(self, intercepted: PendingCall) -> None:
        """Wait to be given up, as the recorded call was. Raises ReplayDiverged where nothing can do that any more."""
        await self._wait_in_loop(intercepted, NEVER)

    def abandon_in_thread(self, intercepted: PendingCall) -> None:
        """As `abandon`, for a thread; it is given up at the end of the test."""
        self._wait_in_thread(intercepted, NEVER)

    def _wait_in_thread(self, intercepted: PendingCall, chunks: int, here: Idle | None = None) -> bool:
        """Wait, in a thread; in that of the loop `here` until this loop can go on. Return whether the answer came."""
        changed = threading.Condition(self._lock)
        waiter = Waiter(intercepted, chunks, None, changed.notify)
        with self._lock:
            self._wait(waiter)
            try:
                while not waiter.over:
                    if self._test.ending.over.is_set():
                        if chunks == NEVER:
                            return False
                        raise ReplayDiverged(TOO_LATE)
                    if here is not None and self._find_loop_to_wait_in(waiter.start) is None:
                        return False
                    wait = self._look_around(here)
                    if not waiter.over:
                        # One thread looks again soon; the others trust it.
                        self._lookout = self._lookout or waiter
                        changed.wait(wait if wait is not None and self._lookout is waiter else TICK)
            finally:
                self._leave(waiter)
        self._raise_refused(waiter)
        return True

    def _find_loop_to_wait_in(self, start: int, *, gives_way: bool = False) -> Idle | None:
        """Return the loop that runs here, if the call `start` has to wait for what had come before it was made.

        One that gives way lets the other tasks run meanwhile; beside threads, whose order is chance, and where it
        cannot give way, it waits only while nothing in its loop can bring what had come.
        """
        event = self.schedule.find_early(start)
        if event is None or self._loose:
            return None
        loop = lanes.find_running_loop()
        idle = self._watch_loop(loop if loop is not None else lanes.get_trio_run())
        if gives_way and len(self.quiet.loops) == 1 and not self._test.work.working:
            return idle
        waits_here = any(waiter.idle is idle for waiter in self._waiting.values())
        if waits_here or not isinstance(idle, SelectorIdle) or idle.is_at_work():
            return None
        gap = self._compute_gap(self.schedule.exchanges[event.start].timing.start)
        return None if idle.is_due_within(2 * gap + GRACE) else idle

    def refuse(self, divergence: Divergence) -> None:
        """The backend has refused for good: nobody is handed anything any more."""
        with self._lock:
            self._divergence = divergence
            for waiter in [*self._waiting.values(), *self._endless.values()]:
                self._let_go(waiter, refused=True)

    def stop(self) -> None:
        """Leave all loops as they were."""
        with self._lock:
            for idle in self.quiet.loops.values():
                idle.stop()
            self.quiet.loops.clear()

    # Waiting.

    async def _wait_in_loop(self, intercepted: PendingCall, chunks: int) -> None:
        loop = lanes.find_running_loop()
        idle = self._watch_loop(loop if loop is not None else lanes.get_trio_run())
        if loop is not None:
            await self._wait_for_future(intercepted, chunks, idle, loop)
        else:
            await self._wait_for_event(intercepted, chunks, idle)

    async def _wait_for_future(
        self, intercepted: PendingCall, chunks: int, idle: Idle, loop: asyncio.AbstractEventLoop
    ) -> None:
        future = loop.create_future()

        def wake() -> None:
            if threading.get_ident() == idle.thread:
                _set_done(future)
            else:
                loop.call_soon_threadsafe(_set_done, future)

        waiter = Waiter(intercepted, chunks, idle, wake)
        waiter.future = future
        with self._lock:
            self._wait(waiter)
        idle.poke()
        try:
            await future
        finally:
            self._leave_with_lock(waiter)
        self._raise_refused(waiter)

    async def _wait_for_event(self, intercepted: PendingCall, chunks: int, idle: Idle) -> None:
        import trio

        event, token = trio.Event(), trio.lowlevel.current_trio_token()

        def wake() -> None:
            if threading.get_ident() == idle.thread:
                event.set()
            else:
                token.run_sync_soon(event.set)

        waiter = Waiter(intercepted, chunks, idle, wake)
        with self._lock:
            self._wait(waiter)
        idle.poke()
        try:
            await event.wait()
        finally:
            self._leave_with_lock(waiter)
        self._raise_refused(waiter)

    def _wait(self, waiter: Waiter) -> None:
        if self._divergence is not None:
            waiter.over = waiter.refused = True
            waiter.wake()
            return
        (self._waiting if waiter.chunks < NEVER else self._endless)[waiter.start] = waiter
        self.quiet.note_waiting(waiter)
        if waiter.idle is not None and not waiter.idle.slept and self.schedule.find_early(waiter.start) is not None:
            self._early.append(waiter)
        self._look()

    def _look(self) -> None:
        """Something has changed: a thread that waits is to look again."""
        if self._lookout is not None:
            self._lookout.wake()

    def _leave_with_lock(self, waiter: Waiter) -> None:
        with self._lock:
            self._leave(waiter)

    def _leave(self, waiter: Waiter) -> None:
        """Nobody waits there any more; who leaves before the answer came wants none."""
        for kept in (self._waiting, self._endless):
            if kept.get(waiter.start) is waiter:
                del kept[waiter.start]
        if not waiter.over:
            self.schedule.drop(waiter.start)
        self.quiet.note_running(waiter)
        if self._lookout is waiter:
            self._lookout = next(
                (waiter_in_thread for waiter_in_thread in self._waiting.values() if waiter_in_thread.idle is None), None
            )
        self._look()

    def _raise_refused(self, waiter: Waiter) -> None:
        if waiter.refused:
            raise self._make_refusal()

    def _make_refusal(self) -> ReplayDiverged:
        divergence = self._divergence
        assert divergence is not None
        return ReplayDiverged(f"[{divergence.kind.code}] {divergence.summary}", divergence)

    def _watch_loop(self, runs: object) -> Idle:
        idle = self.quiet.loops.get(runs)
        if idle is None:
            idle = watch_running_loop(self._look_from_loop)
            idle.slept = idle.slept or self._disturbed
            self.quiet.watch(runs, idle)
        return idle

    # Handing over.

    def _look_from_loop(self, idle: Idle) -> float | None:
        with self._lock:
            return self._look_around(idle)

    def _look_around(self, here: Idle | None) -> float | None:
        """As `_consider`, and count how long the program is idle."""
        self.quiet.look()
        wait = self._consider(here)
        self.quiet.look_again(wait or 0.0)
        return wait

    def _consider(self, here: Idle | None) -> float | None:
        """Hand over what is next, if it is time. Return the seconds until another look, 0 if `here` has work again."""
        while self._waiting:
            event = self.schedule.next_event()
            if event is None:
                # All has come that came when recorded, so nothing is left to keep an order with.
                for other_waiter in list(self._waiting.values()):
                    self._let_go(other_waiter)
                return 0
            if not self.quiet.is_settled(here):
                return LOOK
            waiter = self._waiting.get(event.start)
            awaited = self._find_awaited(event, waiter)
            if awaited is not None:
                if (wait := self._find_wait(awaited)) is not None:
                    return wait
                if waiter is None:
                    self._handle_stall(event)
                    return 0
                self.schedule.expect_no_more(awaited.start)
                continue
            assert waiter is not None
            if self._waits and (left := self._find_left(event)) > 0:
                return left
            if (early := self._find_too_early(event, waiter)) is not None:
                self._end_test(early, self.schedule.exchanges[event.start])
                return 0
            if self._asleep.are_awaited(waiter, self.quiet.list_held_threads()) and waiter.intercepted.hold():
                return LOOK
            self._hand_over(event, waiter)
            if waiter.over:
                return 0 if waiter.idle is here else LOOK
        return self._give_up(here) if self._endless else None

    def _give_up(self, here: Idle | None) -> float | None:
        """End the test if nothing but calls that never ended is waited for. Return what `_consider` gives."""
        if not self.quiet.is_settled(here):
            return LOOK
        waiter = min(self._endless.values(), key=lambda endless: endless.start)
        mine = self.schedule.exchanges.get(waiter.start)
        if mine is None or self.quiet.has_timers():
            return None
        # When recorded it went on so long, or the run did; what we do not know of may take its time again.
        until = max(x.timing.end or 0 for x in self.schedule.exchanges.values()) if mine.outcome is None else 0
        if self.quiet.may_go_on(self._compute_gap(mine.timing.end or until), self._list_futures()):
            return TICK
        self._latch(
            self._explain(waiter.intercepted.call, mine, None), find_line(waiter.walk_frames(), self._test.root)
        )
        return 0

    def _find_awaited(self, event: ReleaseEvent, waiter: Waiter | None) -> ReleaseEvent | None:
        """What has to happen before `event` can come: a call that was made before it; None when nothing has."""
        if waiter is None:
            x = self.schedule.exchanges[event.start]
            if self.schedule.is_asked(event.start):
                return event
            return ReleaseEvent(x.start, x.start, END, x.timing.start)
        missing = self.schedule.to_be_asked(event.reading)
        return None if missing is None else ReleaseEvent(missing.start, missing.start, END, missing.timing.start)

    def _hand_over(self, event: ReleaseEvent, waiter: Waiter) -> None:
        # A task gets its answer part by part also where no other call was made in between: other tasks may have run.
        if waiter.idle is not None and waiter.chunks < event.chunks:
            event = event._replace(chunks=waiter.chunks)
        self.schedule.mark_released(event)
        self.quiet.note_answer()
        if waiter.chunks <= event.chunks:
            self._let_go(waiter)

    def _let_go(self, waiter: Waiter, *, refused: bool = False) -> None:
        waiter.over, waiter.refused = True, refused
        self._waiting.pop(waiter.start, None)
        self._endless.pop(waiter.start, None)
        self.quiet.note_woken(waiter)
        if waiter.idle is not None:
            # Loops whose timers cannot be seen may have slept since; the others notice it themselves.
            waiter.idle.slept = isinstance(waiter.idle, RoundsIdle | TrioIdle)
        waiter.wake()

    def _find_left(self, event: ReleaseEvent) -> float:
        """Seconds until the answer has taken as long as it took when recorded."""
        took = (event.at - self.schedule.exchanges[event.start].timing.start) / 1e9
        return took - (self.now() - self._made.get(event.start, 0.0))

    def _answer_at_once(self, intercepted: PendingCall, exchange: Exchange, chunks: int) -> None:
        """The answer to a call that has given way to nobody so far: it comes now, whatever is next."""
        with self._lock:
            if self._divergence is not None:
                raise self._make_refusal()
            event = self.schedule.find_early(exchange.start)
            waiter = None if event is None else self._waiting.get(event.start)
            here = waiter is not None and waiter.idle is not None and waiter.idle.thread == threading.get_ident()
            if not self._loose and here and waiter is not None and waiter.idle is not None and not waiter.idle.slept:
                divergence = self._explain(intercepted.call, exchange, self.schedule.exchanges[waiter.start])
                self._latch(divergence, find_agents_line(self._test.root))
                raise self._make_refusal()
            if event is not None and (loop := lanes.find_running_loop()) is not None and not self._loose:
                line, tasks = find_agents_line(self._test.root), weakref.WeakSet(asyncio.all_tasks(loop))
                self._overtaking.append(Overtaking(intercepted.call, exchange, line, self._watch_loop(loop), tasks))
            end = exchange.timing.end or exchange.timing.start
            self.schedule.mark_released(ReleaseEvent(exchange.finish or exchange.start, exchange.start, chunks, end))
            if chunks == END:
                self.schedule.drop(exchange.start)
            self.quiet.note_answer()
            self._look()

    def _check_overtaken(self, overtaking: Overtaking, start: int) -> None:
        """End the test if the call `start` comes after one that had come after it, from a task begun since then."""
        x, idle, task = self.schedule.exchanges.get(start), overtaking.idle, lanes.find_runner()
        if x is None or (x.finish or END) > overtaking.exchange.start or lanes.find_running_loop() is None:
            return
        if idle.thread == threading.get_ident() and not idle.slept and task not in overtaking.tasks:
            self._latch(self._explain(overtaking.call, overtaking.exchange, x), overtaking.line)

    def _find_wait(self, awaited: ReleaseEvent) -> float | None:
        """Seconds for which it is worth waiting for `awaited` until another look; None when nothing can bring it."""
        if awaited.start in self._overdue:
            return None
        return self.quiet.find_wait(self._compute_gap(awaited.at), self._list_futures())

    def _compute_gap(self, at: int) -> float:
        """Return the seconds that were recorded between what was handed over last and `at`, in nanoseconds."""
        last = self.schedule.last
        return max(0, at - (last.at if last is not None else 0)) / 1e9

    def _list_futures(self) -> set[object]:
        """Return the futures of tasks that wait for an answer."""
        return {waiter.future for waiter in chain(self._waiting.values(), self._endless.values())}

    # Parting.

    def _find_too_early(self, event: ReleaseEvent, waiter: Waiter) -> Waiter | None:
        """Who waits in the same loop as `waiter`, although it had asked only after `event` when recorded."""
        if not self._early:
            return None
        self._early = [early for early in self._early if not early.over and self.schedule.find_early(early.start)]
        x = self.schedule.exchanges[event.start]
        if self._loose or not x.suspended or event.chunks <= x.at_once:  # it was over before anybody could ask
            return None
        return next((early for early in self._early if early.idle is waiter.idle and event.reading < early.start), None)

    def _handle_stall(self, event: ReleaseEvent) -> None:
        """Nothing can bring what is next: say so, or where that is allowed go on with what was asked for."""
        if not self._loose and event.start not in self._overdue:
            expected = self.schedule.exchanges[event.start]
            # Of agents beside each other the one that has left a call out is to be reported, where it waits too.
            shared = self._count_shared_lanes
            first = min(self._waiting.values(), key=lambda waiter: (-shared(waiter, expected), waiter.start))
            mine, line = self.schedule.exchanges[first.start], find_line(first.walk_frames(), self._test.root)
            # A program that is at work, or has a timer, may go on without end, or bring it in its own time.
            if self.quiet.is_active() or not self._look_ahead(first.intercepted.call, mine, expected, line):
                self._end_test(first, expected, self._describe_timers())
                return
            self._overdue.add(event.start)
        for other in self.schedule.events:
            waiting = self._waiting.get(other.start)
            if waiting is not None and self.schedule.count_released(other.start) < other.chunks:
                self._hand_over(other, waiting)
                if waiting.over:
                    return

    def _count_shared_lanes(self, waiter: Waiter, expected: Exchange) -> int:
        """Return how many lanes lead to both calls: more of them where they are of one agent."""
        theirs = lanes_above(f"{expected.lane}.")
        return sum(lane in theirs for lane in lanes_above(f"{self.schedule.exchanges[waiter.start].lane}."))

    def _describe_timers(self) -> tuple[str, ...]:
        """What there is to say of the timers that nobody waits for any more."""
        loops = [runs for runs, idle in self.quiet.loops.items() if idle.timeout is not None]
        return tuple(text for loop in loops if (text := describe_pending_timer(loop, self._test.root)))

    def _end_test(self, waiter: Waiter, expected: Exchange, detail: tuple[str, ...] = ()) -> None:
        divergence = self._explain(waiter.intercepted.call, self.schedule.exchanges[waiter.start], expected)
        divergence = replace(divergence, detail=(*divergence.detail, *detail))
        self._latch(divergence, find_line(waiter.walk_frames(), self._test.root))

    def _latch(self, divergence: Divergence, line: str) -> None:
        kept = self._test.latch(divergence, line)
        if self._divergence is None:
            self.refuse(kept)


def _set_done(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_result(None)
