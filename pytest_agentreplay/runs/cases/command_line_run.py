"""One case replayed from the command line: by a runner of the project, by a command, or as it is frozen."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import settings as knobs
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.report.escape import escape_markdown
from pytest_agentreplay.report.verdict import FROZEN, Verdict, format_panel
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.cases.case_neighbours import evaluate_case
from pytest_agentreplay.runs.cases.command_agent import Artifacts
from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator, describe_cold
from pytest_agentreplay.runs.cases.runners import Runners
from pytest_agentreplay.runs.redact import redaction_setup
from pytest_agentreplay.runs.redact.redaction_setup import redaction_for
from pytest_agentreplay.settings.table import INI_KEYS
from pytest_agentreplay.snapshots.store.projects import ini_lines, ini_table, root_above

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.runs.cases.command_agent import Command
    from pytest_agentreplay.settings import Settings

SANDBOX_FLAG = re.compile(r"--agentreplay-sandbox[= ](\w+)")


class CommandLineRun:
    """The case in `file` (absolute), in its project. Raises CaseError, SettingsError."""

    def __init__(
        self, file: Path, environ: Mapping[str, str], *, here: Path, hooks: Any, allow_live: bool = False
    ) -> None:
        """`here` is where reports show files from, `hooks` what those of the project give (`conftests.Hooks`)."""
        self.case = stored_case.read_case(file, words=hooks.words)
        self.hooks = hooks
        self.root = root_above(file.parent)
        self.settings = settings_of(self.root, environ, live=allow_live)
        self.environ = environ
        self.allow_live = allow_live
        self.keeping = Artifacts(self.root, self.case.id, here=here)
        self.network = ""

    def verdict(self, *, key: str = "", command: str = "", limit: float | None = None) -> Verdict:
        """Return what the case comes to, run by the runner `key`, by `command`, by the case's own, or by nobody.

        Whoever runs it may take `limit` seconds; as the settings say, where that is None.

        Raises SettingsError where the network has to be closed, and cannot be.
        """
        if limit is not None:
            self.settings = self.settings._replace(timeout=limit)
        if self.case.expect == "cold":
            return describe_cold(self.case)
        self.network = self._close_network(command)
        outside = self._outside(command) if command else None
        return evaluate_case(self._evaluator(), self.case, key=key, command=outside)

    def _close_network(self, command: str) -> str:
        """Close the network as far as `addopts` asks for; returns the level that was reached, in words."""
        level, why = "open to the command, which variables lead to its gateway" if command else "closed", ""
        if self.settings.sandbox != "off":
            why = next(self._hindrances(command), "") or sandbox.close()
            if why and self.settings.sandbox == "require":
                raise SettingsError(f"--agentreplay-sandbox=require: {why}")
        if sandbox.is_closed():
            return "closed by the kernel"
        return f"{level}, not by the kernel: {why}" if why else level

    def _hindrances(self, command: str) -> Iterator[str]:
        if command:
            yield "a command reaches its gateway by loopback"
        if self.allow_live:
            yield "--live asks the real model"
        if reaches := self.settings.reaches():
            yield f"{self.case.id} {reaches}"
        yield from sandbox.hindrances()

    def _evaluator(self) -> CaseEvaluator:
        """Return the project's own runners: those of its ini file, found where pytest would find them."""
        places, _ = ini_lines(self.root, "pythonpath")
        for place in (self.root, *(self.root / folder for folder in places)):
            if str(place) not in sys.path:
                sys.path.insert(0, str(place))
        return CaseEvaluator(
            root=self.root,
            settings=self.settings,
            runners=Runners(self.settings.runners, self.hooks.runners, self.settings.format_message),
            environ=self.environ,
            redactors=self.hooks.redactors,
            words=self.hooks.words,
            judges=self.hooks.judges,
            allow_live=self.allow_live,
        )

    def _outside(self, command: str) -> Command:
        """Return the command that runs the case, once under each policy that is asked for."""
        from pytest_agentreplay.runs.cases.command_agent import Command
        from pytest_agentreplay.runs.command import split_command

        policy = redaction_setup.choose_case_policy(redaction_setup.find_policy(self.root), self.case)
        return Command(
            split_command(command),
            folder=Path.cwd(),
            environ=self.environ,
            limit=self.settings.timeout,
            redaction=redaction_for(self.environ, policy=policy, redactors=self.hooks.redactors),
            keeping=self.keeping,
        )

    def plain(self, verdict: Verdict) -> dict[str, Any]:
        """Return the verdict as plain data."""
        return {
            **verdict.plain(),
            "cold": verdict.word == "cold",
            "as_expected": verdict.outcome != "failed",
            "evidence": self.keeping.shown,
            "network": self._used_network(verdict),
        }

    def panel(self, verdict: Verdict, *, width: int) -> str:
        """Return the verdict in one look."""
        network = self._used_network(verdict)
        return format_panel(verdict, title=self.case.title, width=width, network=network, evidence=self.keeping.shown)

    def _used_network(self, verdict: Verdict) -> str:
        """Return how closed the network was; nothing where nobody ran."""
        return self.network if has_run(verdict) else ""

    def keep(self, verdict: Verdict) -> None:
        """Keep what was found beside what the runner wrote; nothing where nobody ran."""
        if has_run(verdict):
            self.keeping.keep("result.json", json.dumps(self.plain(verdict), indent=2) + "\n")
            self.keeping.keep("summary.md", f"# {self.case.id}\n\n{escape_markdown(self.panel(verdict, width=100))}\n")


def has_run(verdict: Verdict) -> bool:
    """Return whether anybody was run for this verdict."""
    return bool(verdict.served) or any(result.served != FROZEN for result in verdict.lists.values())


def settings_of(root: Path, environ: Mapping[str, str], *, live: bool = False) -> Settings:
    """The settings of the project at `root`, outside of pytest. Raises SettingsError, also where CI refuses `live`."""
    ini, file = ini_table(root, {key: options["type"] for key, options in INI_KEYS.items()})
    environ = {name: value for name, value in environ.items() if name != "AGENTREPLAY"}  # cases are always replayed
    sandbox = SANDBOX_FLAG.findall(" ".join(ini_lines(root, "addopts")[0]))
    flags = {"agentreplay_sandbox": sandbox[-1]} if sandbox else {}
    settings = knobs.read_settings(flags, ini, environ, file=file)
    if live:
        knobs.refuse_on_ci(settings._replace(model="live"))
    return redaction_setup.add_policy(settings, root)
