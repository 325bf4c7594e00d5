"""Logs of requests and replies: the ways in which programs and gateways write such rows, and what each leaves out."""

import json

import pytest

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.reading import traces
from tests.interchange.neutral import TRACES, lines, one, read, rows_of, tools

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Where is A-1?"}]}


def reply(message, finish="stop"):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-1", "choices": [choice]}


def chunk(delta, **more):
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, **more}]}


REPLY = reply({"content": "On its way"})
PAIR = {"request": ASKED, "response": REPLY}
CHUNKS = [chunk({"role": "assistant", "content": "On its "}), chunk({"content": "way"}, finish_reason="stop")]
STREAM = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"
ROWS = {
    "plain": PAIR,
    "texts": {"request": json.dumps(ASKED), "response": json.dumps(REPLY)},
    "wrapped": {
        "request": {"method": "POST", "url": "/v1/chat/completions", "body": ASKED},
        "response": {"status": 200, "body": REPLY},
    },
    "wrapped texts": {
        "request": {"body": json.dumps(ASKED)},
        "response": {"status_code": 200, "body": json.dumps(REPLY)},
    },
    "kwargs": {"kwargs": ASKED, "response": REPLY},
    "short": {"req": ASKED, "res": REPLY},
    "bodies": {"request_body": ASKED, "response_body": REPLY},
    "input": {"input": ASKED, "output": REPLY},
    "chunks": {"request": ASKED | {"stream": True}, "response": CHUNKS},
    "events": {"request": ASKED | {"stream": True}, "response": STREAM},
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


def test_what_a_row_says_of_the_run_is_kept():
    told = {"session_id": "conv-42", "user_id": "u-7", "tags": ["prod"], "metadata": {"tenant": "acme", "release": "3"}}
    trace = one(PAIR | told | {"timestamp": "2026-11-20T13:51:50Z", "latency_ms": 1500})
    assert (trace.session, trace.user, trace.tenant, trace.tags) == ("conv-42", "u-7", "acme", ("prod",))
    assert (trace.started, trace.ended) == (1795182710_000000000, 1795182711_500000000)
    assert trace.metadata["release"] == "3"


GATEWAY = {"error_class": "RateLimitError", "error_message": "slow down"}
FAILURES = {
    "an object": ({"response": None, "error": {"type": "RateLimitError", "message": "slow down"}}, "RateLimitError"),
    "a text": ({"response": None, "error": "slow down"}, ""),
    "its status": ({"response": {"status": 429, "body": {"error": {"message": "slow down"}}}}, "HTTP 429"),
    "a gateway's": (
        {"response": {}, "status": "failure", "error_information": GATEWAY, "error_str": "x"},
        "RateLimitError",
    ),
}


@pytest.mark.parametrize("form", FAILURES)
def test_a_call_that_failed_is_a_fault(form):
    told, kind = FAILURES[form]
    trace = one({"request": ASKED, **told}, PAIR)
    first, second = trace.model_calls
    assert (first.reply, second.fault, trace.output) == (None, None, "On its way")
    assert first.fault.type == kind
    assert "slow down" in first.fault.message


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"type": "invalid_request_error", "message": "no"}, 400),
        ({"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}, 429),
        ({"message": "no"}, 500),
    ],
)
def test_an_error_without_its_status_has_that_of_its_kind(error, status):
    assert one({"request": ASKED, "response": {"error": error}}).model_calls[0].status == status


def test_a_log_of_many_runs_is_split_and_a_run_that_it_names_is_kept_together():
    second = ASKED | {"messages": [{"role": "user", "content": "Something else"}]}
    apart = read(PAIR, {"request": second, "response": REPLY})
    (together,) = read(*({"request": asked, "response": REPLY, "trace_id": "t-1"} for asked in (ASKED, second)))
    assert [run.input for run in apart] == ["Where is A-1?", "Something else"]
    assert (len(together.model_calls), together.id, together.source.id) == (2, "t-1", "t-1")


def test_rows_that_are_no_calls_are_counted():
    trace = one(PAIR, {"level": "info", "msg": "hello"}, {"request": {}, "response": {}})
    assert "2 rows are no calls of a model and left out" in trace.losses
    with pytest.raises(TraceError):
        read({"request": {"model": "m"}, "response": {}})


def said(text, kind="text"):
    return {"type": "message", "content": [{"type": kind, "text": text}]}


CONVERSE = {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 9}}
CONVERSED = {"output": {"message": {"content": [{"text": "yes"}]}}, "stopReason": "end_turn"}
HELLO = [{"role": "user", "content": "hi"}]
BODIES = {
    "gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        {"candidates": [{"content": {"parts": [{"text": "yes"}]}}], "modelVersion": "g"},
        "model-log",
    ),
    "bedrock": (CONVERSE, CONVERSED, "model-log"),
    "ollama_chat": (ASKED, {"message": {"role": "assistant", "content": "yes"}, "done": True}, "model-log"),
    "openai_responses": (
        {"model": "m", "input": "hi"},
        {"object": "response", "output": [said("yes", "output_text")]},
        "openai-responses-log",
    ),
    "anthropic": ({"model": "m", "max_tokens": 9, "messages": HELLO}, said("yes"), "anthropic-log"),
}


@pytest.mark.parametrize("dialect", BODIES)
def test_the_dialect_is_seen_from_the_bodies(dialect):
    asked, answered, form = BODIES[dialect]
    trace = one({"request": asked, "response": answered})
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
    assert trace.steps == one(*BEDROCK).steps
    assert (trace.session, trace.user) == ("conv-42", "u-7")


def bedrock(asked, told, **more):
    """A row of another operation than Converse."""
    bodies = {"input": {"inputBodyJson": asked}, "output": {"outputBodyJson": told}}
    return {**BEDROCK[0], "operation": "InvokeModel", **bodies, **more}


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
    asked = BEDROCK[0]["input"]["inputBodyJson"]
    trace = one(bedrock(asked, frames, operation="ConverseStream"))
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


@pytest.mark.parametrize(
    ("operation", "asked", "told", "dialect"),
    [
        ("InvokeModel", CLAUDE, said("yes"), "anthropic"),
        ("InvokeModelWithResponseStream", CLAUDE, EVENTS, "anthropic"),
        ("InvokeModel", CONVERSE, CONVERSED, "bedrock"),
    ],
)
def test_bedrock_in_the_words_of_the_provider(operation, asked, told, dialect):
    trace = one(bedrock(asked, told, operation=operation))
    (call,) = trace.model_calls
    assert (call.dialect, call.provider, trace.output) == (dialect, "aws.bedrock", "yes")
    assert call.model == BEDROCK[0]["modelId"]


def test_bedrock_bodies_that_leave_out_what_anthropic_demands_and_the_history():
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "x"}}
    turns = [
        ([{"type": "text", "text": "scale it"}], "tool_use", use),
        (
            [{"type": "tool_result", "tool_use_id": "t1", "content": "scaled"}],
            *("end_turn", {"type": "text", "text": "Done."}),
        ),
    ]
    trace = one(
        *(
            bedrock(
                {"messages": [{"role": "user", "content": asked}]},
                {"stop_reason": stop, "content": [block]},
                timestamp=f"2026-06-26T10:00:0{at}Z",
            )
            for at, (asked, stop, block) in enumerate(turns)
        )
    )
    assert tools(trace) == [("Bash", {"command": "x"}, "scaled")]
    assert (trace.output, {call.dialect for call in trace.model_calls}) == ("Done.", {"anthropic"})


def test_a_bedrock_call_that_failed():
    (call,) = one({**BEDROCK[0], "errorCode": "ThrottlingException", "output": {}}).model_calls
    assert (call.fault.type, call.reply) == ("ThrottlingException", None)


def test_bedrock_bodies_that_went_to_s3_are_said_with_their_place():
    row = {**BEDROCK[0], "input": {"inputBodyS3Path": "s3://logs/data/1_input.json.gz"}}
    with pytest.raises(TraceIncomplete, match="s3://logs/data"):
        read(row)
    trace = one(*BEDROCK, row)
    assert "1 rows hold no body (over 100 kB it is in S3) and are left out" in trace.losses


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
    trace = one(VERTEX[0], VERTEX[2])
    assert [run.name for run in trace.tool_runs] == ["lookup_order"]
    assert trace.missing == ("a call of the model before model call 2, which tells of it",)


def test_helicone_groups_by_session_and_path():
    other = {"request_properties": {"Helicone-Session-Id": "conv-43"}}
    runs = read(*HELICONE, HELICONE[0] | other, HELICONE[0] | {"request_body": None})
    assert "1 rows have no body and are left out" in runs[0].losses
    assert [(run.session, len(run.model_calls)) for run in runs] == [("conv-42", 3), ("conv-43", 1)]


def test_the_key_of_promptlayer_ends_with_the_file():
    rows = rows_of("promptlayer/track_request_bodies.jsonl")
    trace = one(*rows, {**rows[0], "kwargs": None})
    assert "1 rows are no calls of a model and left out" in trace.losses
    assert "pl_stub" not in repr([(call.request.body.data, call.response.body.data) for call in trace.model_calls])


def test_what_is_said_to_a_client_beside_the_body_stays_outside():
    beside = {"api_key": "hidden-1", "extra_headers": {"Authorization": "hidden-2"}, "base_url": "http://hidden-3"}
    kwargs = {**ASKED, **beside, "extra_body": {"top_k": 3}}
    trace = one({"kwargs": kwargs, "response": REPLY, "metadata": {"user_api_key": "hidden-4", "release": "3"}})
    assert json.loads(trace.model_calls[0].request.body.data) == {**ASKED, "top_k": 3}
    assert trace.metadata == {"release": "3"}
    assert "hidden" not in repr(trace)


def test_stored_completions_with_their_messages_are_whole():
    (listed,) = rows_of("openai/stored_completions_list.shape.json")
    for completion, pair in zip(listed["data"], rows_of("openai/chat_completions_log.jsonl"), strict=True):
        completion["messages"] = {"object": "list", "data": pair["request"]["messages"]}
    trace = one(listed)
    assert [(run.name, run.executed) for run in trace.tool_runs] == [("lookup_order", True), ("issue_refund", True)]
    assert (trace.user, trace.source.format) == ("u-7", "openai-stored")


def test_a_response_and_its_items_are_read_together_whichever_comes_first():
    told = rows_of("openai/responses_log.jsonl")[-1]["response"]
    items = (TRACES / "generated/openai/response_input_items.json").read_bytes()
    files = [("items.json", items), ("response.json", lines(told))]
    (trace,) = traces(files)
    assert traces(files[::-1]) == [trace]
    assert [(run.name, run.executed) for run in trace.tool_runs] == [("lookup_order", True), ("issue_refund", True)]
    assert len(trace.model_calls) == 3
    assert str(trace.output).startswith("Done!")
    with pytest.raises(TraceIncomplete, match="input_items"):
        traces(files[1:])


def test_items_listed_newest_first_are_turned():
    (listed,) = rows_of("openai/response_input_items.json")
    assert one(listed["data"]).steps == one(listed["data"][::-1]).steps


def test_the_table_of_a_session_is_its_items():
    (items,) = rows_of("openai-agents/run_items_to_input_list.json")
    trace = one(*({"id": n, "session_id": "s", "message_data": json.dumps(item)} for n, item in enumerate(items)))
    assert (trace.session, len(trace.model_calls), len(trace.tool_runs)) == ("s", 3, 2)


def use(number, name, arguments):
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def test_messages_of_a_chat_alone_are_items_too():
    trace = one(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is A-1?"},
        {"role": "assistant", "tool_calls": [use(1, "look", {"id": 1})]},
        {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
        {"role": "assistant", "content": "On its way"},
    )
    assert tools(trace) == [("look", {"id": 1}, "shipped")]
    assert (len(trace.model_calls), trace.output) == (2, "On its way")


def test_a_stream_that_was_cut_is_told_and_kept():
    cut = STREAM[: STREAM.index(f"data: {json.dumps(CHUNKS[1])}")]
    whole, half = (one({"request": ASKED, "response": text}).model_calls[0] for text in (STREAM, cut))
    assert (whole.fault, half.fault.message) == (None, "the stream ends before the reply in it does")
    assert half.reply["parts"] == [{"type": "text", "content": "On its "}]


@pytest.mark.parametrize(
    ("response", "missing"), [("On its way", ()), ("ChatCompletion(id='x', choices=[])", ("reply of model call 1",))]
)
def test_of_a_reply_its_words_alone_may_be_kept(response, missing):
    trace = one({"request": ASKED, "response": response})
    assert (trace.source.fidelity, trace.missing) == ("body-json" if missing else "semantic", missing)
    assert trace.output == (None if missing else "On its way")
