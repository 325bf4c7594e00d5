"""What is wrong with a case that can be read: what no run could show, what every run shows, what nobody can reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.cases.fixtures import Fixtures
    from pytest_agentreplay.core.model import Run


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong: its rule, what it is and what to do, and where (file, and line:column where known).

    A "warning" is no failure.
    """

    rule: str
    message: str
    file: str
    place: str = ""
    level: Literal["error", "warning"] = "error"


def lint(case: Case, run: Run | None, fixtures: Fixtures) -> tuple[Complaint, ...]:
    """What is wrong with a case, its frozen run and its fixtures."""
    del case, run, fixtures
    return ()
