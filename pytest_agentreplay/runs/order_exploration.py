"""One test replayed in another order of answers: whether the order changes how it ends, what it asks or what it does.

The order of the calls themselves is free here: it is a consequence of what is tried. Nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from pytest_agentreplay.core.diagnose.progress import ReplayProgress, line
from pytest_agentreplay.core.order_permutations import answers, orders, swapped, telling
from pytest_agentreplay.core.turns import seat
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.intercept.ordering.release import ReleaseQueue
from pytest_agentreplay.report import other_findings
from pytest_agentreplay.report.summary import OrderResult
from pytest_agentreplay.runs.replay_session import ReplaySession, schedule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.model import Exchange, JsonObject, Run
    from pytest_agentreplay.core.order_permutations import Order, OrderTrial
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import EndedRun, Location
    from pytest_agentreplay.settings import Settings


class OrderExploration(ReplaySession):
    """Answers from `snapshot` in the order of `trial`; the recorded order, number 0, is an ordinary replay."""

    def __init__(
        self, place: Location, settings: Settings, trial: OrderTrial, snapshot: Snapshot, edited: Sequence[str] = ()
    ) -> None:
        """As `ReplaySession`."""
        self.trial = trial
        if trial.number:
            snapshot = replace(snapshot, run=in_order(snapshot.run, trial.completion))
        super().__init__(place, settings, snapshot, edited)
        self.replayer.policy = replace(self.replayer.policy, any_order=trial.number > 0)

    def _order(self) -> ReleaseQueue | None:
        if not self.trial.number:
            return super()._order()
        schedule = schedule_of(self.snapshot.run, self.trial.completion)
        return ReleaseQueue(schedule, self.interception, self.replayer.stalled, loose=True, waits=self.settings.waits)

    def end_body(self, ended: EndedRun) -> Finding | None:
        """What this order has changed; a failure that the recorded order has too is none."""
        trial = self.trial
        result = OrderResult(number=trial.number, total=trial.total, kept=self._is_order_kept())
        self.summary = replace(self.summary, trial=result)
        if ended.interrupted:
            return None
        if not trial.number:
            finding = super().end_body(ended)
        else:
            finding = self._find_race(ended)
            self.summary = replace(
                self.summary, trial=replace(result, race=None if finding is None else finding.plain())
            )
        if finding is None and ended.failure is not None and self.outcome(ended) == self._recorded_end():
            self.note(expect="fails as recorded")
        return finding

    def end(self) -> Finding | None:
        """Teardown has only to keep within its test."""
        self._complete = False
        return super().end() or self.stragglers()

    def _is_order_kept(self) -> bool:
        """Whether all that was to come the other way round did, as far as it came."""
        order = self.order
        if order is None or not self.trial.number:
            return True
        place = {start: at for at, start in enumerate(order.schedule.came)}
        pairs = swapped(came_in(self.snapshot.run), self.trial.completion)
        return all(place[a] < place[b] for a, b in pairs if a in place and b in place)

    def _recorded_end(self) -> JsonObject:
        """How the test ends in the recorded order."""
        return self.snapshot.run.header.outcome if self.trial.ended is None else self.trial.ended

    def _find_race(self, ended: EndedRun) -> Finding | None:
        change = self._change(ended)
        if change is None:
            return None
        run, trial = self.snapshot.run, self.trial
        progress = ReplayProgress(run, READER, self.replayer.served.keys())

        def number_of(x: Exchange) -> int:
            return seat(progress.turns, x).turn.number

        labels_by_start = {
            x.start: other_findings.CallLabel(
                progress.name(x.call), line(x.call, READER), number_of(x), x.agent or x.lane
            )
            for x in run.exchanges
            if x.start in trial.completion
        }
        pairs = islice(telling(answers(schedule_of(run)), trial.completion), other_findings.PAIRS + 1)
        labels = [(labels_by_start[first], labels_by_start[second]) for first, second in pairs]
        finding = other_findings.describe_race(self.place.test, trial, change, labels, self.snapshot_facts())
        self.summary = replace(self.summary, code=finding.code)
        return finding

    def _change(self, ended: EndedRun) -> other_findings.OrderEffect | None:
        """What is not as in the recorded order. Where the agent has asked for something else, all else follows."""
        divergence, late = self.replayer.divergence, self.stragglers()
        if divergence is not None:
            effect = divergence.now is not None and self.has_effects(divergence.now)
            return other_findings.describe_request(divergence, effect=effect)
        if late is not None:
            return other_findings.describe_late_call(late)
        now, before = self.outcome(ended), self._recorded_end()
        if now != before:
            return other_findings.describe_end(before, now)
        missing = list(self._not_done())
        return other_findings.describe_missing_calls(missing) if missing else None

    def _not_done(self) -> Iterator[str]:
        """The calls with side effects that were recorded and not made."""
        for x in self.snapshot.run.exchanges:
            if x.parent is None and x.start not in self.replayer.served and self.has_effects(x.call):
                yield line(x.call, READER)


def trials(run: Run, *, limit: int, seed: int = 0) -> list[Order]:
    """The other orders of answers to replay `run` in, the nearest first; none where no two were waited for at once."""
    return orders(answers(schedule_of(run)), limit=limit, seed=seed)


def came_in(run: Run) -> Order:
    """The order in which the answers of `run` came."""
    return tuple(answer.start for answer in answers(schedule_of(run)))


def in_order(run: Run, completion: Order) -> Run:
    """`run` with the times at which its answers come in another order, for the clock."""
    times = {event.start: event.at for event in schedule_of(run, completion).events}
    retimed = (
        replace(x, timing=replace(x.timing, first=None, end=times[x.start])) if x.start in times else x
        for x in run.exchanges
    )
    return replace(run, exchanges=tuple(retimed))
