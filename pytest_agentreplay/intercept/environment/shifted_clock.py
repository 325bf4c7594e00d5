"""The wall clock of the process that proves recordings: it shows another day, month, weekday and half of the day.

A test with a stepped clock sees the recorded time, since that clock is started above this one. What reads the time
before or around the test (a module, a default argument, a fixture that is wider) sees another day, as it will in CI.
Each line of the project that reads this clock is kept with what it does there, so that a report can name it.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from inspect import CO_OPTIMIZED
from itertools import product
from operator import eq
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.intercept.environment import clock
from pytest_agentreplay.intercept.session.callers import is_agents

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import FrameType

# What the code of the project does that reads the clock, and what helps.
IMPORTED = "while it is imported: build the prompt in a function"
WIDER = "in a fixture wider than the test: read it in the test, or in a fixture of its scope"
REAL = "in a test whose clock is real: let it step (agentreplay_clock = stepped)"
HOOK = "in {}: read it in the test"
# Of pytest and pluggy, the functions below which code of the project runs.
RUNNERS = {"call_fixture_func": WIDER, "pytest_pyfunc_call": REAL, "runtest": REAL, "_multicall": HOOK}


class ShiftedClock(clock.Clock):
    """The real time, shifted; with `lines` only for these lines of the project."""

    def __init__(self, root: str, lines: Collection[str] = ()) -> None:
        """Shift nothing until `start`."""
        super().__init__("stepped", 0)
        self.root, self.lines = root, lines
        self.reads: dict[str, str] = {}
        """What to say of each line that read the clock."""
        self.shift = find_shift(datetime.fromtimestamp(clocks.wall(), UTC))

    def start(self) -> None:
        """Shift the clock from now on, for the whole process."""
        super().start()
        clock.proof_traveller, clock.proof_shift = self._traveller, self.shift.total_seconds()

    def _read_clock(self) -> int:
        line, real = self._find_line(sys._getframe(1)), int(sys.modules["time_machine"].escape_hatch.time.time_ns())
        return real if self.lines and line not in self.lines else real + int(self.shift.total_seconds()) * 10**9

    def _find_line(self, frame: FrameType | None) -> str:
        """Return the innermost line of the project that reads the clock, which is kept; "" where none does."""
        line, outer, function, how, in_function = "", "", "", "", 0
        while frame is not None and not how:
            code = frame.f_code
            if is_agents(code):
                outer = f"{code.co_filename.removeprefix(self.root)}:{frame.f_lineno}".replace("\\", "/").lstrip("/")
                # A module and the body of a class are no functions.
                in_function = in_function if line else code.co_flags & CO_OPTIMIZED
                line, function = line or outer, code.co_name
                how = IMPORTED if function == "<module>" else ""
            elif line:
                how = RUNNERS.get(code.co_name, "").format(function)
                how = REAL if getattr(frame.f_locals.get("request"), "scope", "") == "function" else how
            elif str(frame.f_globals.get("__name__", "")).partition(".")[0] in {"_pytest", "logging"}:
                return ""  # durations and the times of log records reach no prompt
            frame = frame.f_back
        if how:
            via = f" (called by {outer})" if in_function and outer != line else ""
            self.reads.setdefault(line, f"{line}{via} reads the date {how}")
        return line


def find_shift(now: datetime) -> timedelta:
    """Return by how much the clock is shifted, so that what is commonly made of a date differs, here and in UTC."""

    def list_parts(moment: datetime) -> tuple[object, ...]:
        here = moment.astimezone()
        both = [part for zone in (here, moment) for part in (zone.day, zone.month, zone.weekday(), zone.hour)]
        return (*both, here.weekday() > 4, here.hour < 12)

    shifts = (timedelta(days=days, hours=hours) for hours, days in product((12, 11, 13), range(40, 70)))
    return next(shift for shift in shifts if not any(map(eq, list_parts(now + shift), list_parts(now))))
