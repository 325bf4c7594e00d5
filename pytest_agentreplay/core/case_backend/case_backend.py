"""Who answers an agent in the world's stead: the recording, the fixtures of a case, or the world itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from pytest_agentreplay.core.turns import function_of, is_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.core.model import Call, Failure, JsonObject, Outcome, ToolReply
    from pytest_agentreplay.core.reading import Reader
    from pytest_agentreplay.core.tolerance import TolerancePolicy

ServeMode: TypeAlias = Literal["strict", "position", "arguments", "live"]
Sort: TypeAlias = Literal["model", "tools", "other"]

SORTS: tuple[Sort, ...] = ("model", "tools", "other")


class CaseFixtures(Protocol):
    """The frozen tools of a case."""

    def answer(self, tool: str, arguments: JsonObject) -> tuple[ToolReply | Failure, bool] | None:
        """What the tool gives to these arguments, and whether a hand has written that; None where nobody knows."""

    def recorded_arguments(self, tool: str) -> Iterable[JsonObject]:
        """The arguments to which the answers of a tool are known."""

    def advice(self, tool: str, arguments: JsonObject) -> tuple[str, ...]:
        """Where nobody knows: the nearest fixture, and the lines to write, for people."""


class Meaning(Protocol):
    """When two calls are the same, where that is not said by their bytes."""

    def text(self, call: Call) -> str:
        """A text of a call; two calls are the same where their texts are."""

    def plainly(self, call: Call) -> Call:
        """The call with nothing but what is compared, to tell people how two differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPolicy:
    """How each sort of call is served, and with what.

    Without a `meaning` the bytes of calls are compared. `tolerances` say which arguments of a tool's call are near
    enough to known ones, where a live model makes them.
    `retell` gives what came back to a recorded call (the second) in the form in which another one asks for it, `spell`
    what a tool gave as what comes back over a wire, like what was recorded there; each None where it cannot.
    """

    model: ServeMode = "strict"
    tools: ServeMode = "strict"
    other: ServeMode = "strict"
    fixtures: CaseFixtures | None = None
    meaning: Meaning | None = None
    retell: Callable[[Call, Call, Outcome], Outcome | None] | None = None
    spell: Callable[[Call, Outcome, Outcome | None], Outcome | None] | None = None
    tolerances: TolerancePolicy | None = None

    def way(self, sort: Sort) -> ServeMode:
        """How calls of a sort are served."""
        ways: dict[Sort, ServeMode] = {"model": self.model, "tools": self.tools, "other": self.other}
        return ways[sort]

    @property
    def strict(self) -> bool:
        """Whether nothing is answered but the recorded calls."""
        return all(self.way(sort) == "strict" for sort in SORTS)


def sort_of(call: Call, reader: Reader) -> Sort:
    """Whether a model is asked, or a tool (over a wire too, and a retrieval of this process), or anything else."""
    if is_model(call, reader):
        return "model"
    return "tools" if function_of(call, reader) is not None else "other"
