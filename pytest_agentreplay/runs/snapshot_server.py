"""A snapshot served to any process, outside of pytest: what `agentreplay serve` does."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from pytest_agentreplay.backends.replay import ReplayBackend
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.intercept.environment.machine import find_places
from pytest_agentreplay.intercept.gateway.gateway import Gateway
from pytest_agentreplay.intercept.session.interceptions import Interception
from pytest_agentreplay.model.exchanges import HttpCall, Run
from pytest_agentreplay.providers import READER, RULES, is_declared
from pytest_agentreplay.redaction.placeholders import variables_in
from pytest_agentreplay.report import findings
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.runs.redact.redaction_setup import find_policy, redaction_for

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.snapshots.codec import Snapshot


class SnapshotServer:
    """Answers from `snapshot` in a `with` block. `env` are the variables that lead a process here."""

    def __init__(
        self,
        snapshot: Snapshot,
        file: Path,
        root: Path,
        *,
        port: int = 0,
        backend: ReplayBackend | None = None,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        """`root` is the project of `file`; `port` 0 takes a free one. `backend` answers where it is given.

        `allow_hosts` are those that a process may reach past us by its proxy.

        Raises OSError for a port that is taken.
        """
        self._facts = {"file": str(file), "recorded": snapshot.run.header.recorded}
        self._test = snapshot.run.header.test
        policy = find_policy(root)
        self._replayer = backend or ReplayBackend(
            keep_http_calls(snapshot.run),
            Matching(READER, (*RULES, *list_accepted_rules(root)), personal=policy.personal),
            READER,
        )
        redaction = redaction_for(os.environ, find_places(root), policy=policy, is_declared=is_declared)
        kit = snapshot.run.header.kit
        redaction.run.recall(kit)
        placeholders = redaction.run.placeholders
        self._replayer.keep_apart(placeholders.reserve(variables_in(kit)), placeholders)
        self._interception = Interception(self._replayer, redaction, root=str(root))
        calls = (x.call for x in self._replayer.run.exchanges)
        self._gateway = Gateway(self._interception, recording=False, recorded=calls, allow_hosts=allow_hosts, port=port)
        self.env = self._gateway.env
        self.url = self._gateway.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._interception.end()
        self._gateway.close()

    @property
    def refused(self) -> tuple[str, ...]:
        """What was asked of the world beyond the recording, each once."""
        return (*dict.fromkeys(self._gateway.refused),)

    @property
    def served(self) -> int:
        """How many calls were answered."""
        return len(self._replayer.list_replayed())

    @property
    def missing(self) -> int:
        """How many recorded calls were not made, of those that had an answer."""
        served = {x.start for x in self._replayer.list_replayed()}
        return sum(1 for x in self._replayer.run.exchanges if x.start not in served and not x.abandoned)

    def find_divergence(self) -> Finding | None:
        """Return the first divergence, now that nothing more will come; None when all was as recorded."""
        divergence = self._replayer.finish()
        return None if divergence is None else findings.describe_divergence(divergence, self._test, self._facts)


def keep_http_calls(run: Run) -> Run:
    """Return the run as another process makes it: its HTTP calls. Tools run there, whatever was frozen here."""
    calls = {x.start: x for x in run.exchanges if isinstance(x.call, HttpCall)}
    outermost = [x for x in calls.values() if x.parent not in calls]
    return Run(run.header, tuple(replace(x, parent=None) for x in outermost))
