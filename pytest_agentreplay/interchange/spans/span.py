"""The nouns of a span tree: spans and events, whatever file they were in. Names of attributes are left as they were."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.dialects.lenient import string
from pytest_agentreplay.interchange.trace import TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject


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
