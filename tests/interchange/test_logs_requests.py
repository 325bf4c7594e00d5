"""Logs of requests and replies: the ways in which programs and gateways write such rows, and what each leaves out."""

import json
from pathlib import Path

import pytest

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.reading import traces

HERE = Path(__file__).parent / "traces"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Where is A-1?"}]}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "On its way"}, "finish_reason": "stop"}],
}
CHUNKS = [
    {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "On its "}}],
    },
    {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": "way"}, "finish_reason": "stop"}],
    },
]
STREAM = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS) + "data: [DONE]\n\n"


def read(*rows, name="log.jsonl"):
    return traces([(name, "\n".join(json.dumps(row) for row in rows).encode())])


def rows_of(name):
    return [json.loads(line) for line in (HERE / name).read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    "row",
    [
        {"request": ASKED, "response": REPLY},
        {"request": json.dumps(ASKED), "response": json.dumps(REPLY)},
        {
            "request": {"method": "POST", "url": "/v1/chat/completions", "body": ASKED},
            "response": {"status": 200, "body": REPLY},
        },
        {"request": {"body": json.dumps(ASKED)}, "response": {"status_code": 200, "body": json.dumps(REPLY)}},
        {"kwargs": ASKED, "response": REPLY},
        {"req": ASKED, "res": REPLY},
        {"request_body": ASKED, "response_body": REPLY},
        {"input": ASKED, "output": REPLY},
        {"request": ASKED | {"stream": True}, "response": CHUNKS},
        {"request": ASKED | {"stream": True}, "response": STREAM},
        {"messages": ASKED["messages"], "model": "m", "model_parameters": {"temperature": 0}, "response": REPLY},
    ],
    ids=[
        "plain",
        "texts",
        "wrapped",
        "wrapped texts",
        "kwargs",
        "short",
        "bodies",
        "input",
        "chunks",
        "events",
        "litellm",
    ],
)
def test_one_call_however_a_row_is_written(row):
    (trace,) = read(row)

    (call,) = trace.model_calls
    assert (call.dialect, call.provider, call.model) == ("openai_chat", "openai", "m")
    assert (trace.input, trace.output, trace.source.format) == ("Where is A-1?", "On its way", "openai-chat-log")
    assert call.finish_reasons == ("stop",)
    assert trace.missing == ()


@pytest.mark.parametrize("shape", [lambda rows: rows, lambda rows: {"data": rows}, lambda rows: {"calls": rows}])
def test_rows_may_stand_in_one_list(shape):
    (trace,) = traces([("log.json", json.dumps(shape([{"request": ASKED, "response": REPLY}] * 1)).encode())])

    assert trace.output == "On its way"


def test_what_a_row_says_of_the_run_is_kept():
    (trace,) = read(
        {
            "request": ASKED,
            "response": REPLY,
            "timestamp": "2026-11-20T13:51:50Z",
            "latency_ms": 1500,
            "session_id": "conv-42",
            "user_id": "u-7",
            "tags": ["prod"],
            "metadata": {"tenant": "acme", "release": "3"},
        }
    )

    assert (trace.session, trace.user, trace.tenant, trace.tags) == ("conv-42", "u-7", "acme", ("prod",))
    assert (trace.started, trace.ended) == (1795182710_000000000, 1795182711_500000000)
    assert trace.metadata["release"] == "3"


@pytest.mark.parametrize("error", [{"type": "RateLimitError", "message": "slow down"}, "slow down"])
def test_a_call_that_failed_is_a_fault(error):
    again = {"request": ASKED, "response": REPLY}

    (trace,) = read({"request": ASKED, "response": None, "error": error}, again)

    first, second = trace.model_calls
    assert (first.fault.message, first.reply) == ("slow down", None)
    assert (second.fault, trace.output) == (None, "On its way")


def test_an_error_body_is_a_fault_with_its_status():
    (trace,) = read({"request": ASKED, "response": {"status": 429, "body": {"error": {"message": "slow down"}}}})

    (call,) = trace.model_calls
    assert (call.status, call.fault.type, call.reply) == (429, "HTTP 429", None)


def test_a_log_of_many_runs_is_split_and_a_run_that_it_names_is_kept_together():
    second = ASKED | {"messages": [{"role": "user", "content": "Something else"}]}

    apart = read({"request": ASKED, "response": REPLY}, {"request": second, "response": REPLY})
    together = read(*({"request": asked, "response": REPLY, "trace_id": "t-1"} for asked in (ASKED, second)))

    assert [run.input for run in apart] == ["Where is A-1?", "Something else"]
    assert [len(run.model_calls) for run in together] == [2]
    assert together[0].id == together[0].source.id == "t-1"


def test_rows_that_are_no_calls_are_counted():
    (trace,) = read(
        {"request": ASKED, "response": REPLY}, {"level": "info", "msg": "hello"}, {"request": {}, "response": {}}
    )

    assert "2 rows are no calls of a model and left out" in trace.losses


GEMINI = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
CONVERSE = {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 9}}


@pytest.mark.parametrize(
    ("request_", "reply", "dialect", "form"),
    [
        (
            GEMINI,
            {"candidates": [{"content": {"parts": [{"text": "yes"}]}}], "modelVersion": "g"},
            "gemini",
            "model-log",
        ),
        (
            CONVERSE,
            {"output": {"message": {"content": [{"text": "yes"}]}}, "stopReason": "end_turn"},
            "bedrock",
            "model-log",
        ),
        (ASKED, {"message": {"role": "assistant", "content": "yes"}, "done": True}, "ollama_chat", "model-log"),
        (
            {"model": "m", "input": "hi"},
            {
                "object": "response",
                "output": [{"type": "message", "content": [{"type": "output_text", "text": "yes"}]}],
            },
            "openai_responses",
            "openai-responses-log",
        ),
        (
            {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
            {"type": "message", "content": [{"type": "text", "text": "yes"}]},
            "anthropic",
            "anthropic-log",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_dialect_is_seen_from_the_bodies(request_, reply, dialect, form):
    (trace,) = read({"request": request_, "response": reply})

    assert (trace.model_calls[0].dialect, trace.output, trace.source.format) == (dialect, "yes", form)


BEDROCK = rows_of("generated/_synthesised/bedrock_converse_invocation_log.jsonl")


@pytest.mark.parametrize(
    "envelope",
    [
        {"events": [{"message": json.dumps(row), "timestamp": 1} for row in BEDROCK]},
        {"logEvents": [{"id": "1", "message": json.dumps(row)} for row in BEDROCK]},
        {"results": [[{"field": "@message", "value": json.dumps(row)}] for row in BEDROCK]},
        [{"@timestamp": "x", "@message": json.dumps(row)} for row in BEDROCK],
        [{"@timestamp": "x", "@message": row} for row in BEDROCK],
    ],
    ids=["events", "logEvents", "query", "rows", "parsed rows"],
)
def test_bedrock_rows_in_the_envelopes_of_cloudwatch(envelope):
    (trace,) = read(envelope)

    (plain,) = read(*BEDROCK)
    assert trace.steps == plain.steps
    assert (trace.session, trace.user) == ("conv-42", "u-7")


def test_the_frames_of_a_converse_stream_are_joined():
    row = json.loads(json.dumps(BEDROCK[0])) | {"operation": "ConverseStream"}
    row["output"]["outputBodyJson"] = [
        {"messageStart": {"role": "assistant"}},
        {
            "contentBlockStart": {
                "start": {"toolUse": {"toolUseId": "t1", "name": "lookup_order"}},
                "contentBlockIndex": 0,
            }
        },
        {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"order_id": '}}, "contentBlockIndex": 0}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": '"A-1001"}'}}, "contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
        {"metadata": {"usage": {"inputTokens": 120, "outputTokens": 21}}},
    ]

    (trace,) = read(row)

    (call,) = trace.model_calls
    assert (call.stream, call.finish_reasons, call.usage) == (
        True,
        ("tool_use",),
        {"input_tokens": 120, "output_tokens": 21},
    )
    assert [(run.name, run.arguments) for run in trace.tool_runs] == [("lookup_order", {"order_id": "A-1001"})]


CLAUDE = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
EVENTS = [
    {"type": "message_start", "message": {"id": "m1", "model": "c", "usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "yes"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
]
NOVA = {"messages": [{"role": "user", "content": [{"text": "hi"}]}], "inferenceConfig": {"maxTokens": 9}}


@pytest.mark.parametrize(
    ("operation", "asked", "told", "dialect"),
    [
        ("InvokeModel", CLAUDE, {"type": "message", "content": [{"type": "text", "text": "yes"}]}, "anthropic"),
        ("InvokeModelWithResponseStream", CLAUDE, EVENTS, "anthropic"),
        (
            "InvokeModel",
            NOVA,
            {"output": {"message": {"content": [{"text": "yes"}]}}, "stopReason": "end_turn"},
            "bedrock",
        ),
    ],
)
def test_bedrock_in_the_words_of_the_provider(operation, asked, told, dialect):
    row = {**BEDROCK[0], "operation": operation, "input": {"inputBodyJson": asked}, "output": {"outputBodyJson": told}}

    (trace,) = read(row)

    (call,) = trace.model_calls
    assert (call.dialect, call.provider, trace.output) == (dialect, "aws.bedrock", "yes")
    assert call.model == BEDROCK[0]["modelId"]


def test_bedrock_bodies_that_leave_out_what_anthropic_demands_and_the_history():
    asked = [
        [{"type": "text", "text": "scale it"}],
        [{"type": "tool_result", "tool_use_id": "t1", "content": "scaled"}],
    ]
    told = [
        {
            "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "x"}}],
        },
        {"stop_reason": "end_turn", "content": [{"type": "text", "text": "Done."}]},
    ]
    row = {**BEDROCK[0], "operation": "InvokeModel"}

    (trace,) = read(
        *(
            {
                **row,
                "timestamp": f"2026-06-26T10:00:0{n}Z",
                "input": {"inputBodyJson": {"messages": [{"role": "user", "content": asked[n]}]}},
                "output": {"outputBodyJson": told[n]},
            }
            for n in (0, 1)
        )
    )

    assert [(run.name, run.arguments, run.seen) for run in trace.tool_runs] == [("Bash", {"command": "x"}, "scaled")]
    assert (trace.output, {call.dialect for call in trace.model_calls}) == ("Done.", {"anthropic"})


def test_a_bedrock_call_that_failed():
    (trace,) = read({**BEDROCK[0], "errorCode": "ThrottlingException", "output": {}})

    assert (trace.model_calls[0].fault.type, trace.model_calls[0].reply) == ("ThrottlingException", None)


def test_bedrock_bodies_that_went_to_s3_are_said_with_their_place():
    row = {**BEDROCK[0], "input": {"inputBodyS3Path": "s3://logs/data/1_input.json.gz"}}

    with pytest.raises(TraceIncomplete, match="s3://logs/data"):
        read(row)
    (trace,) = read(*BEDROCK, row)
    assert "1 rows hold no body (over 100 kB it is in S3) and are left out" in trace.losses


def test_bedrock_without_bodies_names_the_setting():
    with pytest.raises(TraceIncomplete, match="textDataDeliveryEnabled"):
        read({**BEDROCK[0], "input": {}, "output": {}})


def test_vertex_turns_that_were_not_sampled_leave_a_gap():
    first, _, last = rows_of("generated/_synthesised/vertex_request_response_bq_rows.jsonl")

    (trace,) = read(first, last)

    assert [run.name for run in trace.tool_runs] == ["lookup_order"]
    assert trace.missing == ("a call of the model before model call 2, which tells of it",)


def test_vertex_without_the_whole_request_names_the_table():
    (row, *_) = rows_of("generated/_synthesised/vertex_request_response_bq_rows.jsonl")

    with pytest.raises(TraceIncomplete, match="schema v2"):
        read(row | {"full_request": None})


def test_helicone_without_bodies_names_the_flag():
    (row, *_) = rows_of("generated/_synthesised/helicone_export.jsonl")

    with pytest.raises(TraceIncomplete, match="--include-body"):
        read(row | {"request_body": None, "signed_body_url": "https://bodies.example/1"})


def test_helicone_groups_by_session_and_path():
    rows = rows_of("generated/_synthesised/helicone_export.jsonl")
    other = {**rows[0], "request_properties": {"Helicone-Session-Id": "conv-43"}}

    runs = read(*rows, other)

    assert [(run.session, len(run.model_calls)) for run in runs] == [("conv-42", 3), ("conv-43", 1)]


def test_the_key_of_promptlayer_ends_with_the_file():
    (trace,) = read(*rows_of("generated/promptlayer/track_request_bodies.jsonl"))

    assert "pl_stub" not in repr(trace)
    assert "pl_stub" not in repr([(call.request.body.data, call.response.body.data) for call in trace.model_calls])


def test_what_is_said_to_a_client_beside_the_body_stays_outside():
    beside = {"api_key": "hidden-1", "extra_headers": {"Authorization": "hidden-2"}, "base_url": "http://hidden-3"}
    row = {"kwargs": {**ASKED, **beside, "extra_body": {"top_k": 3}}, "response": REPLY}

    (trace,) = read(row | {"metadata": {"user_api_key": "hidden-4", "release": "3"}})

    (call,) = trace.model_calls
    assert json.loads(call.request.body.data) == {**ASKED, "top_k": 3}
    assert trace.metadata == {"release": "3"}
    assert "hidden" not in repr(trace)


def test_stored_completions_with_their_messages_are_whole():
    listed = json.loads((HERE / "generated/openai/stored_completions_list.shape.json").read_text("utf-8"))
    pairs = rows_of("generated/openai/chat_completions_log.jsonl")
    for completion, pair in zip(listed["data"], pairs, strict=True):
        completion["messages"] = {"object": "list", "data": pair["request"]["messages"]}

    (trace,) = traces([("stored.json", json.dumps(listed).encode())])

    assert [(run.name, run.executed) for run in trace.tool_runs] == [("lookup_order", True), ("issue_refund", True)]
    assert (trace.user, trace.source.format) == ("u-7", "openai-stored")


def test_a_response_and_its_items_are_read_together_whichever_comes_first():
    told = rows_of("generated/openai/responses_log.jsonl")[-1]["response"]
    items = (HERE / "generated/openai/response_input_items.json").read_bytes()
    files = [("items.json", items), ("response.json", json.dumps(told).encode())]

    (trace,) = traces(files)

    assert traces(files[::-1]) == [trace]
    assert [(run.name, run.executed) for run in trace.tool_runs] == [("lookup_order", True), ("issue_refund", True)]
    assert len(trace.model_calls) == 3
    assert str(trace.output).startswith("Done!")
    with pytest.raises(TraceIncomplete, match="input_items"):
        traces(files[1:])


def test_items_listed_newest_first_are_turned():
    items = json.loads((HERE / "generated/openai/response_input_items.json").read_text("utf-8"))["data"]

    forward, backward = (traces([("i.json", json.dumps(one).encode())])[0] for one in (items, items[::-1]))

    assert forward.steps == backward.steps


def test_the_table_of_a_session_is_its_items():
    items = json.loads((HERE / "generated/openai-agents/run_items_to_input_list.json").read_text("utf-8"))
    rows = [{"id": n, "session_id": "conv-42", "message_data": json.dumps(item)} for n, item in enumerate(items)]

    (trace,) = read(*rows)

    assert (trace.session, len(trace.model_calls), len(trace.tool_runs)) == ("conv-42", 3, 2)


def test_messages_of_a_chat_alone_are_items_too():
    (trace,) = read(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is A-1?"},
        {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": '{"id": 1}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "shipped"},
        {"role": "assistant", "content": "On its way"},
    )

    assert [(run.name, run.arguments, run.seen) for run in trace.tool_runs] == [("look", {"id": 1}, "shipped")]
    assert (len(trace.model_calls), trace.output) == (2, "On its way")


def test_parallel_calls_keep_their_own_results():
    uses = [
        {"id": f"c{n}", "type": "function", "function": {"name": "weather", "arguments": f'{{"city": "{city}"}}'}}
        for n, city in enumerate(["Oslo", "Kraków"])
    ]
    said = {"role": "assistant", "content": None, "tool_calls": uses}
    first = {**REPLY, "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]}
    told = [{"role": "tool", "tool_call_id": f"c{n}", "content": text} for n, text in ((1, "18"), (0, "9"))]

    (trace,) = read(
        {"request": ASKED, "response": first},
        {"request": {**ASKED, "messages": [*ASKED["messages"], said, *told]}, "response": REPLY},
    )

    assert [(run.arguments["city"], run.seen) for run in trace.tool_runs] == [("Oslo", 9), ("Kraków", 18)]


def test_a_log_of_pairs_without_messages_is_refused():
    with pytest.raises(TraceError):
        read({"request": {"model": "m"}, "response": {}})


def test_a_stream_that_was_cut_is_told_and_kept():
    cut = STREAM.partition(
        'data: {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "way"}'
    )[0]
    assert cut != STREAM

    whole, half = (read({"request": ASKED, "response": text})[0].model_calls[0] for text in (STREAM, cut))

    assert (whole.fault, half.fault.message) == (None, "the stream ends before the reply in it does")
    assert half.reply["parts"] == [{"type": "text", "content": "On its "}]


@pytest.mark.parametrize(
    ("response", "missing"),
    [("On its way", ()), ("ChatCompletion(id='x', choices=[])", ("reply of model call 1",))],
)
def test_of_a_reply_its_words_alone_may_be_kept(response, missing):
    (trace,) = read({"request": ASKED, "response": response})

    assert (trace.source.fidelity, trace.missing) == ("body-json" if missing else "semantic", missing)
    assert trace.output == (None if missing else "On its way")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"type": "invalid_request_error", "message": "no"}, 400),
        ({"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}, 429),
        ({"message": "no"}, 500),
    ],
)
def test_an_error_without_its_status_has_that_of_its_kind(error, status):
    (trace,) = read({"request": ASKED, "response": {"error": error}})
    assert trace.model_calls[0].status == status


def test_a_gateway_tells_of_a_failure_in_fields_of_its_own():
    told = {"error_class": "RateLimitError", "error_message": "slow down"}
    (trace,) = read({**ASKED, "response": {}, "status": "failure", "error_information": told, "error_str": "x"})
    assert (trace.model_calls[0].fault.type, trace.model_calls[0].fault.message) == ("RateLimitError", "slow down")
