"""The other shapes in which platforms give the same run: what is ingested, fetched, listed in tables, of older schemas."""

from __future__ import annotations

import base64
import copy
import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.reading import traces
from pytest_agentreplay.interchange.trace import UNKNOWN
from tests.interchange.neutral import DONE, TRACES, imported, refund_facts

MLFLOW = "generated/mlflow/trace_to_json.json"
OPIK = "generated/opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json"
BRAINTRUST = "generated/braintrust/project_logs_events.jsonl"
WEAVE = "generated/weave/calls.jsonl"
GALILEO = "generated/galileo/trace_schema_dump.json"
AGENTS = "generated/openai-agents/chatmodel_trace_processor_export.jsonl"
RESPONSES = "generated/openai-agents/trace_processor_export.jsonl"


def held(file):
    text = (TRACES / file).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if file.endswith(".jsonl") else json.loads(text)


def read_all(*rows):
    return traces([("trace.jsonl", "\n".join(map(json.dumps, rows)).encode())])


def same(file, *rows):
    (trace,) = read_all(*rows)
    assert refund_facts(trace) == refund_facts(imported(file)[0])
    return trace


def mlflow_row(trace):
    return {"trace_id": trace["info"]["trace_id"], "trace": json.dumps(trace), "request": "{}", "response": '"x"'}


def test_mlflow_tables_hold_several_runs():
    one = held(MLFLOW)
    other = json.loads(json.dumps(one).replace("tr-8448", "tr-9559"))
    other["data"]["spans"][0]["name"] = "another"
    other["info"]["tags"]["mlflow.traceName"] = "another"
    found = read_all(mlflow_row(one), mlflow_row(other))
    assert [(trace.id[:7], trace.name, len(trace.steps)) for trace in found] == [
        ("tr-8448", "refund-agent", 5),
        ("tr-9559", "another", 5),
    ]


def test_mlflow_of_schema_2_is_the_same_run():
    trace = copy.deepcopy(held(MLFLOW))
    info = trace["info"]
    notes = info.pop("trace_metadata") | {"mlflow.trace_schema.version": "2"}
    trace["info"] = {
        "request_id": info["trace_id"],
        "experiment_id": "1",
        "timestamp_ms": 1795182184328,
        "execution_time_ms": 400,
        "status": "OK",
        "request_metadata": notes,
        "tags": info["tags"],
    }
    for span in trace["data"]["spans"]:
        ids = {name: base64.b64decode(span[f"{name}_id"] or b"").hex() for name in ("span", "parent_span")}
        span["context"] = {"span_id": f"0x{ids['span']}", "trace_id": span.pop("trace_id")}
        span["parent_id"] = f"0x{ids['parent_span']}" if ids["parent_span"] else None
        span["start_time"], span["end_time"] = span.pop("start_time_unix_nano"), span.pop("end_time_unix_nano")
        span["status_code"] = span["status"]["code"].removeprefix("STATUS_CODE_")
        span["status_message"] = span.pop("status")["message"]
        del span["span_id"], span["parent_span_id"]
    assert same(MLFLOW, trace).source.version == "2"


def test_mlflow_without_its_spans_is_refused():
    trace = held(MLFLOW) | {"data": {"spans": []}}
    with pytest.raises(TraceIncomplete, match="include_spans"):
        read_all(trace)


@pytest.mark.parametrize("shape", [
    pytest.param(lambda rows: [{"events": rows, "cursor": None}], id="fetched"),
    pytest.param(lambda rows: [{"rows": rows, "api_version": 2}], id="sent"),
    pytest.param(lambda rows: [{"data": [{name: json.dumps(row[name]) if name == "metadata" else row[name] for name in row} for row in rows]}], id="queried"),
])  # fmt: skip
def test_braintrust_in_any_envelope_is_the_same_run(shape):
    same(BRAINTRUST, *shape(held(BRAINTRUST)))


def test_braintrust_merges_that_come_first_are_merged():
    bodies = held("generated/braintrust/logs3_ingest_bodies.json")
    same(BRAINTRUST, *reversed(bodies))


def test_opik_ingested_in_batches_is_the_same_run():
    whole = held(OPIK)
    trace = {name: value for name, value in whole["trace"].items() if value is not None}
    begun = [{**span, "end_time": None, "output": None, "usage": None, "error_info": None} for span in whole["spans"]]
    requests = [
        {"method": "POST", "path": "/v1/private/traces/batch", "body": {"traces": [trace]}},
        {"method": "POST", "path": "/v1/private/spans/batch", "body": {"spans": begun}},
        *(
            {
                "method": "PATCH",
                "path": f"/v1/private/spans/{span['id']}",
                "body": {
                    name: span[name]
                    for name in ("trace_id", "end_time", "output", "usage", "error_info", "metadata")
                    if span[name] is not None
                },
            }
            for span in whole["spans"]
        ),
    ]
    same(OPIK, *requests)
    same(OPIK, requests)


@pytest.mark.parametrize("shape", [
    pytest.param(lambda calls: [{"batch": calls}], id="complete"),
    pytest.param(lambda calls: [{"path": "/v2/x/y/calls/complete", "body": {"batch": calls}}], id="sent"),
    pytest.param(
        lambda calls: [
            part
            for call in calls
            for part in (
                {"mode": "end", "req": {"end": {name: call[name] for name in ("id", "ended_at", "output", "exception", "summary")}}},
                {"mode": "start", "req": {"start": {name: call[name] for name in call if name not in {"ended_at", "output", "exception", "summary"}}}},
            )
        ],
        id="starts and ends",
    ),
])  # fmt: skip
def test_weave_in_any_envelope_is_the_same_run(shape):
    same(WEAVE, *shape(held(WEAVE)))


def test_weave_tells_an_exception_in_plain_text_too():
    calls = held(WEAVE)
    for call in calls:
        if call["exception"]:
            call["exception"] = 'Traceback (most recent call last):\n  File "x"\nshop.RefundError: no\n'
    (trace,) = read_all(*calls)
    assert [(fault.type, fault.message) for fault in trace.faults] == [("RefundError", "no")]


def test_weave_references_are_refused_in_a_model_call_and_missing_in_a_tool():
    calls = held(WEAVE)
    tool = next(call for call in calls if "lookup_order" in call["op_name"])
    tool["output"] = "weave:///demo-org/acme/object/order:abc"
    (trace,) = read_all(*calls)
    assert trace.tool_runs[0].result == UNKNOWN
    assert trace.tool_runs[0].seen["total_cents"] == 4599
    model = next(call for call in calls if "openai" in call["op_name"])
    model["inputs"]["messages"] = "weave:///demo-org/acme/object/messages:abc"
    with pytest.raises(TraceIncomplete, match="expand_columns"):
        read_all(*calls)


def test_galileo_redacted_content_is_taken_where_there_is_no_other():
    trace = held(GALILEO)
    for span in trace["spans"][0]["spans"]:
        for side in ("input", "output"):
            span[f"redacted_{side}"], span[side] = span[side], None
    same(GALILEO, trace)
    same(GALILEO, {"traces": [trace]})


def test_agents_backend_body_is_the_same_run():
    rows = held(AGENTS)
    same(AGENTS, {"data": rows})
    same(AGENTS, *[{"path": "/v1/traces/ingest", "body": {"data": [row]}} for row in rows])


def test_agents_responses_with_messages_are_whole():
    rows = held(RESPONSES)
    asked = [{"role": "user", "content": "Refund A-1001"}]
    call = {"type": "function_call", "call_id": "call_1", "name": "lookup_order", "arguments": '{"order_id": "A-1001"}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": DONE}]}
    told = {"type": "function_call_output", "call_id": "call_1", "output": "shipped"}
    inputs = iter([asked, [*asked, call, told], [*asked, call, told]])
    outputs = iter([[call], [said], [said]])
    for row in rows:
        data = row.get("span_data", {})
        if data.get("type") == "response":
            data["input"] = next(inputs)
            data["response"] = {
                "object": "response",
                "id": data["response_id"],
                "model": "m-1",
                "output": next(outputs),
            }
    (trace,) = read_all(*rows)
    assert trace.output == DONE
    assert trace.tool_runs[0].seen == "shipped"
    assert {call.dialect for call in trace.model_calls} == {"openai_responses"}
    assert [call.model for call in trace.model_calls] == ["m-1"] * 3


def compare(span):
    """Two calls of one tool in one turn: each keeps its own result, though both have one name."""
    cities = [("call_a", "Oslo", 9), ("call_b", "Kraków", 18)]
    calls = [
        {"id": known, "type": "function", "function": {"name": "get_weather", "arguments": json.dumps({"city": city})}}
        for known, city, _ in cities
    ]
    asked = [{"role": "user", "content": "Which is warmer?"}]
    turn = {"role": "assistant", "content": None, "tool_calls": calls}
    answers = [{"role": "tool", "tool_call_id": known, "content": str(degrees)} for known, _, degrees in cities]
    return [
        span("llm", 1, asked, turn),
        *(span("tool", 3 - at, {"city": city}, degrees, "get_weather") for at, (_, city, degrees) in enumerate(cities)),
        span("llm", 4, [*asked, turn, *answers], {"role": "assistant", "content": "Kraków"}),
    ]


def braintrust(kind, at, given, told, name="Chat Completion"):
    output = [{"message": told, "finish_reason": "stop"}] if kind == "llm" else told
    return {
        "id": f"row-{at}",
        "span_id": f"s{at}",
        "root_span_id": "r",
        "span_parents": None,
        "input": given,
        "output": output,
        "metrics": {"start": 1795182239.0 + at},
        "metadata": {"model": "m-1"},
        "span_attributes": {"type": kind, "name": name},
    }


def langfuse(kind, at, given, told, name="chat"):
    return {
        "id": f"o{at}",
        "traceId": "t",
        "type": {"llm": "GENERATION", "tool": "TOOL"}[kind],
        "name": name,
        "startTime": f"2026-11-20T13:40:2{at}.000Z",
        "input": given,
        "output": told,
        "model": "gpt-5",
    }


def langsmith(kind, at, given, told, name="chat"):
    return {
        "id": f"r{at}",
        "trace_id": "t",
        "run_type": kind,
        "name": name,
        "start_time": f"2026-11-20T13:40:2{at}",
        "inputs": given if kind == "tool" else {"messages": given, "model": "gpt-5"},
        "outputs": {"output": told} if kind == "tool" else {"choices": [{"message": told}]},
    }


@pytest.mark.parametrize("span", [braintrust, langfuse, langsmith])
def test_parallel_calls_of_one_tool_keep_their_own_results(span):
    (trace,) = read_all(*compare(span))
    told = {run.call_id: (run.arguments, run.seen, run.result) for run in trace.tool_runs}
    assert told == {"call_a": ({"city": "Oslo"}, 9, 9), "call_b": ({"city": "Kraków"}, 18, 18)}
    assert trace.output == "Kraków"
    assert trace.missing == ()


def opik(kind, at, given, told, name="ChatOpenAI"):
    message = (
        {
            "type": "ai",
            "content": told.get("content") or "",
            "additional_kwargs": {"tool_calls": told.get("tool_calls", [])},
        }
        if kind == "llm"
        else {}
    )
    message["response_metadata"] = {
        "model_name": "gpt-5-1",
        "system_fingerprint": "fp_1",
        "finish_reason": "stop",
        "id": f"chatcmpl-{at}",
    }
    return {
        "id": f"p{at}",
        "trace_id": "t",
        "type": kind,
        "name": name,
        "start_time": f"2026-11-20 13:40:2{at}+00:00",
        "input": {"messages": [list(given)]} if kind == "llm" else {"input_str": "?", **given},
        "output": {"generations": [[{"text": "", "message": message}]]} if kind == "llm" else {"output": told},
    }


def mlflow(kind, at, given, told, name="ChatOpenAI"):
    row = opik(kind, at, given, told, name)
    span = {
        "span_id": row["id"],
        "parent_id": None,
        "name": name,
        "start_time_unix_nano": 10**18 + at,
        "end_time_unix_nano": 10**18 + at,
    }
    kinds = {"llm": "CHAT_MODEL", "tool": "TOOL"}
    held = {
        "mlflow.spanType": kinds[kind],
        "mlflow.spanInputs": row["input"]["messages"] if kind == "llm" else given,
        "mlflow.spanOutputs": row["output"] if kind == "llm" else told,
    }
    return {**span, "attributes": {key: json.dumps(value) for key, value in held.items()}}


@pytest.mark.parametrize("span", [opik, mlflow])
def test_langchain_is_read_wherever_its_callbacks_write(span):
    rows = compare(span)
    (trace,) = read_all(*rows) if span is opik else read_all({"info": {"trace_id": "tr-1"}, "data": {"spans": rows}})
    assert {run.call_id: run.seen for run in trace.tool_runs} == {"call_a": 9, "call_b": 18}
    assert trace.output == "Kraków"
    for call in trace.model_calls:
        assert (call.response_model, call.fingerprint, call.finish_reasons) == ("gpt-5-1", "fp_1", ("stop",))
        assert call.response_id.startswith("chatcmpl-")
