"""A trial: one neighbour of a run tried on its agent. What is asked, and what came of it, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pytest_agentreplay.backends.perturbation import SERVED, Perturbation, read_perturbation, weakest_label
from pytest_agentreplay.runs.fuzz.invariants import Violation

if TYPE_CHECKING:
    from typing import Any

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.runs.fuzz.neighbours import Neighbour

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

    def plain(self) -> JsonObject:
        """Return it as a plan has it."""
        return {
            "number": self.number,
            "kind": self.kind,
            "perturb": [perturbation.plain() for perturbation in self.neighbour],
            "invariants": [*self.invariants],
        }


def read_trial(plain: Any) -> Trial:
    """Return the trial that `plain` returned."""
    neighbour: tuple[Perturbation, ...] = tuple(map(read_perturbation, plain["perturb"]))
    return Trial(plain["number"], neighbour, plain["kind"], (*plain["invariants"],))


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
        return {
            "trial": self.trial.plain(),
            "violations": [[*violation] for violation in self.violations],
            "end": self.end,
        }


def read_result(plain: Any) -> TrialResult:
    """Return the result that `plain` returned."""
    violations = tuple(Violation(*violation) for violation in plain["violations"])
    return TrialResult(read_trial(plain["trial"]), violations, plain["end"])
