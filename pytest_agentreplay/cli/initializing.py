"""`agentreplay init`: show what a project needs, ask, and write it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import DIVERGED, SAME, say
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import root_above

if TYPE_CHECKING:
    import argparse

    from pytest_agentreplay.cli.project_setup.init_plan import InitPlan
    from pytest_agentreplay.cli.verb_table import Verbs

NOTHING = "nothing to do: the project has what it needs"
TEXTCONV = 'git config diff.agentreplay.textconv "agentreplay show --textconv"'


def add_verbs(verbs: Verbs) -> None:
    """Declare `init`."""
    init_verb = verbs.add("init", init, "write the settings that a project needs, once they are shown")
    init_verb.flag("--yes", "write without asking")
    init_verb.flag("--dry-run", "only show what would be written")
    init_verb.flag("--no-workflow", "leave out the workflow that replays the tests")


def init(options: argparse.Namespace) -> int:
    """`agentreplay init [--yes | --dry-run] [--no-workflow]`."""
    from pytest_agentreplay.cli.project_setup.init_plan import plan, write

    planned = plan(root_above(Path.cwd()), workflow=not options.no_workflow)
    for line in report(planned):
        say(line)
    if not planned.changes:
        missing = len(planned.tools.unnamed)
        say(f"nothing to write: {missing} of the tools above wait for a line" if missing else NOTHING)
        return finish(planned)
    for change in planned.changes:
        say("\n".join(["", *change.diff()]))
    say("")
    if options.dry_run:
        say(f"{count(planned)} would be written")
        return SAME
    if not options.yes and not agreed(planned):
        say("nothing was written; to write it: agentreplay init --yes")
        return DIVERGED
    write(planned.changes)
    for change in planned.changes:
        say(f"written   {format_path(change.file)}")
    if any(change.file.name == ".gitattributes" for change in planned.changes):
        say(f"once in each clone, to have git show transcripts: {TEXTCONV}")
    return finish(planned)


def report(planned: InitPlan) -> list[str]:
    """Return what was found, in lines."""
    from pytest_agentreplay.cli.project_setup.tool_search import suggests_reading

    lines = [f"settings  {format_path(planned.configuration)}"]
    lines += [f"tool      {path} ({'new' if path in planned.added else 'has a line'})" for path in planned.tools.named]
    lines += [f"tool      {path} (frozen by {name}, needs no line)" for path, name in planned.tools.intercepted.items()]
    for name, file in planned.tools.unnamed.items():
        lines.append(
            f"tool      {name} (a schema in {format_path(file)}): add the function behind it to agentreplay_tools"
        )
    quote = '"' if planned.configuration.suffix == ".toml" else ""
    for path in planned.added:
        if suggests_reading(planned.tools.shown_as.get(path, path)):
            line = planned.tools.line(path, "read")
            lines.append(f"read?     {path}: if it changes nothing, write {quote}{line}{quote}")
    lines += [f"skipped   {format_path(file)}: {reason}" for file, reason in planned.skipped]
    if planned.git is None:
        lines.append("git       not a repository: .gitignore, .gitattributes and a workflow are left out")
    if planned.running is not None:
        lines.append(f"workflow  {format_path(planned.running)} runs tests: a replay there is pytest --replay=model")
    if planned.ignored:
        lines.append(f"git       {planned.ignored} leaves snapshots out of commits; take that rule out")
    return lines


def count(planned: InitPlan) -> str:
    """Return how many files change, in words."""
    number = len(planned.changes)
    return f"{number} file{'s' * (number != 1)}"


def agreed(planned: InitPlan) -> bool:
    """Whether somebody at a terminal says yes; no, where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"write {count(planned)}? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def finish(planned: InitPlan) -> int:
    """Say the next command; returns the exit code."""
    if planned.tests:
        say(f"next      pytest --snapshot-record {' '.join(quoted(format_path(file)) for file in planned.tests)}")
    else:
        say("next      give a test the fixture agentreplay, then: pytest --snapshot-record")
    return SAME
