"""The clock and the seeds of one run as the interception moves them: together, and only when a call is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.intercept.environment.clock import Clock
    from pytest_agentreplay.intercept.environment.randomness import RandomSource


class ClockAndSeeds:
    """What `interception.Steps` asks for, made of a clock and of chance."""

    __slots__ = ("at", "chance", "clock")

    def __init__(self, clock: Clock, chance: RandomSource) -> None:
        """Neither is started yet."""
        self.clock = clock
        self.chance = chance
        self.at = 0
        """When the last call of this process was done; those of its children are not counted."""

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
        self.clock.step(at)
        self.chance.step(lane, count)
