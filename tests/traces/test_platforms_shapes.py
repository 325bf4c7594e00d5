"""The other shapes in which platforms give the same run: what is ingested, fetched, listed in tables, of older schemas."""

from __future__ import annotations

import base64
import json

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.trace import UNKNOWN
from tests.support.exchanges import chat_use
from tests.traces.neutral import DONE, asks, imported, one, read, refund_facts, rows_of, text

MLFLOW = "mlflow/trace_to_json.json"
OPIK = "opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json"
BRAINTRUST = "braintrust/project_logs_events.jsonl"
WEAVE = "weave/calls.jsonl"
GALILEO = "galileo/trace_schema_dump.json"
AGENTS = "openai-agents/chatmodel_trace_processor_export.jsonl"


def same(file, *rows):
    trace = one(*rows)
    assert refund_facts(trace) == refund_facts(imported(f"generated/{file}")[0])
    return trace


def but(row, *names):
    return {name: value for name, value in row.items() if name not in names}


def of(row, *names):
    return {name: row[name] for name in names}


def test_mlflow_tables_hold_several_runs():
    (trace,) = rows_of(MLFLOW)
    other = json.loads(json.dumps(trace).replace("tr-8448", "tr-9559"))
    other["data"]["spans"][0]["name"] = other["info"]["tags"]["mlflow.traceName"] = "another"
    rows = [{"trace_id": one["info"]["trace_id"], "trace": json.dumps(one), "request": "{}"} for one in (trace, other)]
    found = [(run.id[:7], run.name, len(run.steps)) for run in read(*rows)]
    assert found == [("tr-8448", "refund-agent", 5), ("tr-9559", "another", 5)]


def test_mlflow_of_schema_2_is_the_same_run():
    (trace,) = rows_of(MLFLOW)
    info = trace["info"]
    times = {"timestamp_ms": 1795182184328, "execution_time_ms": 400, "status": "OK"}
    notes = info["trace_metadata"] | {"mlflow.trace_schema.version": "2"}
    ids = {"request_id": info["trace_id"], "experiment_id": "1"}
    trace["info"] = ids | times | {"request_metadata": notes, "tags": info["tags"]}
    for span in trace["data"]["spans"]:
        own, parent = (base64.b64decode(span.pop(name) or b"").hex() for name in ("span_id", "parent_span_id"))
        span["context"] = {"span_id": f"0x{own}", "trace_id": span.pop("trace_id")}
        span["parent_id"] = f"0x{parent}" if parent else None
        span["start_time"], span["end_time"] = span.pop("start_time_unix_nano"), span.pop("end_time_unix_nano")
        span["status_code"] = span["status"]["code"].removeprefix("STATUS_CODE_")
        span["status_message"] = span.pop("status")["message"]
    assert same(MLFLOW, trace).source.version == "2"


def test_mlflow_tells_a_fault_by_its_status_where_no_event_does_and_is_refused_without_its_spans():
    (trace,) = rows_of(MLFLOW)
    for span in trace["data"]["spans"]:
        span["events"] = []
    (fault,) = one(trace).faults
    assert (fault.type, fault.message) == ("RefundError", "amount 45990 exceeds order total 4599 for A-1001")
    with pytest.raises(TraceIncomplete, match="include_spans"):
        read(trace | {"data": {"spans": []}})


def ends(call):
    """A call of Weave as it is sent: its end, which may come first, and its start."""
    late = ("ended_at", "output", "exception", "summary")
    end, start = {"end": of(call, "id", *late)}, {"start": but(call, *late)}
    return [{"mode": "end", "req": end}, {"mode": "start", "req": start}]


def queried(rows):
    return [{"data": [row | {"metadata": json.dumps(row["metadata"])} for row in rows]}]


def redacted(traces):
    for span in traces[0]["spans"][0]["spans"]:
        for side in ("input", "output"):
            span[f"redacted_{side}"], span[side] = span[side], None
    return traces


INGEST = "/v1/traces/ingest"
SHAPES = {
    "braintrust, fetched": (BRAINTRUST, lambda rows: [{"events": rows, "cursor": None}]),
    "braintrust, sent": (BRAINTRUST, lambda rows: [{"rows": rows, "api_version": 2}]),
    "braintrust, queried": (BRAINTRUST, queried),
    "braintrust, merges first": (BRAINTRUST, lambda _: rows_of("braintrust/logs3_ingest_bodies.json")[0][::-1]),
    "weave, complete": (WEAVE, lambda calls: [{"batch": calls}]),
    "weave, sent": (WEAVE, lambda calls: [{"path": "/v2/x/y/calls/complete", "body": {"batch": calls}}]),
    "weave, starts and ends": (WEAVE, lambda calls: [part for call in calls for part in ends(call)]),
    "agents, sent": (AGENTS, lambda rows: [{"data": rows}]),
    "agents, a request each": (AGENTS, lambda rows: [{"path": INGEST, "body": {"data": [row]}} for row in rows]),
    "galileo, redacted": (GALILEO, redacted),
    "galileo, a list of redacted": (GALILEO, lambda traces: [{"traces": redacted(traces)}]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_in_any_envelope_are_the_same_run(shape):
    file, wrapped = SHAPES[shape]
    same(file, *wrapped(rows_of(file)))


def test_opik_ingested_in_batches_is_the_same_run():
    (whole,) = rows_of(OPIK)
    trace = {name: value for name, value in whole["trace"].items() if value is not None}
    late = ("end_time", "output", "usage", "error_info")
    begun = [span | dict.fromkeys(late) for span in whole["spans"]]
    requests = [
        {"method": "POST", "path": "/v1/private/traces/batch", "body": {"traces": [trace]}},
        {"method": "POST", "path": "/v1/private/spans/batch", "body": {"spans": begun}},
    ]
    for span in whole["spans"]:
        ended = {name: span[name] for name in ("trace_id", *late, "metadata") if span[name] is not None}
        requests.append({"method": "PATCH", "path": f"/v1/private/spans/{span['id']}", "body": ended})
    same(OPIK, *requests)
    same(OPIK, requests)


def test_weave_references_are_refused_in_a_model_call_and_missing_in_a_tool():
    calls = rows_of(WEAVE)
    plain = 'Traceback (most recent call last):\n  File "x"\nshop.RefundError: no\n'
    trace = one(*(call | {"exception": call["exception"] and plain} for call in calls))
    assert [(fault.type, fault.message) for fault in trace.faults] == [("RefundError", "no")]
    tool = next(call for call in calls if "lookup_order" in call["op_name"])
    tool["output"] = "weave:///demo-org/acme/object/order:abc"
    run = one(*calls).tool_runs[0]
    assert (run.result, run.seen["total_cents"]) == (UNKNOWN, 4599)
    model = next(call for call in calls if "openai" in call["op_name"])
    model["inputs"]["messages"] = "weave:///demo-org/acme/object/messages:abc"
    with pytest.raises(TraceIncomplete, match="expand_columns"):
        read(*calls)


def test_agents_responses_with_messages_are_whole():
    asked = [{"role": "user", "content": "Refund A-1001"}]
    call = {"type": "function_call", "call_id": "call_1", "name": "lookup_order", "arguments": '{"order_id": "A-1001"}'}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": DONE}]}
    onward = [*asked, call, {"type": "function_call_output", "call_id": "call_1", "output": "shipped"}]
    turns = iter([(asked, call), (onward, said), (onward, said)])
    rows = rows_of("openai-agents/trace_processor_export.jsonl")
    for data in (row.get("span_data", {}) for row in rows):
        if data.get("type") == "response":
            data["input"], told = next(turns)
            data["response"] = {"object": "response", "id": data["response_id"], "model": "m-1", "output": [told]}
    trace = one(*rows)
    assert (trace.output, trace.tool_runs[0].seen) == (DONE, "shipped")
    assert [(call.dialect, call.model) for call in trace.model_calls] == [("openai_responses", "m-1")] * 3


ASKED = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
ASKS = {"role": "assistant", "content": None, "tool_calls": [chat_use("c", "look", "{}")]}


def recorded(platform, asked, told, **more):
    """The trace of one model call in the form of a platform."""
    begun, ended = "2026-11-20T13:40:20Z", "2026-11-20T13:40:21Z"
    ids = {"id": "s", "trace_id": "t", "name": "chat"}
    times = {"start_time": begun, "end_time": ended}
    noted = {
        f"mlflow.span{name}": json.dumps(it) for name, it in [("Type", "LLM"), ("Inputs", asked), ("Outputs", told)]
    }
    data = {"type": "generation", "input": asked, "output": told, "model_config": more}
    both = {"input": asked, "output": told}
    seen = {"created_at": begun, "type": "llm", **both}
    rows = {
        "opik": ids | times | both | {"type": "llm", "metadata": more},
        "langsmith": ids | times | {"run_type": "llm", "inputs": {"messages": asked, **more}, "outputs": {"output": told}},
        "langfuse": ids | both | {"traceId": "t", "type": "GENERATION", "startTime": begun, "modelParameters": more},
        "braintrust": {"span_id": "s", "root_span_id": "s", "span_attributes": {"type": "llm"}, "metadata": more, **both},
        "weave": ids | {"op_name": "weave:///a/b/op/openai.chat.completions.create:x", "started_at": begun,
                        "inputs": {"messages": asked, **more}, "output": told},
        "agents": ids | {"object": "trace.span", "started_at": begun, "span_data": data},
        "mlflow": {"info": {"trace_id": "tr-1"}, "data": {"spans": [{"span_id": "s", "attributes": noted}]}},
        "galileo": {"type": "trace", "id": "t", "spans": [{"id": "s", **seen}]},
    }  # fmt: skip
    tool = {"opik": ids | times | {"id": "x", "type": "tool", "input": {}, "output": 1}}
    return one(rows[platform], *([tool[platform]] if platform in tool else ()))


PLATFORMS = ["opik", "langsmith", "langfuse", "braintrust", "weave", "agents", "mlflow", "galileo"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_messages_as_the_text_of_json_are_messages_wherever_they_are(platform):
    (call,) = recorded(platform, json.dumps(ASKED), json.dumps(ASKS)).model_calls
    assert call.messages == (text("system", "be kind"), text("user", "hi"))
    assert call.reply["parts"] == [{"type": "tool_call", "id": "c", "name": "look", "arguments": {}}]


PRINTED = [
    (str(ASKED), str(ASKS)),
    ("[HumanMessage(content='hi', additional_kwargs={})]", "content='' additional_kwargs={'tool_calls': []}"),
    (str({"messages": ASKED}), "ChatCompletion(id='c1', choices=[Choice(finish_reason='stop')])"),
]


@pytest.mark.parametrize(("asked", "told"), PRINTED)
def test_messages_as_python_prints_them_are_unreadable_and_missing(asked, told):
    trace = recorded("opik", asked, told)
    assert [(call.messages, call.reply) for call in trace.model_calls] == [((), None)]
    assert trace.missing == ("messages of model call 1",)
    assert recorded("opik", ASKED, told).missing == ("reply of model call 1",)
    assert any("what Python prints of objects" in loss for loss in trace.losses)


@pytest.mark.parametrize(
    "words", ['{"role": "admin", "name": "Bo"}', "{'role': 'admin', 'name': 'Bo'}", "Message sent"]
)
def test_words_that_look_like_messages_stay_words(words):
    (call,) = recorded("opik", words, words).model_calls
    assert (call.messages, call.reply["parts"]) == ((text("user", words),), text("assistant", words)["parts"])


MARKS = ["NOT_GIVEN", "NotGiven()", "<openai.NotGiven object at 0x7f0a>", "<anthropic.Omit object>", "Omit()"]


@pytest.mark.parametrize("mark", MARKS)
def test_what_a_client_prints_of_an_argument_that_was_not_given_is_no_value(mark):
    for platform in ("opik", "langsmith", "langfuse", "weave", "agents"):
        (call,) = recorded(platform, ASKED, ASKS, seed=7, stop=mark, response_format={"type": mark}).model_calls
        assert {**call.parameters, "response_format": {}} == {"seed": 7, "response_format": {}}
    assert wire.without_absent({"stop": "Omit", "user": f"say {mark}"}) == {"stop": "Omit", "user": f"say {mark}"}


def test_opik_keeps_the_reply_of_anthropic_without_its_role():
    blocks = [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "t1", "name": "look", "input": {"x": 1}}]
    noted = {"type": "message", "role": "assistant", "max_tokens": 9, "base_url": "http://127.0.0.1"}
    trace = recorded("opik", {"messages": ASKED[1:], "system": "be kind"}, {"content": blocks}, **noted)
    (call,) = trace.model_calls
    assert call.reply["parts"] == asks(("t1", "look", {"x": 1}), words="I look.")["parts"]
    assert call.parameters == {"system": "be kind", "max_tokens": 9}


# Two calls of one tool in one turn: each keeps its own result, though both have one name.


def compare(span):
    cities = [("call_a", "Oslo", 9), ("call_b", "Kraków", 18)]
    calls = [chat_use(known, "get_weather", json.dumps({"city": city})) for known, city, _ in cities]
    asked = [{"role": "user", "content": "Which is warmer?"}]
    turn = {"role": "assistant", "content": None, "tool_calls": calls}
    answers = [{"role": "tool", "tool_call_id": known, "content": str(degrees)} for known, _, degrees in cities]
    return [
        span("llm", 1, asked, turn),
        *(span("tool", 3 - at, {"city": city}, degrees, "get_weather") for at, (_, city, degrees) in enumerate(cities)),
        span("llm", 4, [*asked, turn, *answers], {"role": "assistant", "content": "Kraków"}),
    ]


def opik(kind, at, given, told, name="ChatOpenAI"):
    ids = {"id": f"p{at}", "trace_id": "t", "type": kind, "name": name, "start_time": f"2026-11-20 13:40:2{at}+00:00"}
    if kind == "tool":
        return ids | {"input": {"input_str": "?", **given}, "output": {"output": told}}
    about = {"model_name": "gpt-5-1", "system_fingerprint": "fp_1", "finish_reason": "stop", "id": f"chatcmpl-{at}"}
    calls = {"additional_kwargs": {"tool_calls": told.get("tool_calls", [])}, "response_metadata": about}
    message = {"type": "ai", "content": told.get("content") or "", **calls}
    return ids | {"input": {"messages": [given]}, "output": {"generations": [[{"text": "", "message": message}]]}}


def mlflow(kind, at, given, told, name="ChatOpenAI"):
    row = opik(kind, at, given, told, name)
    if kind == "llm":
        held = {"Type": "CHAT_MODEL", "Inputs": row["input"]["messages"], "Outputs": row["output"]}
    else:
        held = {"Type": "TOOL", "Inputs": given, "Outputs": told}
    attributes = {f"mlflow.span{key}": json.dumps(value) for key, value in held.items()}
    times = {"start_time_unix_nano": 10**18 + at, "end_time_unix_nano": 10**18 + at}
    return {"span_id": row["id"], "parent_id": None, "name": name, "attributes": attributes} | times


@pytest.mark.parametrize("span", [opik, mlflow])
def test_langchain_is_read_wherever_its_callbacks_write(span):
    rows = compare(span)
    trace = one(*rows) if span is opik else one({"info": {"trace_id": "tr-1"}, "data": {"spans": rows}})
    told = {run.call_id: (run.arguments["city"], run.seen, run.result) for run in trace.tool_runs}
    assert {known: seen for known, (_, seen, _) in told.items()} == {"call_a": 9, "call_b": 18}
    assert span is opik or told == {"call_a": ("Oslo", 9, 9), "call_b": ("Kraków", 18, 18)}
    assert (trace.output, trace.missing) == ("Kraków", ())
    for call in trace.model_calls:
        assert (call.response_model, call.fingerprint, call.finish_reasons) == ("gpt-5-1", "fp_1", ("stop",))
        assert call.response_id.startswith("chatcmpl-")


@pytest.mark.parametrize("given", [{"input_str": "{'city': 'Oslo'}"}, {"input_str": "?", "city": "Oslo"}])
def test_what_langchain_calls_the_input_of_a_tool_is_its_arguments(given):
    rows = [opik(kind, at, asked, told, name) for kind, at, asked, told, name in [
        ("llm", 1, {"role": "user", "content": "Warm?"}, {"content": "Yes"}, "ChatOpenAI"),
        ("tool", 2, {}, "9", "get_weather"),
    ]]  # fmt: skip
    rows[1]["input"] = given
    assert one(*rows).tool_runs[0].arguments == {"city": "Oslo"}
