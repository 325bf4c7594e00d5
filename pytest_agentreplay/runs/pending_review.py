"""What waits for a person's word: pending runs, and snapshots that are not as git's HEAD has them, turn by turn.

Rules of this module:
- A pending run is taken whole or not at all: once each of its divergent turns is accepted.
- A snapshot that changed in the working tree is there already: keeping it writes nothing.
- No terminal is touched here; `ReviewWalk` takes single commands and returns what to show, escaped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import SettingsError, SnapshotError
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.report.escape import escape_output
from pytest_agentreplay.report.finding import Finding, format_finding
from pytest_agentreplay.report.findings import describe_comparison
from pytest_agentreplay.report.transcript import format_blocks
from pytest_agentreplay.runs.accept import Pending, count_calls, list_divergences, list_pending, read_pending
from pytest_agentreplay.runs.snapshot_selection import is_of_folder, select_files
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import format_path, layout, projects, reading
from pytest_agentreplay.snapshots.store.git_revisions import Repository, explain_no_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import Run

KEYS = "a accept  A accept all of this kind  r reject  s skip  d whole difference  q quit  ? help"
HELP = """a   accept this turn; a pending run is taken once all of its turns are accepted
A   accept it here and in all other runs: the same code at the same place
r   reject: delete this pending run, after asking
s   skip: leave this run as it is         d   show the whole difference
q   quit: what was accepted stays         ?   this help"""
IN_GIT = "the file is in the working tree already, so there is nothing to accept"


@dataclass(frozen=True, slots=True)
class ReviewedRun:
    """A run under review.

    `home` is its snapshot. `run` is None for one that cannot be used, and `problem` says why. `pending` is None for a
    snapshot that changed in git. `is_new` says that no readable run stood there before.
    """

    home: Path
    run: Run | None
    pending: Pending | None = None
    findings: tuple[Finding, ...] = ()
    is_new: bool = False
    problem: str = ""

    @property
    def state(self) -> str:
        """In a word, what it is."""
        return "refused" if self.problem else "new" if self.is_new else "pending" if self.pending else "in git"

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """What is accepted turn by turn: code and place of each; one step for a run without a divergence."""
        places = ((finding.code, finding.properties.get("path", "")) for finding in self.findings)
        return tuple(places) or ((self.state, "in git" if self.pending is None else "pending"),)

    def describe(self) -> str:
        """Return in a line what it is: state, snapshot, calls, outcome, changes."""
        codes = dict.fromkeys(finding.code for finding in self.findings)
        parts = [self.problem] if self.run is None else [count_calls(len(self.run.exchanges))]
        if self.run is not None:
            parts.append(f"test {self.run.header.outcome.get('status', 'unknown')}")
            parts.append(
                f"changes: {', '.join(codes)}" if codes else "no snapshot before" if self.is_new else "no change"
            )
        return f"{self.state:8}  {format_path(self.home)}: {', '.join(parts)}"

    def find_command(self) -> str:
        """Return what to type about it."""
        if self.problem:
            return ""
        if self.pending is not None:
            return f"agentreplay accept {quote_word(format_path(self.pending.file))}"
        return "" if self.is_new else f"git restore {quote_word(format_path(self.home))}"

    def take(self) -> str:
        """Accept it. Return the line to print. Raises CannotWrite."""
        return self.pending.accept() if self.pending is not None else f"{format_path(self.home)}: kept; {IN_GIT}"


def list_reviewed(words: Iterable[str], here: Path) -> list[ReviewedRun]:
    """Return the pending runs, then the snapshots that changed in git, that `words` name; without words all of them.

    Raises SettingsError for an id that none of them is of.
    """
    changed = dict(list_changed(here))
    candidates = [*list_pending(projects.root_above(here)), *changed]

    def list_below(folder: Path) -> Iterator[Path]:
        return (file for file in candidates if is_of_folder(file, folder))

    chosen = {*select_files(words, here, lambda _: candidates, list_below)}
    files = [file for file in candidates if {file, layout.home_path(file)} & chosen]
    runs = [read_changed(file, changed[file]) if file in changed else read_waiting(file) for file in files]
    return sorted(runs, key=lambda reviewed: reviewed.pending is None and not reviewed.problem)


def list_changed(here: Path) -> Iterator[tuple[Path, bytes | None]]:
    """Yield each snapshot below the project's root that is not as HEAD has it, with what it has."""
    if explain_no_head(here):
        return
    root, repository = projects.root_above(here), Repository(here)
    head = repository.resolve("HEAD")
    for path in repository.list_changed(head):
        file = repository.top / path
        if path.endswith(layout.SUFFIX) and file.is_relative_to(root) and file.is_file():
            yield file, repository.read_file(head, path)


def read_waiting(file: Path) -> ReviewedRun:
    """Return the review of a pending run."""
    home = layout.home_path(file) or file
    try:
        pending = read_pending(file)
    except (SnapshotError, SettingsError) as error:
        return ReviewedRun(home, None, problem=str(error))
    try:
        before = reading.load(home).run
    except SnapshotError:
        return ReviewedRun(home, pending.run, pending, is_new=True)
    return ReviewedRun(home, pending.run, pending, describe_changes(home, before, pending.run))


def read_changed(file: Path, before: bytes | None) -> ReviewedRun:
    """Return the review of a snapshot that changed in the working tree; `before` is what HEAD has."""
    name = format_path(file)
    try:
        snapshot = reading.load(file)
        if not snapshot.sealed:
            return ReviewedRun(
                file, None, problem=f"edited after it was recorded: agentreplay verify {quote_word(name)}"
            )
        old = None if before is None else codec.loads(before, file=f"HEAD:{name}").run
    except SnapshotError as error:
        return ReviewedRun(file, None, problem=str(error).removeprefix(f"{name}: "))
    if old is None:
        return ReviewedRun(file, snapshot.run, is_new=True)
    return ReviewedRun(file, snapshot.run, findings=describe_changes(file, old, snapshot.run))


def describe_changes(home: Path, old: Run, new: Run) -> tuple[Finding, ...]:
    """Return a finding for each turn in which two runs differ; `ReviewWalk` says what to type."""
    differing = list_divergences(old, new, projects.root_above(home.parent))
    findings = [describe_comparison(divergence, "", "") for divergence in differing]
    return tuple(replace(each, test=new.header.test or format_path(home)) for each in findings)


class ReviewWalk:
    """Walks runs under review, one divergent turn at a time. `obey` returns what a command shows, None to end."""

    def __init__(self, runs: Sequence[ReviewedRun], *, width: int = 80, colour: bool = False) -> None:
        """Stand at the first turn of the first run."""
        self._runs, self._width, self._colour = runs, width, colour
        self._at = self._turn = 0
        self._kinds: set[tuple[str, str]] = set()
        self._is_rejecting = False
        self._rejected = 0
        self.taken: list[ReviewedRun] = []

    @property
    def done(self) -> bool:
        """Whether every run was accepted or skipped."""
        return self._at >= len(self._runs)

    def show(self) -> str:
        """Return the turn where one stands: which run, what was recorded, what is now, the likely cause."""
        reviewed = self._runs[self._at]
        head = f"[{self._at + 1}/{len(self._runs)}] {reviewed.describe()}"
        if not reviewed.findings:
            return escape_output(head)
        if (count := len(reviewed.findings)) > 1:
            head += f"\ndivergent turn {self._turn + 1} of {count}"
        finding = reviewed.findings[self._turn]
        text = format_finding(finding, width=self._width, colour=self._colour, see_all="d")
        return f"{escape_output(head)}\n\n{text}"

    def show_keys(self) -> str:
        """Return where one stands and what to press."""
        return f"[{self._at + 1}/{len(self._runs)}] {format_path(self._runs[self._at].home)}\n{KEYS}"

    def obey(self, command: str) -> str | None:
        """Return what a command shows. Raises CannotWrite where a run cannot be written or deleted."""
        is_repeated, self._is_rejecting = self._is_rejecting, False
        if is_repeated and command not in {"r", "q"}:
            return "nothing is deleted"
        match command:
            case "":
                return ""
            case "r":
                return self._reject(is_repeated=is_repeated)
            case "q":
                return None
            case "?":
                return HELP
            case "d":
                return self._show_all()
            case "a" | "A":
                if command == "A":
                    self._kinds.add(self._runs[self._at].kinds[self._turn])
                return self._accept()
            case "s":
                skipped = self._runs[self._at]
                self._at, self._turn = self._at + 1, 0
                return "\n".join([escape_output(f"{format_path(skipped.home)}: left as it is"), *self._go_on()])
        return escape_output(f"no key {command}; ? lists them")

    def _reject(self, *, is_repeated: bool) -> str:
        reviewed = self._runs[self._at]
        if reviewed.pending is None:
            command = reviewed.find_command()
            undo = f"; to undo this change: {command}" if command else ""
            return escape_output(f"only a pending run can be rejected{undo}")
        name = format_path(reviewed.pending.file)
        if not is_repeated:
            self._is_rejecting = True
            return escape_output(f"r again deletes {name}; any other key leaves it")
        done = reviewed.pending.reject()
        self._rejected += 1
        self._at, self._turn = self._at + 1, 0
        return "\n".join([escape_output(done), *self._go_on()])

    def _show_all(self) -> str:
        reviewed = self._runs[self._at]
        if reviewed.findings:
            return "\n\n".join(
                format_finding(each, width=self._width, verbosity=2, colour=self._colour) for each in reviewed.findings
            )
        if reviewed.run is None:
            return escape_output(reviewed.problem)
        facts, turns = format_blocks(reviewed.run, self._width)
        return escape_output("\n\n".join([facts, *(text for _, text in turns)]))

    def _accept(self) -> str:
        if problem := self._runs[self._at].problem:
            return escape_output(f"this one cannot be accepted: {problem}")
        self._turn += 1
        return "\n".join(self._go_on())

    def _go_on(self) -> Iterator[str]:
        """Take what is accepted in all of its turns, up to the next that is not; yield what was done, and that turn."""
        while not self.done:
            reviewed = self._runs[self._at]
            while self._turn < len(reviewed.kinds) and reviewed.kinds[self._turn] in self._kinds:
                self._turn += 1
            if self._turn < len(reviewed.kinds):
                yield f"\n{self.show()}"
                return
            yield escape_output(reviewed.take())
            self.taken.append(reviewed)
            self._at, self._turn = self._at + 1, 0

    def summarize(self) -> str:
        """Return how many runs were accepted, and how many are left."""
        left = len(self._runs) - len(self.taken) - self._rejected
        accepted = sum(reviewed.pending is not None for reviewed in self.taken)
        kept = len(self.taken) - accepted
        counts = [f"{plural(accepted, 'run')} accepted"]
        counts += [f"{count} {what}" for count, what in ((kept, "kept"), (self._rejected, "rejected")) if count]
        return f"{', '.join(counts)}, {left} left{': agentreplay review' if left else ''}"
