"""The nouns of a span tree: spans and events, whatever file they were in. Names of attributes are left as they were.

A family of attributes is how an instrumentation says that a span is a model call, a tool, an agent. A span
that was exported twice is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.providers.lenient import string
from pytest_agentreplay.traces.trace import TraceFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.trace import ModelCall, ToolRun


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """Something that happened in a span: an event of it, or a log record that names it."""

    name: str
    attributes: JsonObject = field(default_factory=dict)
    body: Json = None
    at: int | None = None
    trace: str = ""
    span: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span: ids are lower-case hex, `status` is "" where none was set, `scope` the library that made it."""

    id: str
    trace: str = ""
    parent: str = ""
    name: str = ""
    started: int | None = None
    ended: int | None = None
    status: Literal["ok", "error", ""] = ""
    message: str = ""
    attributes: JsonObject = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    resource: JsonObject = field(default_factory=dict)
    scope: str = ""
    version: str = ""

    @property
    def fault(self) -> TraceFault | None:
        """The error that the span ended with: its exception event, its status, and the attribute `error.type`."""
        raised = next((event.attributes for event in reversed(self.events) if event.name == "exception"), {})
        kind = string(raised.get("exception.type")) or string(self.attributes.get("error.type"))
        if self.status != "error" and not (kind and self.status == ""):
            return None
        message = string(raised.get("exception.message")) or self.message
        return TraceFault(kind, message, string(raised.get("exception.stacktrace")))


Kind: TypeAlias = Literal["model", "tool", "agent", "chain", "other", ""]
"""What a span is: "chain" stands around others and is no agent, "other" is known and no step, "" not of the family."""


@dataclass(frozen=True, slots=True)
class Family:
    """One way to name things. None of the functions raises, whatever stands in the attributes.

    `kind` says what a span is, `model_call` and `tool_run` read one, `ends` gives what went into an agent and came out,
    None unknown. `losses` are the sentences on what no source of this family holds.
    """

    kind: Callable[[Span], Kind]
    model_call: Callable[[Span], ModelCall]
    tool_run: Callable[[Span], ToolRun]
    ends: Callable[[Span], tuple[Json, Json]]
    losses: tuple[str, ...] = ()


def read_step_fields(span: Span) -> dict[str, Any]:
    """Return the fields of a step that every span has."""
    return {"started": span.started, "ended": span.ended, "id": span.id, "parent": span.parent, "fault": span.fault}


def merge_exports(span: Span, other: Span) -> Span:
    """Return one span of two exports of it, the first of which was made when it began."""
    first, last = (span, other) if (other.ended or 0) >= (span.ended or 0) else (other, span)
    return replace(last, attributes=first.attributes | last.attributes, events=last.events or first.events)
