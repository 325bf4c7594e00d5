"""From many failing neighbours to few: one for each cause, with the fewest perturbations and the simplest arguments."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.runs.fuzz.neighbours import FAULTS, list_simpler, list_smaller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytest_agentreplay.backends.perturbation import Perturbation
    from pytest_agentreplay.runs.fuzz.invariants import Violation
    from pytest_agentreplay.runs.fuzz.neighbours import Candidate, Neighbour
    from pytest_agentreplay.runs.fuzz.trials import Trial, TrialResult

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
            origins = [""] if violation.invariant == "no crash" else [*map(find_origin, neighbour)]
            group = next(((cause, origin) for origin in origins if (cause, origin) in groups), None)
            own = (cause, origins[0] if len(origins) == 1 else "together")
            groups.setdefault(group or own, []).append((violation, neighbour))
    return [FuzzFailure(*group[0], len(group)) for group in groups.values()]


def find_origin(perturbation: Perturbation) -> str:
    """Return what an operator has in common with others that show the same fault: errors of a service are one."""
    return "fault" if perturbation.operator in {*FAULTS, "outage"} else perturbation.operator


def shrink(
    failure: FuzzFailure,
    candidates: Sequence[Candidate],
    trial: Trial,
    run: Callable[[Sequence[Trial]], Iterable[TrialResult]],
) -> FuzzFailure:
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


def confirm(
    failures: Sequence[FuzzFailure], trial: Trial, run: Callable[[Sequence[Trial]], Iterable[TrialResult]]
) -> tuple[list[FuzzFailure], int]:
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
