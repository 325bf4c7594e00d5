"""Two records of one thing as one: a span that was exported twice, a step that two instrumentations saw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, ToolRun

if TYPE_CHECKING:
    from pytest_agentreplay.interchange.spans.span import Span
    from pytest_agentreplay.interchange.trace import Step


def merged(one: Span, other: Span) -> Span:
    """A span that was exported twice, first when it began."""
    first, last = (one, other) if (other.ended or 0) >= (one.ended or 0) else (other, one)
    return replace(last, attributes=first.attributes | last.attributes, events=last.events or first.events)


def same(outer: Step, inner: Step) -> bool:
    """Whether a step that is told inside of another is that step, seen by a second instrumentation."""
    if isinstance(outer, ModelCall):
        return isinstance(inner, ModelCall)
    return isinstance(inner, ToolRun) and (
        outer.name == inner.name or bool(outer.call_id and outer.call_id == inner.call_id)
    )


def richer(outer: Step, inner: Step) -> Step:
    """One step of two records of it: whichever says more, filled up by the other."""
    if isinstance(outer, ToolRun) and isinstance(inner, ToolRun):
        return replace(
            outer,
            call_id=outer.call_id or inner.call_id,
            arguments=inner.arguments if outer.arguments is None else outer.arguments,
            result=inner.result if outer.result == UNKNOWN else outer.result,
            fault=outer.fault or inner.fault,
        )
    assert isinstance(outer, ModelCall)
    assert isinstance(inner, ModelCall)
    first, second = (inner, outer) if _weight(inner) > _weight(outer) else (outer, inner)
    return fill_up(first, second)


def fill_up(call: ModelCall, other: ModelCall) -> ModelCall:
    """Return the call with what it lacks from the other."""
    lacking = [name for name in ModelCall.__dataclass_fields__ if not getattr(call, name)]
    filled: dict[str, Any] = {name: getattr(other, name) for name in lacking if getattr(other, name)}
    return replace(call, **filled)


def _weight(call: ModelCall) -> tuple[bool, int, bool]:
    return call.request is not None, len(call.messages), call.reply is not None
