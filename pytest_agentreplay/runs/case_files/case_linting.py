"""What should be redacted in any file (`agentreplay redact --dry-run`), and what is wrong with a case (`case lint`).

Nothing is run, written or told of a value, no link is followed, nothing outside of what is named is opened.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from pytest_agentreplay.cases import linting
from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cases.fixtures import Fixtures
from pytest_agentreplay.cases.linting import LintProblem
from pytest_agentreplay.errors import AgentReplayError, CaseError, SnapshotError
from pytest_agentreplay.runs.case_files.trace_import import find_hits
from pytest_agentreplay.runs.cases import stored_case
from pytest_agentreplay.runs.cases.case_backend import fixtures_of
from pytest_agentreplay.runs.redact.redaction_setup import redaction_for
from pytest_agentreplay.runs.redact.rule_review import Review, RuleHit
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, format_path, layout, snapshots
from pytest_agentreplay.snapshots.store.layout import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.model.exchanges import Run
    from pytest_agentreplay.redaction.policy import Policy

LARGEST = 32 << 20
BEGINNING = 8192


class Skipped(AgentReplayError):
    """A file that is not looked into, and why."""


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that were named, and those below the folders: not those of other tools, nor behind links."""
    for path in paths:
        if not path.is_dir() or path.is_symlink():
            yield path
            continue
        for here, names in files.walk(path, is_foreign):
            yield from (here / name for name in names)


def is_foreign(folder: Path) -> bool:
    """Return whether a folder holds files of other tools."""
    return folder.name != layout.PRIVATE and snapshots.is_skipped(folder.name)


def scan_file(file: Path, policy: Policy, environ: Mapping[str, str]) -> list[RuleHit]:
    """Return what the rules find in one file. Raises Skipped."""
    try:
        data = files.head(file, LARGEST + 1)
    except SnapshotError as error:
        raise Skipped(str(error).removeprefix(f"{format_path(file)}: ")) from None
    if len(data) > LARGEST:
        raise Skipped(f"is larger than {LARGEST:,} bytes")
    if b"\0" in data[:BEGINNING]:
        raise Skipped("is no text")
    if file.name.endswith(layout.RECORDED):
        try:
            return Review(codec.loads(data, file=format_path(file)).run, data, policy, environ).hits
        except SnapshotError:
            pass  # a damaged snapshot is a text
    return find_hits(file.name, data, redaction_for(environ, policy=policy))


MOST_FILES = 5000
RULE = "unreadable"
DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Linted:
    """One case: its folder, and what is wrong with it."""

    folder: Path
    complaints: tuple[LintProblem, ...]

    @property
    def damaged(self) -> bool:
        """Whether its run cannot be read."""
        return any(complaint.rule == DAMAGED for complaint in self.complaints)

    @property
    def fails(self) -> bool:
        """Whether there is more than a warning."""
        return any(complaint.level == "error" for complaint in self.complaints)


def cases_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders of cases that were named (by folder or file), and those below the folders that were."""
    for path in paths:
        if path.name == FILE and not path.is_dir():
            yield path.parent
        elif os.path.lexists(path / FILE):
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from (here for here, names in files.walk(path, is_no_place) if FILE in names)


def is_no_place(folder: Path) -> bool:
    """Return whether no cases are looked for in a folder: it is one of other tools, or part of a case."""
    return snapshots.is_skipped(folder.name) or files.exists(folder.with_name(FILE))


def lint_case(folder: Path, policy: Policy, environ: Mapping[str, str]) -> Linted:
    """Return what is wrong with the case in `folder`."""
    try:
        case = stored_case.read_case(folder.absolute() / FILE, words=None)
    except CaseError as error:
        return Linted(folder, (make_unreadable(error),))
    if case.base:
        there = [*names_in(folder)]
        return Linted(folder, (*missing_base(case), *find_unredacted(folder, there, policy, environ)))
    problems: list[LintProblem] = []
    run: Run | None = None
    fixtures = Fixtures()
    try:
        run = stored_case.frozen(case, strict=False).run if os.path.lexists(folder / RUN) else None
    except SnapshotError as error:
        problems.append(LintProblem(DAMAGED, str(error).removeprefix(f"{error.file}: "), error.file))
    try:
        fixtures = fixtures_of(case)
    except CaseError as error:
        problems.append(make_unreadable(error))
    if not problems:
        problems += linting.lint(case, run, fixtures)
    there = [*names_in(folder)]
    problems += linting.strangers(case, there)
    problems += find_unredacted(folder, there, policy, environ)
    return Linted(folder, tuple(problems))


def missing_base(case: Case) -> Iterator[LintProblem]:
    """Yield what is wrong with the base of a neighbour: it is a folder with a case, or the id of a test."""
    if "::" not in case.base and not os.path.lexists(case.folder / case.base / FILE):
        message = f"base {case.base} is no folder of a case, from this one, and no id of a test"
        yield LintProblem("base", message, case.file, case.places.get(("base",), ""))


def make_unreadable(error: CaseError) -> LintProblem:
    """Return a file that cannot be read, as a complaint."""
    where = f"{error.file}:{error.place}" if error.place else error.file
    return LintProblem(RULE, str(error).removeprefix(f"{where}: "), error.file, error.place)


def names_in(folder: Path) -> Iterator[str]:
    """Yield the files below a folder, by their path in it; a link is told by its name and not followed."""
    folders = files.walk(folder, lambda inside: snapshots.is_skipped(inside.name))
    for here, names in islice(folders, MOST_FILES + 1):
        yield from ((here / name).relative_to(folder).as_posix() for name in names[:MOST_FILES])


def find_unredacted(
    folder: Path, there: Iterable[str], policy: Policy, environ: Mapping[str, str]
) -> Iterator[LintProblem]:
    """Yield what the rules and the policy find in the files of a case; a value is never told."""
    for name in there:
        file = folder / name
        try:
            hits = scan_file(file, policy, environ)
        except Skipped as skipped:
            yield LintProblem("folder", f"is not looked into: {skipped}", format_path(file), "", "warning")
            continue
        for hit in hits:
            message = f"holds what should have come off: {hit.category}, {hit.count} time{'s' * (hit.count != 1)}"
            place = hit.place if hit.place[:1].isdigit() else ""
            where = "" if place else f" ({hit.place})"
            how = "agentreplay redact" if name.endswith(SUFFIX) else "take it out"
            yield LintProblem("unredacted", f"{message}{where}: {how}", format_path(file), place)
