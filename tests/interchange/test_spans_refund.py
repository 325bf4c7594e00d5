"""One run, told by every instrumentation that writes spans: the same facts, but for what each of them loses."""

from __future__ import annotations

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from tests.interchange.neutral import REFUND, imported, refund_facts

OTEL = "generated/otel-genai/otlp_refund"
LEGACY = "generated/otel-genai-legacy-events/otlp"
NO_TAGS = {"tags": ()}
NOBODY = {"user": "", "session": "", "tenant": "", "tags": ()}
OLD = {"fingerprints": {""}, "tool_names": [[], [], []]}
LOGS_ALONE = {"name": "", "status": "", "faults": [None, None], "user": "", "tenant": "", "tags": ()}

LOST = {
    (f"{OTEL}_spanonly.jsonl",): NO_TAGS,
    (f"{OTEL}_noargs_spanonly.jsonl",): NO_TAGS,
    (f"{OTEL}_eventonly.jsonl", "generated/otel-genai/otlp_logs_refund_eventonly.jsonl"): NO_TAGS,
    ("generated/otel-genai/otlp_logs_refund_eventonly.jsonl",): LOGS_ALONE,
    (f"{LEGACY}_spans.json", f"{LEGACY}_logs_events.json"): NOBODY | OLD,
    (f"{LEGACY}_logs_events.json",): LOGS_ALONE
    | NOBODY
    | OLD
    | {"model": {""}, "response_model": {""}, "knobs": [{}] * 3, "usage": [(None, None)] * 3, "response_ids": False},
    ("generated/openinference/otlp_refund.jsonl",): {},
    ("generated/openinference/otlp_langchain_refund.json",): {
        "input": {"messages": [{"role": "user", "content": REFUND["input"]}]},
        "tenant": "",
        "tags": (),
        "fingerprints": {""},
        "response_ids": False,
        "knobs": [{"temperature": 0.2, "seed": 7}] * 3,  # LangChain calls the third one max_completion_tokens
    },
    ("generated/openllmetry/otlp_refund.jsonl",): NO_TAGS | {"knobs": [{"temperature": 0.2, "max_tokens": 256}] * 3},
    ("generated/langfuse/otlp_export.json",): {
        "model": {"gpt-4o-mini-2024-07-18"},
        "finish": [""] * 3,
        "fingerprints": {""},
        "response_ids": False,
    },
    ("generated/phoenix/rest_spans.json",): {},
    ("generated/_synthesised/appinsights_dependencies.json",): NO_TAGS | {"faults": [None, ""]},
}
"""Files that are given together -> what they say otherwise."""

FORMATS = {
    (f"{OTEL}_spanonly.jsonl",): ("otlp-genai", "semantic"),
    ("generated/openinference/otlp_refund.jsonl",): ("otlp-openinference", "body-json"),
    ("generated/openllmetry/otlp_refund.jsonl",): ("otlp-openllmetry", "semantic"),
    ("generated/langfuse/otlp_export.json",): ("otlp-langfuse", "semantic"),
    ("generated/phoenix/rest_spans.json",): ("phoenix-spans", "body-json"),
    ("generated/_synthesised/appinsights_dependencies.json",): ("appinsights", "semantic"),
}


@pytest.mark.parametrize("files", LOST, ids=" + ".join)
def test_every_source_tells_the_same_run(files):
    (trace,) = imported(*files)
    assert refund_facts(trace) == REFUND | LOST[files]
    assert trace.losses
    assert trace.started < trace.ended
    assert [step.started for step in trace.steps if step.started] == sorted(s.started for s in trace.steps if s.started)


@pytest.mark.parametrize("files", FORMATS, ids=" + ".join)
def test_a_trace_says_what_it_was_and_how_near(files):
    (trace,) = imported(*files)
    assert (trace.source.format, trace.source.fidelity) == FORMATS[files]
    assert trace.source.file == files[0]
    assert trace.source.id == trace.id


def test_the_exception_of_a_tool_is_kept_beside_what_the_model_saw():
    (trace,) = imported("generated/openinference/otlp_refund.jsonl")
    fault = trace.tool_runs[1].fault
    assert fault.type == "agent_common.RefundError"
    assert fault.traceback.startswith("Traceback")
    assert trace.tool_runs[1].replayable == {"error": "RefundError: amount 45990 exceeds order total 4599 for A-1001"}
    assert trace.faults == (fault,)
    assert trace.status == "ok", "an ok root does not mean success"


def test_whole_bodies_come_back_as_they_were():
    (trace,) = imported("generated/openinference/otlp_refund.jsonl")
    first = trace.model_calls[0]
    assert first.dialect == "openai_chat"
    assert b'"strict":true' in first.request.body.data.replace(b": ", b":")
    assert b'"system_fingerprint"' in first.response.body.data
    assert "Zoë".encode() in trace.model_calls[1].request.body.data


REFUSED = {
    (f"{OTEL}_noargs_nocontent.jsonl",): "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only",
    (f"{OTEL}_eventonly.jsonl",): "give the log records together with the spans",
    (f"{LEGACY}_spans.json",): "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true",
    ("generated/promptlayer/otlp_traces.json",): "/track-request",
    ("generated/phoenix/rest_traces.json",): "/v1/projects/PROJECT/spans",
}


@pytest.mark.parametrize("files", REFUSED, ids=" + ".join)
def test_what_nobody_captured_is_refused_with_what_to_set(files):
    with pytest.raises(TraceIncomplete) as refused:
        imported(*files)
    assert REFUSED[files] in str(refused.value)
    assert str(refused.value).startswith(files[0])
    assert "sk-stub" not in str(refused.value)
