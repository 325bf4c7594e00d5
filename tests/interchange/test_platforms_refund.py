"""The refund run as eight platforms keep it, by what each of them loses; and four runs of Langfuse's own examples."""

from __future__ import annotations

import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange import platforms
from pytest_agentreplay.interchange.reading import traces
from pytest_agentreplay.interchange.trace import UNKNOWN
from tests.interchange.neutral import ASKED, DONE, ORDER, REFUND, SYSTEM, TRACES, imported, refund_facts

QUESTION = {"input": {"question": ASKED}}
STATE = {"input": {"messages": [{"role": "user", "content": ASKED}]}}
NO_TAGS = {"tags": ()}
NO_FINGERPRINT = {"fingerprints": {""}}
NO_IDS = NO_FINGERPRINT | {"response_ids": False}
ANSWERED = {"model": {"gpt-4o-mini-2024-07-18"}}
HIDDEN = "An error occurred while running the tool. Please try again."

LOST = {
    "generated/langsmith/runs_export.jsonl": QUESTION,
    "generated/langsmith/ingest_requests.jsonl": QUESTION,
    "generated/langsmith/langchain_agent_batch.jsonl": STATE | {"knobs": [{"temperature": 0.2, "seed": 7}] * 3},
    "generated/mlflow/trace_to_json.json": QUESTION | NO_TAGS,
    "generated/mlflow/trace_to_dict.json": QUESTION | NO_TAGS,
    "generated/opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json": QUESTION | ANSWERED,
    "generated/braintrust/project_logs_events.jsonl": NO_IDS | {"response_model": {""}},
    "generated/braintrust/logs3_ingest_bodies.json": NO_IDS | {"response_model": {""}},
    "generated/weave/calls.jsonl": QUESTION | NO_TAGS,
    "generated/galileo/trace_schema_dump.json": NO_IDS
    | ANSWERED
    | {"knobs": [{"temperature": 0.2}] * 3, "tenant": "", "status": ""},
    "generated/openai-agents/chatmodel_trace_processor_export.jsonl": NO_TAGS
    | NO_IDS
    | {"name": "refund-workflow", "response_model": {""}, "knobs": [{}] * 3, "finish": [""] * 3, "tool_names": [[]] * 3}
    | {
        "asked": [
            [("system", SYSTEM), ("user", ASKED)],
            REFUND["asked"][1],
            [REFUND["asked"][2][0], ("result", HIDDEN)],
        ],
        "seen": [ORDER, HIDDEN],
        "faults": [None, "Error running tool (non-fatal): Tool execution failed. Error details are redacted."],
    },
}
"""Files, and what they say otherwise."""

WHOLE = ("generated/langsmith/runs", "generated/langsmith/ingest", "generated/mlflow", "generated/weave")
CLASSLESS = ("generated/openai-agents",)
NO_TRACEBACK = (*CLASSLESS, "generated/galileo", "generated/langsmith/langchain")


@pytest.mark.parametrize("file", LOST)
def test_every_platform_tells_the_same_run(file):
    (trace,) = imported(file)
    assert refund_facts(trace) == REFUND | LOST[file]
    assert trace.losses
    assert trace.source.file == file
    assert trace.source.fidelity == ("body-json" if file.startswith(WHOLE) else "semantic")
    assert trace.status in {"ok", ""}, "the root is fine; the run is not"


@pytest.mark.parametrize("file", LOST)
def test_the_exception_of_the_tool_is_kept_beside_what_the_model_was_told(file):
    (trace,) = imported(file)
    fault = trace.tool_runs[1].fault
    assert fault.type == ("" if file.startswith(CLASSLESS) else "RefundError")
    assert bool(fault.traceback) is not file.startswith(NO_TRACEBACK)
    assert trace.faults == (fault,)


@pytest.mark.parametrize("file", [file for file in LOST if file.startswith(WHOLE)])
def test_whole_bodies_are_kept_as_json(file):
    (trace,) = imported(file)
    first, last = trace.model_calls[0], trace.model_calls[-1]
    body = json.loads(first.request.body.data)
    assert body["tools"][0]["function"]["strict"] is True
    assert set(body) == {"messages", "model", "tools", "temperature", "max_tokens", "seed"}
    reply = json.loads(last.response.body.data)
    assert reply["choices"][0]["message"]["content"] == DONE
    assert reply["usage"]["prompt_tokens"] == 200
    assert "usage_metadata" not in reply
    assert "request_id" not in reply


@pytest.mark.parametrize("file", [file for file in LOST if not file.startswith("generated/openai-agents")])
@pytest.mark.parametrize("turn", [reversed, lambda rows: rows[1::2] + rows[::2]], ids=["backwards", "odd first"])
def test_the_order_of_the_rows_does_not_matter(file, turn):
    lines = (TRACES / file).read_bytes().splitlines()
    shuffled = b"\n".join(turn(lines)) if file.endswith(".jsonl") else (TRACES / file).read_bytes()
    (trace,) = traces([(file, shuffled)])
    assert refund_facts(trace) == REFUND | LOST[file]


def test_responses_without_messages_are_refused_with_what_to_export():
    with pytest.raises(TraceIncomplete) as refused:
        imported("generated/openai-agents/trace_processor_export.jsonl")
    assert "span_data.response.model_dump()" in str(refused.value)
    assert "/v1/responses/{id}" in str(refused.value)


def test_what_the_environment_was_stays_out():
    for file in LOST:
        (trace,) = imported(file)
        told = repr((trace.metadata, trace.tags, trace.losses, trace.source))
        assert "LANGSMITH" not in told
        assert "127.0.0.1" not in told
        assert "stub" not in told


WEATHER = "The weather in Tokyo"
LANGFUSE = {
    "langgraph-python-2025-08-22": {
        "tools": [("Web-Search", {"query": "example"}, "call_1oGK863sxQHlPreFhDdEs3yl")],
        "results": [[{"url": "https://example.com", "title": "Example Result", "q": "example"}]],
        "order": ["model", "Web-Search", "model"],
        "dialects": {"openai_chat"},
        "output": 'The search for "example"',
        "session": "demo-thread-1",
        "declared": ["Web-Search"],
    },
    "microsoft-agent-2025-12-17": {
        "tools": [("get_weather", {"location": "Tokyo, Japan"}, "call_CwaJHuXTm9dmHFQPlVbqyzJ0")],
        "results": [f"{WEATHER}, Japan is stormy with a high of 23°C."],
        "order": ["model", "get_weather", "model"],
        "dialects": {"openai_responses"},
        "output": "Current conditions in Tokyo, Japan: stormy, high around 23°C.",
        "session": "",
        "declared": ["get_weather"],
    },
    "openai-agents-2025-09-30": {
        "tools": [("get_weather", {"city": "Tokyo"}, "call_Kud0j0DxWSmLzv9W5m6qVqXn")],
        "results": [f"{WEATHER} is sunny."],
        "order": ["model", "get_weather", "model"],
        "dialects": {"openai_responses"},
        "output": f"{WEATHER} is currently sunny.",
        "session": "",
        "declared": ["get_weather"],
    },
    "vertex-ai-2025-08-01": {
        "tools": [],
        "results": [],
        "order": ["model"],
        "dialects": {"gemini"},
        "session": "",
        "declared": [],
        "output": "**Langfuse** is an **open-source observability",
    },
}


@pytest.mark.parametrize("name", LANGFUSE)
def test_frameworks_are_read_behind_langfuse(name):
    (trace,) = imported(f"public/langfuse/{name}.trace.json")
    true = LANGFUSE[name]
    runs = trace.tool_runs
    assert [(run.name, run.arguments, run.call_id) for run in runs] == true["tools"]
    assert [run.seen for run in runs] == [run.result for run in runs] == true["results"]
    assert all(run.executed and run.fault is None for run in runs)
    assert [getattr(step, "name", "model") for step in trace.steps] == true["order"]
    assert {call.dialect for call in trace.model_calls} == true["dialects"]
    assert trace.output.startswith(true["output"])
    assert trace.session == true["session"]
    assert [tool["name"] for tool in trace.model_calls[0].tools] == true["declared"]
    assert trace.status == "ok"
    assert trace.missing == ()
    assert trace.grades
    assert trace.source.format == "langfuse"


def test_a_public_key_of_a_tracer_is_no_metadata():
    (trace,) = imported("public/langfuse/langgraph-python-2025-08-22.trace.json")
    assert "KJGLKJGLJG" not in repr(trace)


def test_defaults_that_nobody_sent_are_dropped_and_told():
    (trace,) = imported("public/langfuse/openai-agents-2025-09-30.trace.json")
    assert trace.model_calls[0].parameters == {}
    assert any("top_p" in loss and "temperature" in loss for loss in trace.losses)


def test_every_platform_is_known_by_its_content_alone():
    ranks = [one.rank for one in platforms.FORMATS]
    assert ranks == sorted(set(ranks))
    for file in LOST:
        (trace,) = traces([("trace", (TRACES / file).read_bytes())])
        assert trace.source.format.split("-", maxsplit=1)[0] in file
        assert UNKNOWN not in [run.seen for run in trace.tool_runs]
