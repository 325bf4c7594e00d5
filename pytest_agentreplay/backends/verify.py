"""The backend under which read tools run beside their recorded answers: everything is served, and some of it compared.

What a tool reaches for while it runs (a database, a service) is let through: it is what is verified. Models stay frozen
in there too, and so does every tool that is not read: they are answered from what was recorded inside the tool, or
refused.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.backend import PassThrough, Refused, Replayed
from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.diagnose import results
from pytest_agentreplay.compare.tolerance import TolerancePolicy

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pytest_agentreplay.backends.backend import Moment, Verdict
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Call, Exchange, Outcome, Run
    from pytest_agentreplay.model.reading import Reader


class VerifyBackend(ReplayBackend):
    """A replayer that has read tools run as well. `changed` are the results that differ, in the order they were seen.

    A changed result is no refusal: the agent gets the recorded one, and the run goes on.
    """

    def __init__(self, run: Run, matching: Matching, reader: Reader, tolerances: TolerancePolicy | None = None) -> None:
        """Index `run`; `tolerances` say what is near enough."""
        super().__init__(run, matching, reader)
        self.verified = 0
        self.changed: list[Divergence] = []
        self._tolerances = tolerances or TolerancePolicy()
        self._running: dict[int, Exchange] = {}
        self._within: dict[int, dict[Hashable, list[Exchange]]] = {}
        self._guard = threading.Lock()

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """As a replayer; an answer to a read tool comes with what compares it."""
        root = self._running.get(moment.parent) if moment.parent is not None else None
        if root is not None:
            return self._ask_within(root, call, moment)
        verdict = super().decide(call, moment)
        if not isinstance(verdict, Replayed) or not moment.reads:
            return verdict
        if verdict.exchange.abandoned:
            return verdict
        with self._guard:
            self.verified += 1
            self._running[verdict.ticket] = verdict.exchange
        return replace(verdict, compare=partial(self._compare, verdict.exchange, call))

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Keep nothing: what came to a call inside a running tool is the tool's own."""

    def _compare(self, x: Exchange, call: Call, now: Outcome, origin: str, recorded: Outcome | None = None) -> None:
        x = x if recorded is None else replace(x, outcome=recorded)
        divergence = results.explain_result(self._make_progress(()), x, call, now, tolerances=self._tolerances)
        if divergence is not None:
            with self._guard:
                self.changed.append(replace(divergence, origin=origin))

    def first(self, latched: Divergence | None) -> Divergence | None:
        """Return the first divergence: a changed result, else what the backend refused; it names the others."""
        with self._guard:
            divergences = [*self.changed, *([latched] if latched is not None else [])]
        if not self.changed:
            return latched
        more = tuple(f"then: [{divergence.kind.code}] {divergence.summary}" for divergence in divergences[1:])
        return replace(divergences[0], detail=(*divergences[0].detail, *more))

    def _ask_within(self, root: Exchange, call: Call, moment: Moment) -> Verdict:
        """Decide on a call that a running tool makes: it is let through, unless it is frozen."""
        if self.divergence is not None:
            return Refused(self.divergence)
        with self._lock:
            self._tickets += 1
            ticket = self._tickets
        frozen = self._reader.read_call(call).kind != "http" and not moment.reads
        with self._guard:
            if not frozen:
                self._running[ticket] = root
                return PassThrough(ticket, self)
            waiting = self._index_within(root).get(self._matching.key(call, self._matching.ids()))
            if waiting:
                return Replayed(waiting.pop(0), ticket)
        return Refused(results.explain_inner_call(self._make_progress(self.served), call, root))

    def _index_within(self, root: Exchange) -> dict[Hashable, list[Exchange]]:
        """Return what was recorded inside a tool, at any depth, by its canonical key; each is served once."""
        if root.start not in self._within:
            within: dict[Hashable, list[Exchange]] = defaultdict(list)
            inside = {root.start}
            for x in self.run.exchanges:
                if x.parent in inside:
                    inside.add(x.start)
                    within[self._matching.key(x.call, self._matching.ids())].append(x)
            self._within[root.start] = within
        return self._within[root.start]
