"""What a family of attributes is: how an instrumentation says that a span is a model call, a tool, an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.model import Json
    from pytest_agentreplay.interchange.spans.span import Span
    from pytest_agentreplay.interchange.trace import ModelCall, ToolRun

Kind: TypeAlias = Literal["model", "tool", "agent", "chain", "other", ""]
"""What a span is: "chain" stands around others and is no agent, "other" is known and no step, "" not of the family."""


@dataclass(frozen=True, slots=True)
class Family:
    """One way to name things. None of the functions raises, whatever stands in the attributes.

    `kind` says what a span is, `model_call` and `tool_run` read one, `ends` gives what went into an agent and came out,
    None unknown. `losses` are the sentences on what no source of this family holds.
    """

    name: str
    kind: Callable[[Span], Kind]
    model_call: Callable[[Span], ModelCall]
    tool_run: Callable[[Span], ToolRun]
    ends: Callable[[Span], tuple[Json, Json]]
    losses: tuple[str, ...] = ()


def placed(span: Span) -> dict[str, Any]:
    """The fields of a step that every span tells."""
    return {"started": span.started, "ended": span.ended, "id": span.id, "parent": span.parent, "fault": span.fault}
