"""How a case is evaluated, from its file to its verdict: against its recording, and against today's agent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.cases import evidence, judging
from pytest_agentreplay.cases.case import RUN
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.errors import CaseError, RunnerError
from pytest_agentreplay.intercept.ordering.overtime import end_process
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.rules import RULES
from pytest_agentreplay.report.verdict import Verdict
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.cases.case_backend import gate_of, serving_of
from pytest_agentreplay.runs.cases.in_process_run import attempt, join_settings
from pytest_agentreplay.runs.cases.verdict_rules import VerdictRules
from pytest_agentreplay.runs.offline_session import list_accepted_rules
from pytest_agentreplay.runs.snapshot_server import SnapshotServer, keep_http_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_agentreplay.cases.case import Case, ListName
    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.judging import Judgement
    from pytest_agentreplay.redaction.policy import Redactor
    from pytest_agentreplay.runs.cases.command_agent import Command
    from pytest_agentreplay.runs.cases.runners import Runners
    from pytest_agentreplay.settings import Settings


class CaseEvaluator(NamedTuple):
    """What it takes to try the cases of a project; `words` and `judges` are what hooks add to the vocabulary."""

    root: Path
    settings: Settings
    runners: Runners
    environ: Mapping[str, str]
    redactors: Mapping[str, Redactor | None]
    words: Mapping[str, Callable[..., object]] = {}
    judges: tuple[Callable[..., object], ...] = ()
    allow_live: bool = False
    despair: Callable[[str], None] = end_process

    def evaluate(
        self, case: Case, *, key: str = "", command: Command | None = None, skip_live: bool = False
    ) -> Verdict:
        """Return the verdict on a case.

        `key` names the runner of both lists of checks, whatever the case says; `command` runs both instead. With
        `skip_live` a case that needs the real model is skipped where that may not be asked.

        Raises CaseError, SnapshotError, RunnerError and SettingsError for what cannot be tried at all.
        """
        if case.expect == "cold":
            return describe_cold(case)
        if not (case.observed or case.desired or case.semantic):
            raise CaseError(
                "says neither what went wrong (observed) nor what a fix must show (desired)", file=case.file
            )
        if command is not None:
            return self.rules_outside(case, command).verdict()
        return self.rules(case, key=key, skip_live=skip_live).verdict()

    def rules(self, case: Case, *, key: str = "", skip_live: bool = False) -> VerdictRules:
        """Return what evaluates a case that is not cold, by a runner of this process."""
        run = stored_case.frozen(case, strict=self.settings.strict, largest=self.settings.largest).run

        def try_agent(runner: ListName, serving: ListName) -> CaseEvidence:
            return attempt(
                case,
                serving,
                run,
                runner=self.runners[key or case.runners[runner]],
                settings=self.settings,
                root=self.root,
                environ=self.environ,
                redactors=self.redactors,
                allow_live=self.allow_live,
                despair=self.despair,
            )

        judged, written = self.make_judge(case), self.runners.written
        everywhere, frozen = bool(key), evidence.frozen(run)
        return VerdictRules(
            case, frozen, judged, try_agent, everywhere=everywhere, skip_live=skip_live, written=written
        )

    def rules_outside(self, case: Case, command: Command) -> VerdictRules:
        """Return what evaluates a case that a command runs, against the gateway."""
        snapshot = stored_case.frozen(case, strict=self.settings.strict, largest=self.settings.largest)

        def attempt(_: ListName, list_name: ListName) -> CaseEvidence:
            served = serving_of(case, list_name, allow_live=self.allow_live)
            if "live" in {served.model, served.other}:
                raise RunnerError(f"{case.file}: only a runner of this process is served live: take --runner")
            backend = gate_of(case, served, keep_http_calls(snapshot.run), self.matching(case))
            hosts = self.settings.allow_hosts
            serving = SnapshotServer(snapshot, case.folder / RUN, self.root, backend=backend, allow_hosts=hosts)
            return command.run(case, backend, serving, served.text)

        return VerdictRules(case, evidence.frozen(snapshot.run), self.make_judge(case), attempt, everywhere=True)

    def matching(self, case: Case) -> Matching:
        """When two calls of a process outside are the same: by the project's rules and the case's."""
        settings = join_settings(self.settings, case)
        rules = (*RULES, *list_accepted_rules(self.root), *settings.rules)
        return Matching(READER, rules, personal=settings.redacted.personal, also=settings.matched_headers)

    def make_judge(self, case: Case) -> Callable[[ListName, CaseEvidence], Judgement]:
        """Return what holds evidence against one list of checks of a case."""
        return partial(judging.judge, case, words=self.words, judges=self.judges)


def describe_cold(case: Case) -> Verdict:
    """Return the verdict on a case that cannot be replayed: what it lacks."""
    missing = f" (missing: {', '.join(case.missing)})" if case.missing else ""
    headline = f"{case.reason}{missing}"
    return Verdict(case=case.id, file=case.file, expect=case.expect, word="cold", outcome="expected", headline=headline)
