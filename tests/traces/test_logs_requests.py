"""Logs of requests and replies: the ways in which programs and gateways write such rows, and what each leaves out."""

import json

import pytest

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.traces.reading import traces
from tests.traces.neutral import TRACES, lines, one, read, rows_of, tools

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Where is A-1?"}]}
STREAMED = ASKED | {"stream": True}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "On its way"}, "finish_reason": "stop"}
REPLY = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-1", "choices": [CHOICE]}


def chunk(delta, **more):
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, **more}]}


def row(response, request=ASKED, **more):
    return {"request": request, "response": response, **more}


PAIR = row(REPLY)
CHUNKS = [chunk({"role": "assistant", "content": "On its "}), chunk({"content": "way"}, finish_reason="stop")]
STREAM = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"
URL = {"method": "POST", "url": "/v1/chat/completions"}
ROWS = {
    "plain": PAIR,
    "texts": row(json.dumps(REPLY), json.dumps(ASKED)),
    "wrapped": row({"status": 200, "body": REPLY}, URL | {"body": ASKED}),
    "wrapped texts": row({"status_code": 200, "body": json.dumps(REPLY)}, {"body": json.dumps(ASKED)}),
    "kwargs": {"kwargs": ASKED, "response": REPLY},
    "short": {"req": ASKED, "res": REPLY},
    "bodies": {"request_body": ASKED, "response_body": REPLY},
    "input": {"input": ASKED, "output": REPLY},
    "chunks": row(CHUNKS, STREAMED),
    "events": row(STREAM, STREAMED),
    "litellm": ASKED | {"model_parameters": {"temperature": 0}, "response": REPLY},
    "a list": [PAIR],
    "data": {"data": [PAIR]},
    "calls": {"calls": [PAIR]},
}


@pytest.mark.parametrize("form", ROWS)
def test_one_call_however_a_row_is_written(form):
    trace = one(ROWS[form])
    (call,) = trace.model_calls
    assert (call.dialect, call.provider, call.model) == ("openai_chat", "openai", "m")
    assert (trace.input, trace.output, trace.source.format) == ("Where is A-1?", "On its way", "openai-chat-log")
    assert (call.finish_reasons, trace.missing) == (("stop",), ())


def test_what_a_row_says_of_the_run_is_kept_and_what_is_said_to_a_client_beside_the_body_is_not():
    about = {"tenant": "acme", "release": "3", "user_api_key": "hidden-4"}
    told = {"session_id": "conv-42", "user_id": "u-7", "tags": ["prod"], "metadata": about}
    beside = {"api_key": "hidden-1", "extra_headers": {"Authorization": "hidden-2"}, "base_url": "http://hidden-3"}
    kwargs = {"kwargs": {**ASKED, **beside, "extra_body": {"top_k": 3}}, "response": REPLY}
    trace = one(kwargs | told | {"timestamp": "2026-11-20T13:51:50Z", "latency_ms": 1500})
    assert (trace.session, trace.user, trace.tenant, trace.tags) == ("conv-42", "u-7", "acme", ("prod",))
    assert (trace.started, trace.ended) == (1795182710_000000000, 1795182711_500000000)
    assert trace.metadata["release"] == "3"
    assert json.loads(trace.model_calls[0].request.body.data) == {**ASKED, "top_k": 3}
    assert "hidden" not in repr(trace)


GATEWAY = {"status": "failure", "error_information": {"error_class": "RateLimitError", "error_message": "slow down"}}
FAILURES = {
    "an object": (row(None, error={"type": "RateLimitError", "message": "slow down"}), "RateLimitError", None),
    "a text": (row(None, error="slow down"), "", None),
    "its status": (row({"status": 429, "body": {"error": {"message": "slow down"}}}), "HTTP 429", 429),
    "a gateway's": (row({}, error_str="x") | GATEWAY, "RateLimitError", None),
    "its kind": (row({"error": {"type": "invalid_request_error", "message": "slow down"}}), None, 400),
    "its code": (row({"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}), None, 429),
    "neither": (row({"error": {"message": "slow down"}}), None, 500),
}


@pytest.mark.parametrize("form", FAILURES)
def test_a_call_that_failed_is_a_fault_and_an_error_without_its_status_has_that_of_its_kind(form):
    told, kind, status = FAILURES[form]
    trace = one(told, PAIR)
    first, second = trace.model_calls
    assert (first.reply, second.fault, trace.output) == (None, None, "On its way")
    assert kind in {None, first.fault.type}
    assert status in {None, first.status}
    assert "slow down" in first.fault.message


def test_a_log_of_many_runs_is_split_and_a_run_that_it_names_is_kept_together():
    second = ASKED | {"messages": [{"role": "user", "content": "Something else"}]}
    apart = read(PAIR, row(REPLY, second), {"level": "info", "msg": "hello"}, row({}, {}))
    (together,) = read(*(row(REPLY, asked, trace_id="t-1") for asked in (ASKED, second)))
    assert [run.input for run in apart] == ["Where is A-1?", "Something else"]
    assert "2 rows are no calls of a model and left out" in apart[0].losses
    assert (len(together.model_calls), together.id, together.source.id) == (2, "t-1", "t-1")
    with pytest.raises(TraceError):
        read(row({}, {"model": "m"}))


def said(text, kind="text"):
    return {"type": "message", "content": [{"type": kind, "text": text}]}


CONVERSE = {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 9}}
CONVERSED = {"output": {"message": {"content": [{"text": "yes"}]}}, "stopReason": "end_turn"}
HELLO = [{"role": "user", "content": "hi"}]
CANDIDATE = {"candidates": [{"content": {"parts": [{"text": "yes"}]}}], "modelVersion": "g"}
ITEMS = {"object": "response", "output": [said("yes", "output_text")]}
BODIES = {
    "gemini": ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, CANDIDATE, "model-log"),
    "bedrock": (CONVERSE, CONVERSED, "model-log"),
    "ollama_chat": (ASKED, {"message": {"role": "assistant", "content": "yes"}, "done": True}, "model-log"),
    "openai_responses": ({"model": "m", "input": "hi"}, ITEMS, "openai-responses-log"),
    "anthropic": ({"model": "m", "max_tokens": 9, "messages": HELLO}, said("yes"), "anthropic-log"),
}


@pytest.mark.parametrize("dialect", BODIES)
def test_the_dialect_is_seen_from_the_bodies(dialect):
    asked, answered, form = BODIES[dialect]
    trace = one(row(answered, asked))
    assert (trace.model_calls[0].dialect, trace.output, trace.source.format) == (dialect, "yes", form)


# Bedrock


BEDROCK = rows_of("_synthesised/bedrock_converse_invocation_log.jsonl")
ENVELOPES = {
    "events": {"events": [{"message": json.dumps(row), "timestamp": 1} for row in BEDROCK]},
    "logEvents": {"logEvents": [{"id": "1", "message": json.dumps(row)} for row in BEDROCK]},
    "query": {"results": [[{"field": "@message", "value": json.dumps(row)}] for row in BEDROCK]},
    "rows": [{"@timestamp": "x", "@message": json.dumps(row)} for row in BEDROCK],
    "parsed rows": [{"@timestamp": "x", "@message": row} for row in BEDROCK],
}


@pytest.mark.parametrize("envelope", ENVELOPES)
def test_bedrock_rows_in_the_envelopes_of_cloudwatch(envelope):
    trace = one(ENVELOPES[envelope])
    assert (trace.steps, trace.session, trace.user) == (one(*BEDROCK).steps, "conv-42", "u-7")


def bedrock(asked, told, operation="InvokeModel", **more):
    bodies = {"input": {"inputBodyJson": asked}, "output": {"outputBodyJson": told}}
    return {**BEDROCK[0], "operation": operation, **bodies, **more}


def test_the_frames_of_a_converse_stream_are_joined():
    started = {"toolUse": {"toolUseId": "t1", "name": "lookup_order"}}
    pieces = [{"toolUse": {"input": text}} for text in ('{"order_id": ', '"A-1001"}')]
    frames = [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockStart": {"start": started, "contentBlockIndex": 0}},
        *({"contentBlockDelta": {"delta": piece, "contentBlockIndex": 0}} for piece in pieces),
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": {"inputTokens": 120, "outputTokens": 21}}},
    ]
    trace = one(bedrock(BEDROCK[0]["input"]["inputBodyJson"], frames, "ConverseStream"))
    (call,) = trace.model_calls
    assert (call.stream, call.finish_reasons) == (True, ("tool_use",))
    assert call.usage == {"input_tokens": 120, "output_tokens": 21}
    assert [(run.name, run.arguments) for run in trace.tool_runs] == [("lookup_order", {"order_id": "A-1001"})]


CLAUDE = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": HELLO}
EVENTS = [
    {"type": "message_start", "message": {"id": "m1", "model": "c", "usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "yes"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
]


def test_bedrock_in_the_words_of_the_provider_even_without_what_it_demands():
    invoked = bedrock(CLAUDE, said("yes")), bedrock(CLAUDE, EVENTS, "InvokeModelWithResponseStream")
    for told, dialect in (*((told, "anthropic") for told in invoked), (bedrock(CONVERSE, CONVERSED), "bedrock")):
        trace = one(told)
        (call,) = trace.model_calls
        assert (call.dialect, call.provider, trace.output) == (dialect, "aws.bedrock", "yes")
        assert call.model == BEDROCK[0]["modelId"]
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "x"}}
    gave = {"type": "tool_result", "tool_use_id": "t1", "content": "scaled"}
    asked = [{"messages": [{"role": "user", "content": [one]}]} for one in ({"type": "text", "text": "scale it"}, gave)]
    told = (
        {"stop_reason": "tool_use", "content": [use]},
        {"stop_reason": "end_turn", "content": said("Done.")["content"]},
    )
    times = ("2026-06-26T10:00:00Z", "2026-06-26T10:00:01Z")
    rows = [bedrock(body, reply, timestamp=at) for body, reply, at in zip(asked, told, times, strict=True)]
    trace = one(*rows)
    assert tools(trace) == [("Bash", {"command": "x"}, "scaled")]
    assert (trace.output, {call.dialect for call in trace.model_calls}) == ("Done.", {"anthropic"})


def test_bedrock_calls_that_failed_or_whose_bodies_went_to_s3_are_told():
    (call,) = one({**BEDROCK[0], "errorCode": "ThrottlingException", "output": {}}).model_calls
    assert (call.fault.type, call.reply) == ("ThrottlingException", None)
    stored = {**BEDROCK[0], "input": {"inputBodyS3Path": "s3://logs/data/1_input.json.gz"}}
    with pytest.raises(TraceIncomplete, match="s3://logs/data"):
        read(stored)
    told = "1 rows hold no body (over 100 kB it is in S3) and are left out"
    assert told in one(*BEDROCK, stored).losses


# Other services


VERTEX = rows_of("_synthesised/vertex_request_response_bq_rows.jsonl")
HELICONE = rows_of("_synthesised/helicone_export.jsonl")


@pytest.mark.parametrize(
    ("row", "setting"),
    [
        (BEDROCK[0] | {"input": {}, "output": {}}, "textDataDeliveryEnabled"),
        (VERTEX[0] | {"full_request": None}, "schema v2"),
        (HELICONE[0] | {"request_body": None, "signed_body_url": "https://bodies.example/1"}, "--include-body"),
    ],
)
def test_rows_without_bodies_name_what_brings_them(row, setting):
    with pytest.raises(TraceIncomplete, match=setting):
        read(row)


def test_vertex_turns_that_were_not_sampled_leave_a_gap():
    trace = one(VERTEX[0], VERTEX[2], VERTEX[1] | {"full_request": None})
    assert "1 rows have no request and are left out" in trace.losses
    assert [run.name for run in trace.tool_runs] == ["lookup_order"]
    assert trace.missing == ("a call of the model before model call 2, which tells of it",)


def test_helicone_groups_by_session_and_path_and_the_key_of_promptlayer_ends_with_the_file():
    other = {"request_properties": {"Helicone-Session-Id": "conv-43"}}
    runs = read(*HELICONE, HELICONE[0] | other, HELICONE[0] | {"request_body": None})
    assert "1 rows have no body and are left out" in runs[0].losses
    assert [(run.session, len(run.model_calls)) for run in runs] == [("conv-42", 3), ("conv-43", 1)]
    rows = rows_of("promptlayer/track_request_bodies.jsonl")
    trace = one(*rows, {**rows[0], "kwargs": None})
    assert "1 rows are no calls of a model and left out" in trace.losses
    assert "pl_stub" not in repr([(call.request.body.data, call.response.body.data) for call in trace.model_calls])


BOTH = [("lookup_order", True), ("issue_refund", True)]


def test_stored_completions_with_their_messages_are_whole():
    (listed,) = rows_of("openai/stored_completions_list.shape.json")
    for completion, pair in zip(listed["data"], rows_of("openai/chat_completions_log.jsonl"), strict=True):
        completion["messages"] = {"object": "list", "data": pair["request"]["messages"]}
    trace = one(listed)
    assert [(run.name, run.executed) for run in trace.tool_runs] == BOTH
    assert (trace.user, trace.source.format) == ("u-7", "openai-stored")


def test_a_response_and_its_items_are_read_together_whichever_comes_first_and_in_either_order():
    told = rows_of("openai/responses_log.jsonl")[-1]["response"]
    items = (TRACES / "generated/openai/response_input_items.json").read_bytes()
    files = [("items.json", items), ("response.json", lines(told))]
    (trace,) = traces(files)
    assert traces(files[::-1]) == [trace]
    assert [(run.name, run.executed) for run in trace.tool_runs] == BOTH
    assert (len(trace.model_calls), str(trace.output)[:5]) == (3, "Done!")
    with pytest.raises(TraceIncomplete, match="input_items"):
        traces(files[1:])
    (listed,) = rows_of("openai/response_input_items.json")
    assert one(listed["data"]).steps == one(listed["data"][::-1]).steps


def test_the_table_of_a_session_and_messages_of_a_chat_alone_are_items_too():
    (items,) = rows_of("openai-agents/run_items_to_input_list.json")
    trace = one(*({"id": n, "session_id": "s", "message_data": json.dumps(item)} for n, item in enumerate(items)))
    assert (trace.session, len(trace.model_calls), len(trace.tool_runs)) == ("s", 3, 2)
    use = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"id": 1}'}}
    trace = one(
        {"role": "system", "content": "Be brief."},
        *ASKED["messages"],
        {"role": "assistant", "tool_calls": [use]},
        {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
        CHOICE["message"],
    )
    assert tools(trace) == [("look", {"id": 1}, "shipped")]
    assert (len(trace.model_calls), trace.output) == (2, "On its way")


def test_a_stream_that_was_cut_and_a_reply_of_which_its_words_alone_were_kept_are_told():
    cut = STREAM[: STREAM.index(f"data: {json.dumps(CHUNKS[1])}")]
    whole, half = (one(row(text)).model_calls[0] for text in (STREAM, cut))
    assert (whole.fault, half.fault.message) == (None, "the stream ends before the reply in it does")
    assert half.reply["parts"] == [{"type": "text", "content": "On its "}]
    words, printed = (one(row(text)) for text in ("On its way", "ChatCompletion(id='x', choices=[])"))
    assert (words.source.fidelity, words.missing, words.output) == ("semantic", (), "On its way")
    assert (printed.source.fidelity, printed.missing) == ("body-json", ("reply of model call 1",))
    assert printed.output is None
