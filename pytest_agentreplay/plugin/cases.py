"""Cases, as pytest sees them: who tries them, what their reports carry, and which of them nobody would see."""

from __future__ import annotations

import fnmatch
import functools
import os
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE, FOLDER
from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.case_items import CaseFile
from pytest_agentreplay.plugin.keys import get_redaction, get_redactors
from pytest_agentreplay.report.summary import to_plain
from pytest_agentreplay.runs.cases import stored_case

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from pytest_agentreplay.cases.schema.parse import Headline
    from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator
    from pytest_agentreplay.runs.fuzz.plan import Trial

MOST_ENTRIES = 200  # entries of cases/ that are looked at for one that is a case


def collect_case(path: Path, parent: pytest.Collector) -> CaseFile | None:
    """Return the collector of a case.yaml; None for a file of that name that seems to be somebody else's."""
    live = parent.config.stash.get(keys.LIVE_RUNS, None)
    if not is_our_case(path, parent.config.rootpath):
        return None
    return CaseFile.create(parent, path, find_evaluator, live, list_trials)


def list_trials(file: CaseFile, head: Headline) -> list[Trial] | None:
    """Return the neighbours that a command asks for of a case; None where it asks for those of none."""
    if file.config.option.agentreplay_neighbours is None:
        return None
    from pytest_agentreplay.plugin.trial_items import read_plan
    from pytest_agentreplay.runs.fuzz.plan import read_trial

    plan = read_plan(file.config) or {}
    return [read_trial(plain) for plain in plan["trials"]] if plan["test"] == file.nodeid and not head.base else []


def is_our_case(path: Path, root: Path) -> bool:
    """Return whether a case.yaml is one of ours: it lies below a folder `cases`, or its first lines name our form.

    One that is still being written is nobody's, whatever `norecursedirs` says of its folder.
    """
    from pytest_agentreplay.snapshots.store.files import is_temporary

    if is_temporary(path.parent.name):
        return False
    within = path.relative_to(root) if path.is_relative_to(root) else path
    return FOLDER in within.parts[:-1] or stored_case.names_our_form(path)


def find_evaluator(item: pytest.Item) -> CaseEvaluator:
    """Return what tries the case of `item`, with the session's settings and what the hooks above its folder give."""
    from pytest_agentreplay.plugin.conftests import hooks_of
    from pytest_agentreplay.runs.cases.evaluation import CaseEvaluator
    from pytest_agentreplay.runs.cases.runners import Runners

    config, hooks = item.config, hooks_of(item.ihook)
    return CaseEvaluator(
        root=config.rootpath,
        settings=config.stash[keys.SETTINGS],
        runners=Runners(config.stash[keys.SETTINGS].runners, hooks.runners, config.stash[keys.SETTINGS].format_message),
        environ=os.environ,
        redactors=get_redactors(config),
        words=hooks.words,
        judges=hooks.judges,
        allow_live=config.stash[keys.SETTINGS].model == "live",
        despair=functools.partial(end_session, config),
    )


def end_session(config: pytest.Config, text: str) -> None:
    """Tell `text` past pytest's capture, and end the session: a runner holds it that nothing can end."""
    from pytest_agentreplay.intercept.ordering import overtime

    if (capture := config.pluginmanager.getplugin("capturemanager")) is not None:
        capture.suspend_global_capture(in_=True)
    overtime.end_process(text)


def attach_verdict(item: pytest.Item, report: pytest.TestReport) -> pytest.TestReport:
    """Return the report of a case, with the summary of its verdict and without secrets."""
    from pytest_agentreplay.plugin import reports

    if isinstance(getattr(item, "error", None), RunnerError):
        from pytest_agentreplay.intercept.ordering.overtime import let_end

        item.config.add_cleanup(lambda: let_end(int(item.session.exitstatus)))
    hide = get_redaction(item.config)
    verdict = getattr(item, "verdict", None)
    if report.when == "call" and (result := getattr(item, "result", None)) is not None:
        report.__dict__["agentreplay_result"] = hide.hide_tree(result.plain())
    if report.when == "call" and verdict is not None:
        report.__dict__["agentreplay_case"] = hide.hide_tree(to_plain(verdict.summary))
    reports.hide_report(report, hide.hide)
    return report


def list_unseen_cases(config: pytest.Config) -> list[str]:
    """Return a line for cases that lie in `cases/` and that this session does not come by, because of its ini file."""
    folder = config.rootpath / FOLDER
    here = config.invocation_params.dir
    if config.args_source not in {config.ArgsSource.TESTPATHS, config.ArgsSource.INVOCATION_DIR}:
        return []
    walked = [(here / arg.partition("::")[0]).resolve() for arg in config.args]
    resolved, why = folder.resolve(), ""
    if any(place.is_relative_to(resolved) for place in walked):
        return []
    if not any(resolved.is_relative_to(place) for place in walked):
        why = "testpaths does not name it" if config.args_source is config.ArgsSource.TESTPATHS else ""
    elif skip := next((row for row in config.getini("norecursedirs") if fnmatch.fnmatch(FOLDER, row)), ""):
        why = f"norecursedirs names it ({skip})"
    if not why or not is_case_file(folder):
        return []
    return [f"agentreplay: WARNING: the cases in {FOLDER}/ are not run: {why}; add it, or run: pytest {FOLDER}"]


def is_case_file(folder: Path) -> bool:
    """Return whether a case lies in `folder`."""
    from pytest_agentreplay.snapshots.store import files

    return any((folder / name / FILE).is_file() for name in files.list_names(folder)[:MOST_ENTRIES])
