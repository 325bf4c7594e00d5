"""The way from a trace to the file of a run: the span that runs when a run begins says the run's id."""

from __future__ import annotations

import sys

RUN_ID = "agentreplay.run_id"


def mark_span(run_id: str) -> None:
    """Set the run's id on the current span of OpenTelemetry, where that is loaded."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        trace.get_current_span().set_attribute(RUN_ID, run_id)
