"""The wall clock of one run: it stands still between calls, so that a prompt with a time in it comes back the same.

Agent code sees the wall time of the last completed call, in recordings too; monotonic clocks run on, and our own
timings use them. A loop that waits on wall time still ends: a clock that was not stepped for a second runs on when it
is read. It needs no thread for that, since a second thread would make every fork of the agent a warning. What somebody
thinks at a debugger's prompt is not waiting: the clock stands still meanwhile, and goes on where it stood.

`ClockAndSeeds` is what the interception moves: both together, and only when a call is done.

`is_reading` finds readings of this process's clocks in an object: when it was made, when its rate limiter was asked
last. They are other ones in each process, so an object that a method is called on is not compared by them. A reading is
recognised by its value: it lies between the start of the process, or of the run, and now, and a float has the digits of
a clock.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_left
from datetime import UTC, datetime
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.environment import debuggers
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.release_order import lanes_above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.intercept.environment.randomness import RandomSource
    from pytest_agentreplay.model.exchanges import Exchange

# Nanoseconds without a call after which the clock runs on.
PATIENCE = 1_000_000_000


class Clock:
    """The wall time that agent code sees: `wall_ns` at the start, then `wall_ns` + `at` of the last completed call.

    `first` is what it shows at the start, in nanoseconds after `wall_ns`.
    Whole microseconds, whatever the arguments, so that every way to ask (`time`, `time_ns`, `now`) gives one instant.
    Mode "real" leaves time alone, and so does a clock that meets another traveller at its start (time-machine,
    freezegun, or a function of the test's own in the place of `time.time`, by a fixture or marker of the test). Who
    travels inside the test wins until they come back.
    `live_inside` gives what runs inside an exchange the real time: it talks to the world of today. `passes` reads the
    nanoseconds that are waited for a call: real ones, or the virtual ones of `intercept.ordering.virtual_time`.
    """

    def __init__(self, mode: Literal["stepped", "real", "virtual"], wall_ns: int) -> None:
        """Take `wall_ns`, nanoseconds since the epoch; nothing moves until `start`."""
        self.ran_on = False
        self.first = 0
        self.live_inside = False
        self.passes: Callable[[], int] = _read_time_awake
        self._mode = mode
        self._wall = wall_ns
        self._stand = (0, 0)
        self._paused: tuple[int, int] | None = None  # what it showed at `stop`, and for how long it had
        self._travel: Any = None
        self._traveller: Any = None
        self._real_formats = CTIME, ASCTIME

    @property
    def stepping(self) -> bool:
        """Whether agent code sees this clock: started, not "real", and nobody travelled before."""
        return self._travel is not None

    def start(self) -> None:
        """Stop the wall clock at `wall_ns`; a second time, where `stop` has left it."""
        if self._mode == "real":
            return
        import time_machine

        if time_machine.traveller_stack not in ([], [proof_traveller]) or _is_freezegun_active() or _is_replaced():
            return
        travel = time_machine.travel(0, tick=False)
        if self._paused is None:
            self.step(self.first)
        else:
            wall_ns, elapsed = self._paused
            self._stand = (wall_ns, self.passes() - elapsed)
        self._traveller = travel.start()
        # The library asks its innermost traveller for the time; ours answers by itself, to the nanosecond and in one
        # assignment a step, where `move_to` would take a float of seconds.
        self._traveller.time_ns = self._read_clock
        self._travel = travel
        self._real_formats = time.ctime, time.asctime
        time.ctime, time.asctime = _ctime, _asctime

    def step(self, at_ns: int) -> None:
        """A call was completed `at_ns` nanoseconds after the run began: that is the time now."""
        wall_ns = self._wall + at_ns
        self._stand = (wall_ns - wall_ns % 1000, self.passes())

    def join(self, mode: Literal["stepped", "real"], wall_ns: int) -> None:
        """Show the time of the run that this process, a child, has joined: it began at `wall_ns`."""
        self._mode, self._wall, self.passes = mode, wall_ns, _read_time_awake

    def step_to(self, at_ns: int) -> None:
        """As `step`, for a call of another process: several report in any order, and time never goes back."""
        if self._wall + at_ns > self._stand[0]:
            self.step(at_ns)

    def stop(self) -> None:
        """Return the wall clock back. Safe to call twice, and while someone who travelled inside has not come back."""
        travel, traveller = self._travel, self._traveller
        self._travel = self._traveller = None
        if travel is None:
            return
        wall_ns, since = self._stand
        self._paused = (wall_ns, self.passes() - since)
        time.ctime, time.asctime = self._real_formats
        from time_machine import traveller_stack as stack

        if stack and stack[-1] is traveller:
            travel.stop()
        elif traveller in stack:
            # Not the innermost: `travel.stop` would end the other's journey and leave ours.
            stack.remove(traveller)

    def _read_clock(self) -> int:
        if (
            self.live_inside
            and (call_context := lanes.CALL_CONTEXT.get()) is not None
            and call_context.inside is not None
        ):
            return int(sys.modules["time_machine"].escape_hatch.time.time_ns())
        wall_ns, since = self._stand
        over = self.passes() - since - PATIENCE
        if over <= 0:
            return wall_ns
        call_context = lanes.CALL_CONTEXT.get()
        if call_context is None or call_context.inside is None:
            # Inside an exchange nobody will ask again: the reading is part of what is recorded.
            self.ran_on = True
        return wall_ns + over


# In the process that proves recordings, whose clock `shifted_clock` shifts: its traveller, and by how many seconds.
proof_traveller: Any = None
proof_shift = 0.0

# The functions of `time` that time-machine makes its own.
ASKED = ("time", "time_ns", "gmtime", "localtime", "strftime", "clock_gettime", "clock_gettime_ns")

# The two ways to ask for the time that time-machine leaves alone.
CTIME, ASCTIME = time.ctime, time.asctime


def _ctime(seconds: Any = None, /) -> str:
    return CTIME(time.time() if seconds is None else seconds)


def _asctime(parts: Any = None, /) -> str:
    return ASCTIME(time.localtime() if parts is None else parts)


def _read_time_awake() -> int:
    return clocks.monotonic_ns() - debuggers.PROMPT.time_waited()


def _is_replaced() -> bool:
    """Whether a function of `time` is a test's own now: the library would write into its memory."""
    return any(not isinstance(getattr(time, name, len), BuiltinFunctionType) for name in ASKED)


def _is_freezegun_active() -> bool:
    datetime = sys.modules.get("datetime")
    return datetime is not None and datetime.datetime.__name__ == "FakeDatetime"


class ClockAndSeeds:
    """What `interception.Steps` asks for, made of a clock and of chance."""

    def __init__(self, clock: Clock, chance: RandomSource) -> None:
        """Neither is started yet."""
        self.clock = clock
        self.chance = chance
        self.at = 0
        """When the last call of this process was done; those of its children are not counted."""
        self._begins: dict[str, list[int]] = {}

    def follow(self, exchanges: Iterable[Exchange]) -> None:
        """Show the time at which the next call of `exchanges` began, those of a run whose clock was real.

        What its code wrote down of the time it read shortly before that call, and not when the last one was done.
        """
        for x in exchanges:
            if x.parent is None:
                self._begins.setdefault(x.lane, []).append(x.timing.start)
        self.clock.first = min((begins[0] for begins in self._begins.values()), default=0)

    def _find_next(self, lane: str, at: int) -> int:
        """Return when the next call began of `lane` or of a lane below it, else of one that waits for it; else `at`."""
        rows = (self._begins.get(path, []) for path in (lane, *lanes_above(lane)))
        after = [begins[place] for begins in rows if (place := bisect_left(begins, at)) < len(begins)]
        below = (begins[0] for path, begins in self._begins.items() if path.startswith(f"{lane}."))
        return min([*after[:1], *(begin for begin in below if begin >= at)], default=at)

    def start(self) -> None:
        """Start both, or neither."""
        self.clock.start()
        try:
            self.chance.start()
        except BaseException:
            self.clock.stop()
            raise

    def stop(self) -> None:
        """Return wall time, random numbers and ids back as they were. A second call does nothing."""
        try:
            self.chance.stop()
        finally:
            self.clock.stop()

    def step(self, at: int, lane: str, count: int) -> None:
        """The `count`-th call of `lane` was done, `at` nanoseconds after the run began."""
        self.at = at
        self.clock.step(self._find_next(lane, at) if self._begins else at)
        self.chance.step(lane, count)


# Seconds before this module is loaded, or before the present of the run, in which objects are made.
_EARLIER = 60.0

_WALL, _MONOTONIC = clocks.wall(), clocks.monotonic()


def is_reading(value: Any) -> bool:
    """Whether a number or a moment is a reading of a clock of this process or this run."""
    kind = type(value)
    if kind is datetime:
        try:
            return _is_wall((value if value.tzinfo else value.astimezone()).astimezone(UTC).timestamp())
        except (OverflowError, OSError, ValueError):
            return False
    if kind is int:
        return 10**18 < value < 2**62 and _is_wall(value / 10**9)
    if kind is not float:
        return False
    seconds: float = value
    # Readings of `time.time` are 0.24 microseconds apart today: one in 420 has four digits, and no price is as large.
    if not seconds.is_integer() and _is_wall(seconds):
        return True
    return seconds != round(seconds, 4) and _MONOTONIC - _EARLIER <= seconds <= clocks.monotonic()


def _is_wall(seconds: float) -> bool:
    # `time.time` is that of the run, which a replay sets to the recorded day; monotonic time runs on.
    process = _WALL + clocks.monotonic() - _MONOTONIC
    run = time.time()
    made = (seconds, seconds - proof_shift)
    return any(_WALL - _EARLIER <= at <= process + 1 for at in made) or run - _EARLIER <= seconds <= run + 1
