"""What only shows when the tests are over: calls that came after the report of their test, and tests that stood by.

Facts are plain JSON, so that worker processes can hand them on; `report.session` says them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.intercept.network.guard import ModelHostWatch
    from pytest_agentreplay.runs.run_session import RunSession

Facts = dict[str, Any]


class LateCalls:
    """Keeps an ear on tests that have ended, and on those without the plugin, for the rest of the session."""

    def __init__(self) -> None:
        """Nothing is heard yet."""
        self._ended: list[tuple[str, list[str]]] = []
        self._told: list[int] = []  # by ended test, how many of its late calls have been reported
        self._standing: ModelHostWatch | None = None

    def listen(self, run_session: RunSession) -> None:
        """The session is closed, and its test is reported next; the session itself is let go."""
        self.hear(run_session.place.test, run_session.interception.late, told=run_session.late_calls_reported())

    def hear(self, test: str, late: list[str], *, told: int = 0) -> None:
        """Report what comes to the list `late` from now on as calls after the end of `test`."""
        self._ended.append((test, late))
        self._told.append(told)

    def late(self) -> list[dict[str, str]]:
        """The late calls that have not been reported yet; from now on they have."""
        fresh = [
            {"test": test, "call": call}
            for (test, calls), told in zip(self._ended, self._told, strict=True)
            for call in calls[told:]
        ]
        self._told = [len(calls) for _, calls in self._ended]
        return fresh

    @contextmanager
    def bystander(self) -> Iterator[None]:
        """Around a test without the plugin: whether it looks for a model."""
        from pytest_agentreplay.intercept.network.guard import ModelHostWatch

        if self._standing is None:
            self._standing = ModelHostWatch()
        self._standing.start()
        try:
            yield
        finally:
            self._standing.stop()

    def facts(self) -> Facts:
        """What there is to tell by now; empty when there is nothing."""
        late = self.late()
        found: Facts = {"late": late} if late else {}
        standing = self._standing
        if standing is not None and standing.tests:
            found["bystanders"] = {"tests": standing.tests, "hosts": sorted(standing.hosts)}
        return found


def joined(several: Iterable[Facts]) -> Facts:
    """The facts of several processes as one."""
    found = [one for one in several if one]
    late = [call for one in found for call in one.get("late", ())]
    lost = [test for one in found for test in one.get("lost", ())]
    together: Facts = {name: tests for name, tests in (("late", late), ("lost", lost)) if tests}
    if looked := [part for one in found for part in one.get("looked", ())]:
        together["looked"] = looked
    if still := next((one["open"] for one in found if "open" in one), ""):
        together["open"] = still
    if standing := [one["bystanders"] for one in found if "bystanders" in one]:
        hosts = sorted({host for one in standing for host in one["hosts"]})
        together["bystanders"] = {"tests": sum(one["tests"] for one in standing), "hosts": hosts}
    if fixtures := [told for one in found for told in one.get("fixtures", ())]:
        together["fixtures"] = fixtures
    return together
