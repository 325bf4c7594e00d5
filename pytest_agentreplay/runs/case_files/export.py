"""`agentreplay case export`: a case in the form of another tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.cases import evidence
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.snapshots.store import files, format_path
from pytest_agentreplay.snapshots.store.projects import root_above
from pytest_agentreplay.traces.exporting import TARGETS
from pytest_agentreplay.traces.exporting.subject import Subject, jsonish, trace_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.model.exchanges import Json, JsonObject, Run
    from pytest_agentreplay.traces.exporting.subject import Exported


def export_case(path: Path, target: str) -> Exported:
    """Return the case at `path` (its folder, or its file) in the form of `target`.

    Raises CaseError, for a case without a run too, and SnapshotError.
    """
    case = stored_case.read_case(stored_case.file_of(path))
    run = stored_case.frozen(case, strict=False).run
    return TARGETS[target].write(subject(case, run, evidence.frozen(run).output))


def subject(case: Case, run: Run, output: Json) -> Subject:
    """Return what of a case goes out."""
    return Subject(
        id=case.id,
        title=case.title,
        folder=in_project(case.folder),
        input=case.input,
        trace=trace_of(run, id=case.id, output=output),
        calls=tuple((call.name, sayable(call.arguments)) for call in RunView.of(run).tool_calls),
        observed=tuple((check.word, check.wanted) for check in case.observed),
        desired=tuple((check.word, check.wanted) for check in case.desired),
        semantic=case.semantic,
    )


def in_project(folder: Path) -> str:
    """Return a folder as seen from the root of its project, whatever folder people stand in."""
    path = folder.absolute()
    root = root_above(path)
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def sayable(arguments: dict[str, object]) -> JsonObject | None:
    """Arguments as JSON; None where they hold what is none, so that the JSON would not be equal to them."""
    tree = jsonish(arguments)
    return tree if isinstance(tree, dict) and tree == arguments else None


def place(out: Exported, where: Path) -> list[tuple[Path, str]]:
    """Return where its files go: into `where` if that is a folder, else there, and beside it what comes along."""
    (_, first), *others = out.files
    if where.is_dir():
        return [(where / name, text) for name, text in out.files]
    return [(where, first), *((where.with_name(name), text) for name, text in others)]


def write(placed: list[tuple[Path, str]], *, force: bool) -> list[tuple[Path, bool]]:
    """Write the files; gives for each whether it changed. Raises CannotWrite for one that holds something else."""
    is_same = {}
    for file, text in placed:
        there = files.read_if_there(file)
        is_same[file] = there == text.encode()
        if there is not None and not is_same[file] and not force:
            raise CannotWrite(f"{format_path(file)}: holds something else; --force writes over it, -o FILE elsewhere")
    files.write_all_whole({file: text.encode() for file, text in placed if not is_same[file]})
    return [(file, not same) for file, same in is_same.items()]
