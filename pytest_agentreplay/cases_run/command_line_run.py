"""One case replayed from the command line: by a runner of the project, by a command, or as it is frozen."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import settings as knobs
from pytest_agentreplay.cases_run import stored_case
from pytest_agentreplay.cases_run.artifacts import Artifacts
from pytest_agentreplay.cases_run.evaluation import CaseEvaluator, cold
from pytest_agentreplay.cases_run.kept_neighbour import hear_neighbour, verify
from pytest_agentreplay.cases_run.runners import Runners
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.redact import chosen_policy
from pytest_agentreplay.redact.redaction_factory import redaction_for
from pytest_agentreplay.report.escape import escape_markdown
from pytest_agentreplay.report.verdict import FROZEN, Verdict, format_panel
from pytest_agentreplay.settings import former_names
from pytest_agentreplay.store.projects import ini_lines, ini_table, root_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_agentreplay.cases.case import Half
    from pytest_agentreplay.cases_run.verdict_rules import VerdictRules
    from pytest_agentreplay.settings import Settings

SANDBOX_FLAG = re.compile(r"--agentreplay-sandbox[= ](\w+)")


class CommandLineRun:
    """The case in `file` (absolute), in its project. Raises CaseError, SettingsError."""

    def __init__(
        self, file: Path, environ: Mapping[str, str], *, here: Path, hooks: Any, allow_live: bool = False
    ) -> None:
        """`here` is where reports show files from, `hooks` what those of the project give (`conftests.Hooks`)."""
        self.case = stored_case.read(file, words=hooks.words)
        self.hooks = hooks
        self.root = root_above(file.parent)
        self.settings = settings_of(self.root, environ, live=allow_live)
        self.environ = environ
        self.allow_live = allow_live
        self.keeping = Artifacts(self.root, self.case.id, here=here)
        self.network = ""

    def verdicts(self, *, key: str = "", command: str = "", limit: float | None = None) -> tuple[Verdict, ...]:
        """What each half comes to, run by the runner `key`, by `command`, by the case's own, or by nobody.

        Whoever runs it may take `limit` seconds; as the settings say, where that is None.

        Raises SettingsError where the network has to be closed, and cannot be.
        """
        if limit is not None:
            self.settings = self.settings._replace(timeout=limit)
        if self.case.expect == "cold":
            return (cold(self.case),)
        self.network = self._closed(command)
        court = self._court()
        if self.case.base:
            return (hear_neighbour(court, self.case),)
        hearing = self._outside(court, command) if command else court.hearing(self.case, key=key)
        halves: tuple[Half, ...] = ("observed", "desired")
        verdicts = (hearing.verdict(half) for half in halves if self.case.checks(half) or half == "observed")
        return tuple(verify(court, self.case, verdict) if not command else verdict for verdict in verdicts)

    def _closed(self, command: str) -> str:
        """Close the network as far as `addopts` asks for; returns the level that was reached, in words."""
        level, why = "open to the command, which variables lead to its gateway" if command else "closed (L1)", ""
        if self.settings.sandbox != "off":
            why = next(self._hindrances(command), "") or sandbox.close()
            if why and self.settings.sandbox == "require":
                raise SettingsError(f"--agentreplay-sandbox=require: {why}")
        if sandbox.closed():
            return "closed (L3)"
        return f"{level}, not L3: {why}" if why else level

    def _hindrances(self, command: str) -> Iterator[str]:
        if command:
            yield "a command reaches its gateway by loopback"
        if self.allow_live:
            yield "--live asks the real model"
        if reaches := self.settings.reaches():
            yield f"{self.case.id} {reaches}"
        yield from sandbox.hindrances()

    def _court(self) -> CaseEvaluator:
        """The project's own runners: those of its ini file, found where pytest would find them."""
        places, _ = ini_lines(self.root, "pythonpath")
        for place in (self.root, *(self.root / folder for folder in places)):
            if str(place) not in sys.path:
                sys.path.insert(0, str(place))
        return CaseEvaluator(
            root=self.root,
            settings=self.settings,
            runners=Runners(self.settings.runners, self.hooks.runners, self.settings.written),
            environ=self.environ,
            redactors=self.hooks.redactors,
            words=self.hooks.words,
            judges=self.hooks.judges,
            allow_live=self.allow_live,
        )

    def _outside(self, court: CaseEvaluator, command: str) -> VerdictRules:
        """The hearing of a case that a command runs, once under each policy that is asked for."""
        from pytest_agentreplay.cases_run.command_agent import Command
        from pytest_agentreplay.runs.command import split_command

        policy = chosen_policy.for_case(chosen_policy.in_force(self.root), self.case)
        runs = Command(
            split_command(command),
            folder=Path.cwd(),
            environ=self.environ,
            limit=self.settings.timeout,
            redaction=redaction_for(self.environ, policy=policy, redactors=self.hooks.redactors),
            keeping=self.keeping,
        )
        return court.hearing_outside(self.case, runs)

    def plain(self, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """The verdicts as plain data."""
        return {
            "case": self.case.id,
            "file": self.case.file,
            "expect": self.case.expect,
            "cold": verdicts[0].word == "cold",
            "as_expected": all(verdict.outcome != "failed" for verdict in verdicts),
            "evidence": self.keeping.shown,
            "network": self._told_network(verdicts),
            "halves": [verdict.plain() for verdict in verdicts],
        }

    def panel(self, verdicts: Sequence[Verdict], *, width: int) -> str:
        """The verdicts in one look."""
        network = self._told_network(verdicts)
        return format_panel(verdicts, title=self.case.title, width=width, network=network, evidence=self.keeping.shown)

    def _told_network(self, verdicts: Sequence[Verdict]) -> str:
        """How closed the network was; nothing where nobody ran."""
        return self.network if ran(verdicts) else ""

    def keep(self, verdicts: Sequence[Verdict]) -> None:
        """Keep what was found beside what the runner told; nothing where nobody ran."""
        if ran(verdicts):
            self.keeping.keep("result.json", json.dumps(self.plain(verdicts), indent=2) + "\n")
            self.keeping.keep("summary.md", f"# {self.case.id}\n\n{escape_markdown(self.panel(verdicts, width=100))}\n")


def ran(verdicts: Sequence[Verdict]) -> bool:
    """Whether anybody was run for these."""
    return any(verdict.served != FROZEN for verdict in verdicts) and verdicts[0].word != "cold"


def settings_of(root: Path, environ: Mapping[str, str], *, live: bool = False) -> Settings:
    """The settings of the project at `root`, outside of pytest. Raises SettingsError, also where CI refuses `live`."""
    ini, file = ini_table(root, former_names.ALL_TYPES)
    environ = {name: value for name, value in environ.items() if name != "AGENTREPLAY"}  # cases are always replayed
    sandbox = SANDBOX_FLAG.findall(" ".join(ini_lines(root, "addopts")[0]))
    flags = {"agentreplay_sandbox": sandbox[-1]} if sandbox else {}
    runs = knobs.resolve({"agentreplay_replay": "live"} if live else {}, ini, environ, file=file).live_runs
    return chosen_policy.with_policy(knobs.resolve(flags, ini, environ, file=file)._replace(live_runs=runs), root)
