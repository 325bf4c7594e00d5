"""The OpenTelemetry span around a call, when that library is loaded and a span is open."""

from __future__ import annotations

import sys


def span_here() -> dict[str, str]:
    """Trace id and span id as their standard writes them; empty when there is no span."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
