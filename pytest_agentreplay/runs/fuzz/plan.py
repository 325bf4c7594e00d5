"""Trials: neighbours of a run that are tried on its agent, run by pytest; and those that fail cut down to few.

A trial and what came of it cross processes as JSON. A plan of trials is handed to a session of pytest, which writes
each result as soon as it is there. Of many failing neighbours one is left for each cause, with the fewest perturbations
and the simplest arguments.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.perturbation import SERVED, Perturbation, weakest_label
from pytest_agentreplay.model.paths import get_test_id
from pytest_agentreplay.report.summary import to_plain
from pytest_agentreplay.runs.fuzz.invariants import Violation
from pytest_agentreplay.runs.fuzz.neighbours import FAULTS, Candidate, Neighbour, list_simpler, list_smaller
from pytest_agentreplay.runs.own_pytest import prepare_pytest
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Show = Callable[[Sequence["TrialResult"], float], None] | None
    RunTrials = Callable[[Sequence["Trial"]], Iterable["TrialResult"]]


LOOK = 0.2  # seconds between two looks at the results
ENDING = 5.0  # seconds that pytest has for its end when the time is up
TAIL = 3000  # characters of what pytest printed, where no trial was judged


Kind: TypeAlias = Literal["fuzz", "assertions"]


class Trial(NamedTuple):
    """What an item tries: its number, what it looks for, the neighbour, and the user's invariants ("module:function").

    A trial of "fuzz" fails where an invariant does not hold. One of "assertions" never fails: it tells whether the test
    has noticed that a reply is another one.
    """

    number: int
    neighbour: Neighbour
    kind: Kind = "fuzz"
    invariants: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        """The end of the item's name."""
        return f"{self.kind}-{self.number}"

    @property
    def served(self) -> str:
        """How the recorded calls are served."""
        return SERVED[weakest_label(self.neighbour)]


def read_trial(plain: Any) -> Trial:
    """Return the trial that a plan has as a list of its fields."""
    number, neighbour, kind, invariants = plain
    return Trial(number, tuple(Perturbation(*each) for each in neighbour), kind, (*invariants,))


class TrialResult(NamedTuple):
    """What came of a trial: violations in one of "fuzz", how the test noticed a changed reply in one of "assertions".

    `end` says how the test ended: "passed", "stopped" by a call that nothing answers, or the type of its error.
    """

    trial: Trial
    violations: tuple[Violation, ...] = ()
    end: str = "passed"

    @property
    def noticed(self) -> bool:
        """Whether the test turned red by itself."""
        return self.end not in {"passed", "stopped"}

    def plain(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        plain: dict[str, Any] = to_plain(self._asdict())
        return plain


def read_result(plain: Any) -> TrialResult:
    """Return the result that `plain` returned."""
    violations = tuple(Violation(*violation) for violation in plain["violations"])
    return TrialResult(read_trial(plain["trial"]), violations, plain["end"])


class PlanResult(NamedTuple):
    """What a session of pytest has shown: the results, items that came to none (with the reason), what it printed.

    `interrupted` says that somebody has ended it, or its time was up; `state` what the test leaves behind, in a line.
    """

    results: tuple[TrialResult, ...]
    unjudged: tuple[str, ...]
    printed: str
    code: int
    interrupted: bool = False
    state: str = ""

    @property
    def tried(self) -> list[TrialResult]:
        """The results of neighbours: all but that of the recording as it is."""
        return [result for result in self.results if result.trial.number]

    @property
    def reason(self) -> str:
        """Why there is no result: what kept the first item from being judged, else what pytest printed last."""
        return next(iter(self.unjudged), "") or self.printed.strip()


def run_trials(
    root: Path, test: str, trials: Sequence[Trial], *, seconds: float = 0, show: Show = None, apart: bool = False
) -> PlanResult:
    """Return what came of the trials of a test, or of a case file, run by pytest in `root`.

    `seconds` end the session (0: none do). `show` is given the results so far, and the seconds spent. What an interrupt
    leaves is returned. With `apart` each has a process of its own, whether the test leaves state or not.
    """
    with TemporaryDirectory() as folder:
        plan, into = Path(folder) / "plan.json", Path(folder) / "results.jsonl"
        data = {"test": test, "trials": [*trials], "into": str(into), "apart": apart}
        files.write_whole(plan, json.dumps(data))
        node = test if "::" not in test else get_test_id(test).partition("[")[0]
        words = [node, "-q", "--tb=line", "--agentreplay-mode=model"]
        # Past the project's own flags: no failure ends the session, and none is remembered as one of the project.
        words += ["--maxfail=0", "-o", f"cache_dir={folder}/cache", f"--agentreplay-neighbours={plan}"]
        command, environ = prepare_pytest(root, words)
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=root, env=environ, **streams)  # noqa: S603  a test of the user's
        printed, interrupted = watch(process, into, seconds, show)
        rows = [*read_rows(into)]
        results = tuple(read_result(row) for row in rows if "trial" in row)
        unjudged = tuple(f"{row['unjudged']}: {row['why']}" for row in rows if "unjudged" in row)
        state = next((row["state"] for row in rows if "state" in row), "")
        text = printed.decode("utf-8", "replace")[-TAIL:]
        return PlanResult(results, unjudged, text, process.returncode or 0, interrupted, state)


def watch(process: subprocess.Popen[bytes], into: Path, seconds: float, show: Show) -> tuple[bytes, bool]:
    """Wait for the end of a process, showing what it has written; return what it printed, and whether it was ended."""
    began = clocks.perf_counter()
    try:
        while True:
            try:
                return process.communicate(timeout=LOOK)[0], False
            except subprocess.TimeoutExpired:
                spent = clocks.perf_counter() - began
                if show is not None:
                    show([read_result(row) for row in read_rows(into) if "trial" in row], spent)
                if seconds and spent > seconds:
                    return end(process), True
    except KeyboardInterrupt:
        return end(process), True


def end(process: subprocess.Popen[bytes]) -> bytes:
    """End a process, by force where it does not end by itself; return what it printed."""
    process.terminate()
    try:
        return process.communicate(timeout=ENDING)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def read_rows(file: Path) -> Iterator[Any]:
    """Yield the whole lines of a file of results; none where there is no file yet."""
    data = files.read_file(file) if files.exists(file) else b""
    yield from (json.loads(line) for line in data.split(b"\n")[:-1])


TRIES = 5  # fresh processes in which a failure is tried again: most races do not show in all of them
NUMBER = re.compile(r"\d+")
DETAILS = re.compile(r"[(:]")


class FuzzFailure(NamedTuple):
    """One cause: what is violated, the smallest neighbour that shows it, how many did, and whether it is a race."""

    violation: Violation
    neighbour: Neighbour
    shown_by: int
    race: bool = False

    @property
    def name(self) -> str:
        """What is violated, and that it is a race where it is one."""
        return f"race: {self.violation.invariant}" if self.race else self.violation.invariant


def find_cause(violation: Violation) -> str:
    """Return what two violations of one cause have in common: the text up to its details, without numbers."""
    return f"{violation.invariant}: {NUMBER.sub('_', DETAILS.split(violation.text)[0])}"


def group_failures(results: Iterable[TrialResult]) -> list[FuzzFailure]:
    """Return a failure for each cause, by the neighbour with the fewest perturbations.

    A crash names its place in the code. Any other violation may have several causes, so it counts once for each
    operator that shows it by itself. Neighbours of several operators belong to one of these, or are a group together.
    """
    groups: dict[tuple[str, str], list[tuple[Violation, Neighbour]]] = {}
    for result in sorted(results, key=lambda result: len(result.trial.neighbour)):
        for violation in result.violations[:1]:
            cause, neighbour = find_cause(violation), result.trial.neighbour
            # Errors of a service are one operator: they show the same fault.
            operators = ["fault" if each.operator in {*FAULTS, "outage"} else each.operator for each in neighbour]
            origins = [""] if violation.invariant == "no crash" else operators
            group = next(((cause, origin) for origin in origins if (cause, origin) in groups), None)
            own = (cause, origins[0] if len(origins) == 1 else "together")
            groups.setdefault(group or own, []).append((violation, neighbour))
    return [FuzzFailure(*group[0], len(group)) for group in groups.values()]


def shrink(failure: FuzzFailure, candidates: Sequence[Candidate], trial: Trial, run: RunTrials) -> FuzzFailure:
    """Return the failure with the fewest perturbations, and then with simpler arguments, that still show its cause.

    `run` tries neighbours; it is asked twice at most, since each time costs a session. `trial` says what to look for.
    """

    def keep_first(failure: FuzzFailure, neighbours: Sequence[Neighbour]) -> FuzzFailure:
        """Return the failure as the first of `neighbours` shows it; as it is where none does."""
        trials = [trial._replace(number=number, neighbour=each) for number, each in enumerate(neighbours, 1)]
        violations = {
            result.trial.neighbour: violation
            for result in (run(trials) if trials else ())
            for violation in result.violations
            if find_cause(violation) == find_cause(failure.violation)
        }
        first = next((neighbour for neighbour in neighbours if neighbour in violations), None)
        return failure if first is None else failure._replace(neighbour=first, violation=violations[first])

    failure = keep_first(failure, list_smaller(failure.neighbour))
    return keep_first(failure, list_simpler(failure.neighbour, candidates))


def confirm(failures: Sequence[FuzzFailure], trial: Trial, run: RunTrials) -> tuple[list[FuzzFailure], int]:
    """Return the failures that show again, and how many others there were; `run` tries each in a fresh process.

    A failure is a race where it is about an order of answers, does not show each time, or shows without a change too.
    Whatever was changed has no part in that, so all of them are one failure: that which showed most often.
    """
    neighbours: list[Neighbour] = [(), *(failure.neighbour for failure in failures)] * TRIES
    results = [*run([trial._replace(number=n, neighbour=each) for n, each in enumerate(neighbours, 1)])]
    tried = Counter(each.trial.neighbour for each in results)  # less than TRIES where it was interrupted
    counts = Counter((each.trial.neighbour, find_cause(violation)) for each in results for violation in each.violations)

    def count(failure: FuzzFailure, neighbour: Neighbour) -> int:
        return counts[neighbour, find_cause(failure.violation)]

    def is_race(failure: FuzzFailure) -> bool:
        order = any(each.operator == "completion-order" for each in failure.neighbour)
        return order or count(failure, failure.neighbour) < tried[failure.neighbour] or count(failure, ()) > 0

    again = [each for each in failures if count(each, each.neighbour) or not tried[each.neighbour]]
    races = sorted(filter(is_race, again), key=lambda failure: -count(failure, failure.neighbour))
    shown_by = sum(failure.shown_by for failure in races)
    race = [failure._replace(race=True, shown_by=shown_by) for failure in races[:1]]
    return [failure for failure in again if failure not in races] + race, len(failures) - len(again)
