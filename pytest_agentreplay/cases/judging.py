"""A run held against the assertions of a case: which hold, which do not and why, which need a person."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pytest_agentreplay.cases.case import Check
    from pytest_agentreplay.cases.turn import ToolCallView
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.model import Json, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What there is to judge: the frozen run itself, or what today's agent did.

    `errors` are (class, text) of what went wrong; a runner that raised is there, and its status is "error". `run` are
    the exchanges, None where a runner of another process told only results. `divergence` is where today's run left the
    frozen one, None where it did not. `served` is the policy as `Serving.told`, "" for the frozen run.
    """

    status: Literal["ok", "error"] = "ok"
    output: Json = None
    run: Run | None = None
    tool_calls: tuple[ToolCallView, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    seconds: float | None = None
    divergence: Divergence | None = None
    served: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one check: `held` (None: nobody could say), and lines for people: expected, there, nearest."""

    check: Check
    held: bool | None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of one half. `human` are the semantic checks that no judge has made."""

    results: tuple[Result, ...] = ()
    human: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether every check holds; False for none at all: an empty half shows nothing."""
        return bool(self.results) and all(result.held for result in self.results)
