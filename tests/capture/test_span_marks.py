from __future__ import annotations

from pytest_agentreplay.runs.capture.runs import mark_span


def test_the_current_span_gets_the_id_of_the_run():
    from opentelemetry.sdk.trace import TracerProvider

    mark_span("outside of any span")
    with TracerProvider().get_tracer("shop").start_as_current_span("request") as span:
        mark_span("9f0c")
    assert span.attributes == {"agentreplay.run_id": "9f0c"}
