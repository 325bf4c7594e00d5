"""What `agentreplay init` would write into a project, as changes of whole files, and how all of them are written."""

from __future__ import annotations

import difflib
import os
import stat
import sys
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.project_setup import git_files
from pytest_agentreplay.cli.project_setup.project_modules import functions_below, parsed, read_project
from pytest_agentreplay.cli.project_setup.pytest_configuration import configuration_of, text_of
from pytest_agentreplay.cli.project_setup.tool_search import FoundTools, find_tools, opens_session
from pytest_agentreplay.cli.project_setup.workflow import workflow_text
from pytest_agentreplay.errors import CannotWrite, SettingsError, SnapshotError
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.layout import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.cli.project_setup.project_modules import ProjectModules
    from pytest_agentreplay.cli.project_setup.pytest_configuration import Configuration


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file: its text now (None where there is no file), and afterwards."""

    file: Path
    before: str | None
    after: str

    def diff(self) -> list[str]:
        """Return the lines of a unified diff."""
        name = format_path(self.file)
        old, new = (self.before or "").splitlines(), self.after.splitlines()
        return list(difflib.unified_diff(old, new, "/dev/null" if self.before is None else name, name, lineterm=""))


@dataclass(slots=True)
class InitPlan:
    """All changes, and what was found: see `FoundTools`. `git` is the top of the repository, None where there is none.

    `added` are the tools that get a line now, `tests` the test files that use the plugin, `running` the file of the
    user's that has a service run the tests, `ignored` git's rule that leaves snapshots out.
    """

    configuration: Path
    tools: FoundTools
    changes: list[FileChange] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    tests: list[Path] = field(default_factory=list)
    git: Path | None = None
    running: Path | None = None
    ignored: str = ""


def plan(root: Path, *, workflow: bool = True) -> InitPlan:
    """Return what a project needs. Reads files only. Raises SettingsError for a configuration that is invalid."""
    configuration = configuration_of(root)
    declared = [root / folder for folder in configuration.lines("pythonpath")]
    sources = [root / "src"] if (root / "src").is_dir() and not files.exists(root / "src" / "__init__.py") else []
    project = read_project(root, [*declared, *sources, root])
    tools = find_tools(project)
    planned = InitPlan(configuration.file, tools, skipped=project.skipped, tests=tests_using(project))
    planned.added = [path for path in tools.named if not is_named(configuration, path)]
    bases = {owner.base for path in planned.added if (owner := project.owner(path))}
    folders = [os.path.relpath(base, root).replace(os.sep, "/") for base in sorted(bases - set(declared))]
    folders = [folder for folder in folders if not is_importable(root / folder, tools)]
    new = configuration.extended("pythonpath", folders).extended(
        "agentreplay_tools", [tools.line(path) for path in planned.added]
    )
    add_change(planned, configuration.file, new.text)
    planned.git = git_files.repository_above(root)
    if planned.git is not None:
        plan_git_files(planned, root, planned.git, project if workflow else None)
        planned.ignored = git_files.ignored_snapshots(
            root, str(configuration.values.get("agentreplay_dir") or DIRECTORY)
        )
    return planned


def plan_git_files(planned: InitPlan, root: Path, top: Path, project: ProjectModules | None) -> None:
    """Add the changes of git's files, and the workflow of `project` where nothing runs the tests yet."""
    add_change(planned, root / ".gitignore", git_files.with_ignored(text_of(root / ".gitignore") or ""))
    add_change(planned, root / ".gitattributes", git_files.with_attributes(text_of(root / ".gitattributes") or ""))
    file = top / git_files.WORKFLOW
    if project is not None:
        try:
            files.refuse_links(file, top)
        except SnapshotError as error:
            raise SettingsError(str(error)) from None
        running = git_files.workflow_running_tests(top)
        planned.running = running if running != file else None
        after = workflow_text(top, root, project) if running in (None, file) else ""
        if {*(text_of(file) or "").splitlines()} <= {*after.splitlines()}:  # nothing in it is the user's own
            add_change(planned, file, after)


def add_change(planned: InitPlan, file: Path, after: str) -> None:
    """Add a change where the text of a file would be another one."""
    before = text_of(file)
    if after != (before or ""):
        planned.changes.append(FileChange(file, before, after))


def is_named(configuration: Configuration, path: str) -> bool:
    """Whether a tool, its module or its class has a line already, as a tool or as a model or retrieval."""
    present = {line.partition("=")[0].strip() for line in configuration.lines("agentreplay_tools")}
    return path in present or f"{path.rpartition('.')[0]}.*" in present


def is_importable(base: Path, tools: FoundTools) -> bool:
    """Whether Python finds the tools of a folder by itself (an editable install, a .pth file). Nothing is imported."""
    # `python -m pytest_agentreplay` puts the working directory first on the path; the command `pytest` does not.
    entries = sys.path[1:] if sys.path[:1] in ([""], [str(Path.cwd())]) else sys.path
    top = {path.partition(".")[0] for path, file in tools.named.items() if file.is_relative_to(base)}
    finders = [finder for finder in sys.meta_path if finder is not PathFinder and hasattr(finder, "find_spec")]
    for name in top:
        specs = [PathFinder.find_spec(name, entries), *(finder.find_spec(name, None) for finder in finders)]
        places = [place for spec in specs if spec for place in (spec.origin, *(spec.submodule_search_locations or ()))]
        if not any(place and Path(place).is_relative_to(base) for place in places):
            return False
    return True


def tests_using(project: ProjectModules) -> list[Path]:
    """Return the test files in which a test asks for the fixture or has the marker."""
    using = []
    for file in project.tests:
        source = files.read(file)
        tree = parsed(source) if b"agentreplay" in source else None
        if tree and (b"mark.agentreplay" in source or any(map(opens_session, functions_below(tree)))):
            using.append(file)
    return using


def write(changes: Sequence[FileChange]) -> None:
    """Write all changes or none. Raises CannotWrite, also for a file that is read-only or was edited meanwhile."""
    for change in changes:
        if change.before is not None and not change.file.stat().st_mode & stat.S_IWUSR:
            raise CannotWrite(f"{format_path(change.file)}: is read-only; nothing was written")
        if text_of(change.file) != change.before:
            raise CannotWrite(
                f"{format_path(change.file)}: was edited meanwhile; nothing was written. Run the command again"
            )
    files.write_all_whole({change.file: change.after.encode() for change in changes})
