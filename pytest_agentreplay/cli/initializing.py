"""The verb `init`: what a project needs, as changes of whole files, shown, asked about and written."""

from __future__ import annotations

import difflib
import os
import stat
import sys
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.project_setup import git_files, project_modules
from pytest_agentreplay.cli.project_setup.pytest_configuration import Configuration, configuration_of, text_of
from pytest_agentreplay.cli.project_setup.tool_search import FoundTools, find_tools, suggests_reading
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, find_root, say
from pytest_agentreplay.errors import CannotWrite, SettingsError, SnapshotError
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import files, format_path
from pytest_agentreplay.snapshots.store.layout import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Sequence


def add_verbs(verbs: Verbs) -> None:
    """Declare `init`."""
    init_verb = verbs.add("init", init)
    init_verb.flag("--yes", "write without asking")
    init_verb.flag("--dry-run", "only show what would be written")
    init_verb.flag("--no-workflow", "leave out the workflow that replays the tests")


NOTHING = "nothing to do: the project has what it needs"
TEXTCONV = 'git config diff.agentreplay.textconv "agentreplay show --textconv"'


def init(options: Options) -> int:
    """`agentreplay init [--yes | --dry-run] [--no-workflow]`."""
    planned = plan(find_root(), workflow=not options.no_workflow)
    for line in describe_plan(planned):
        say(line)
    if not planned.changes:
        missing = len(planned.tools.unmatched)
        say(f"nothing to write: {missing} of the tools above wait for a line" if missing else NOTHING)
        return finish(planned)
    for change in planned.changes:
        say("\n".join(["", *change.diff()]))
    say("")
    if options.dry_run:
        say(f"{plural(len(planned.changes), 'file')} would be written")
        return Exit.SAME
    if not options.yes and not is_confirmed(planned):
        say("nothing was written; to write it: agentreplay init --yes")
        return Exit.DIVERGED
    write(planned.changes)
    for change in planned.changes:
        say(f"written   {format_path(change.file)}")
    if any(change.file.name == ".gitattributes" for change in planned.changes):
        say(f"once in each clone, to have git show transcripts: {TEXTCONV}")
    return finish(planned)


def describe_plan(planned: InitPlan) -> list[str]:
    """Return what was found, in lines."""
    written = any(change.file == planned.configuration for change in planned.changes)
    unchanged = " (nothing to add)" if files.exists(planned.configuration) else " (not needed)"
    lines = [f"settings  {format_path(planned.configuration)}{'' if written else unchanged}"]
    lines += [
        f"tool      {path} ({'new' if path in planned.added else 'has a line'})" for path in planned.tools.functions
    ]
    lines += [f"tool      {path} (frozen by {name}, needs no line)" for path, name in planned.tools.intercepted.items()]
    for name, file in planned.tools.unmatched.items():
        lines.append(f"tool      {name} (a schema in {format_path(file)}): add its function to agentreplay_tools")
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


def is_confirmed(planned: InitPlan) -> bool:
    """Return whether somebody at a terminal says yes; no, where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input(f"write {plural(len(planned.changes), 'file')}? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def finish(planned: InitPlan) -> int:
    """Print the next command; return the exit code."""
    if planned.tests:
        say(f"next      pytest --snapshot-record {' '.join(quote_word(format_path(file)) for file in planned.tests)}")
    else:
        say("next      give a test the fixture agentreplay, then: pytest --snapshot-record")
    return Exit.SAME


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
    project = project_modules.read_project(root, [*declared, *sources, root])
    tools = find_tools(project)
    planned = InitPlan(configuration.file, tools, skipped=project.skipped, tests=tests_using(project))
    planned.added = [path for path in tools.functions if not is_named(configuration, path)]
    bases = {owner.base for path in planned.added if (owner := project.owner(path))}
    folders = [os.path.relpath(base, root).replace(os.sep, "/") for base in sorted(bases - set(declared))]
    folders = [folder for folder in folders if not is_importable(root / folder, tools)]
    lines = [tools.line(path) for path in planned.added]
    new = configuration.extend("pythonpath", folders).extend("agentreplay_tools", lines)
    add_change(planned, configuration.file, new.text)
    planned.git = git_files.repository_above(root)
    if planned.git is not None:
        plan_git_files(planned, root, planned.git, project if workflow else None)
        folder = str(configuration.values.get("agentreplay_dir") or DIRECTORY)
        planned.ignored = git_files.ignored_snapshots(root, folder)
    return planned


def plan_git_files(planned: InitPlan, root: Path, top: Path, project: project_modules.ProjectModules | None) -> None:
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
        after = git_files.workflow_text(top, root, project) if running in (None, file) else ""
        if {*(text_of(file) or "").splitlines()} <= {*after.splitlines()}:  # nothing in it is the user's own
            add_change(planned, file, after)


def add_change(planned: InitPlan, file: Path, after: str) -> None:
    """Add a change where the text of a file would be another one."""
    before = text_of(file)
    if after != (before or ""):
        planned.changes.append(FileChange(file, before, after))


def is_named(configuration: Configuration, path: str) -> bool:
    """Return whether a tool, its module or its class has a line already, as a tool or as a model or retrieval."""
    present = {line.partition("=")[0].strip() for line in configuration.lines("agentreplay_tools")}
    return path in present or f"{path.rpartition('.')[0]}.*" in present


def is_importable(base: Path, tools: FoundTools) -> bool:
    """Whether Python finds the tools of a folder by itself (an editable install, a .pth file). Nothing is imported."""
    # `python -m pytest_agentreplay` puts the working directory first on the path; the command `pytest` does not.
    entries = sys.path[1:] if sys.path[:1] in ([""], [str(Path.cwd())]) else sys.path
    top = {path.partition(".")[0] for path, file in tools.functions.items() if file.is_relative_to(base)}
    finders = [finder for finder in sys.meta_path if finder is not PathFinder and hasattr(finder, "find_spec")]
    for name in top:
        specs = [PathFinder.find_spec(name, entries), *(finder.find_spec(name, None) for finder in finders)]
        places = [place for spec in specs if spec for place in (spec.origin, *(spec.submodule_search_locations or ()))]
        if not any(place and Path(place).is_relative_to(base) for place in places):
            return False
    return True


def tests_using(project: project_modules.ProjectModules) -> list[Path]:
    """Return the test files in which a test asks for the fixture or has the marker."""
    using = []
    for file in project.tests:
        source = files.read_file(file)
        tree = project_modules.parse_source(source) if b"agentreplay" in source else None
        functions = project_modules.functions_below(tree) if tree else ()
        asks = any("agentreplay" in project_modules.list_parameter_names(function) for function in functions)
        if tree and (b"mark.agentreplay" in source or asks):
            using.append(file)
    return using


def write(changes: Sequence[FileChange]) -> None:
    """Write all changes or none. Raises CannotWrite, also for a file that is read-only or was edited meanwhile."""
    for change in changes:
        if change.before is not None and not change.file.stat().st_mode & stat.S_IWUSR:
            raise CannotWrite(f"{format_path(change.file)}: is read-only; nothing was written")
        if text_of(change.file) != change.before:
            raise CannotWrite(f"{format_path(change.file)}: was edited meanwhile; nothing was written: run it again")
    files.write_all_whole({change.file: change.after.encode() for change in changes})
