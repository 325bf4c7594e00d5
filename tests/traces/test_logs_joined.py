"""Requests and replies that stand apart: files of batch APIs, blueprints of PromptLayer, pages of a list."""

import json
import re

import pytest

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.traces.reading import traces
from tests.traces.neutral import TRACES, lines, one, read, tools

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "On its way"}, "finish_reason": "stop"}
REPLY = {"object": "chat.completion", "created": 1790000000, "model": "m-1", "choices": [CHOICE]}
USER = {"role": "user", "content": [{"type": "text", "text": "Where is A-1?"}]}
TOLD = {"role": "assistant", "content": [{"type": "text", "text": "On its way"}]}


def read_files(*files):
    return traces([(f"{at}.jsonl", data) for at, data in enumerate(files)])


def asked(name, **body):
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", **body}}


def came(name, body, *, status=200, error=None):
    response = {"status_code": status, "request_id": "q", "body": body} if body else None
    return {"id": f"batch_req_{name}", "custom_id": name, "response": response, "error": error}


REQUESTS = lines(*(asked(name, messages=[{"role": "user", "content": name}]) for name in "abcd"))
REPLIES = lines(
    came("c", REPLY),
    came("a", {"error": {"message": "no such model", "type": "invalid_request_error"}}, status=404),
    came("b", None, error={"code": "batch_expired", "message": "too late"}),
)


@pytest.mark.parametrize("files", [(REQUESTS, REPLIES), (REPLIES, REQUESTS), (REQUESTS + b"\n" + REPLIES,)])
def test_the_files_of_a_batch_are_joined_in_any_order(files):
    found = read_files(*files)
    assert [(trace.id, trace.input) for trace in found] == [(name, name) for name in "cab"]
    assert [trace.output for trace in found] == ["On its way", None, None]
    faults = [(one.type, one.message) for trace in found for one in trace.faults]
    assert faults == [("HTTP 404", "404 invalid_request_error: no such model"), ("batch_expired", "too late")]
    assert found[0].source.fidelity == "body-json"
    assert "1 requests have no reply in any file, and are left out" in found[0].losses
    (trace, *_) = read_files(*files, lines(came("z", REPLY)))
    assert "1 replies are to requests that are in no file, and left out" in trace.losses


def test_half_a_batch_is_refused_with_the_other_half():
    for file, lacking in ((REQUESTS, r"replies \(output_file_id\)"), (REPLIES, r"requests \(input_file_id\)")):
        with pytest.raises(TraceIncomplete, match=lacking):
            read_files(file)
    rows = [{"request": asked("a", messages=[USER])["body"], "response": REPLY, "run_id": name} for name in "ab"]
    pages = read({"data": rows[:1], "has_more": True}, {"data": rows[1:], "has_more": False})
    assert [trace.id for trace in pages] == ["a", "b"], "pages behind each other are one list"


def test_a_batch_of_anthropic():
    params = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "yo"}]}
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    results = {
        "x": {"type": "succeeded", "message": message | {"stop_reason": "end_turn"}},
        "y": {"type": "errored", "error": busy},
        "z": {"type": "canceled"},
    }
    replies = lines(*({"custom_id": name, "result": result} for name, result in results.items()))
    found = read_files(replies, lines({"requests": [{"custom_id": name, "params": params} for name in "xyz"]}))
    assert [(trace.id, trace.output) for trace in found] == [("x", "yo"), ("y", None), ("z", None)]
    assert [one.type for trace in found for one in trace.faults] == ["overloaded_error", "canceled"]


def blueprint(number, *messages):
    model = {"provider": "openai", "name": "gpt-4", "parameters": {"temperature": 0.5}}
    template = {"type": "chat", "messages": [*messages], "tools": [{"type": "function", "function": {"name": "look"}}]}
    told = {"prompt_blueprint": {"prompt_template": template, "metadata": {"model": model}}, "provider": "openai"}
    used = {"input_tokens": 12, "output_tokens": 25, "request_start_time": f"2026-04-03T20:57:0{number}"}
    return {"success": True, "request_id": number} | told | used


def test_requests_of_promptlayer_are_one_run_whose_reply_stands_last_or_apart():
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"id": 1}'}}]
    uses = {"role": "assistant", "content": [], "tool_calls": calls}
    result = {"role": "tool", "tool_call_id": "c1", "name": "look", "content": [{"type": "text", "text": "shipped"}]}
    trace = one({"data": [blueprint(2, USER, uses, result, TOLD), blueprint(1, USER, uses)]})
    assert (trace.source.format, trace.id, trace.output) == ("promptlayer-requests", "1", "On its way")
    assert tools(trace) == [("look", {"id": 1}, "shipped")]
    call = trace.model_calls[0]
    assert (call.provider, call.model, call.parameters) == ("openai", "gpt-4", {"temperature": 0.5})
    assert (call.usage, [tool["name"] for tool in call.tools]) == ({"input_tokens": 12, "output_tokens": 25}, ["look"])
    with pytest.raises(TraceIncomplete, match="hold no messages"):
        read(blueprint(1))
    row = {side: {"type": "chat", "messages": [one]} for side, one in (("input", USER), ("output", TOLD))}
    row |= {"provider": "anthropic", "model": "claude", "tags": ["prod"]}
    trace = one(row | {"metadata": {"user_id": "u-7", "session_id": "s-1"}})
    assert (trace.input, trace.output) == ("Where is A-1?", "On its way")
    assert (trace.user, trace.session, trace.tags) == ("u-7", "s-1", ("prod",))
    failed = {"input": {"type": "completion", "content": [{"type": "text", "text": "so"}]}, "output": None}
    trace = one(row | failed | {"error_type": "E", "error_message": "no"})
    assert (trace.input, trace.output, trace.faults[0].type) == ("so", None, "E")


TURNS = (TRACES / "generated" / "openai" / "chat_completions_log.jsonl").read_bytes().splitlines()


@pytest.mark.parametrize("rows", [[*TURNS[:1], *TURNS], [*TURNS, TURNS[1]], [TURNS[0], TURNS[1], *TURNS[1:]]])
def test_a_row_that_was_exported_twice_is_one_call(rows):
    assert traces([("log", b"\n".join(rows))]) == traces([("log", b"\n".join(TURNS))])
    listed = b"[" + b",".join(rows) + b"]"
    assert len(traces([("log", listed)])[0].model_calls) == len(TURNS)


def test_calls_that_say_the_same_at_different_times_are_several():
    row = json.loads(TURNS[0])
    later = row | {"timestamp": "2026-11-20T14:00:00+00:00"}
    assert len(traces([("log", lines(row, later))])) == 2


@pytest.mark.parametrize("empty", ["null", '""', "[]", "{}"])
def test_of_a_name_that_a_row_gives_twice_the_value_that_says_something_counts(empty):
    request = b'"request": '
    assert TURNS[1].count(request) == 1
    twice = TURNS[1].rstrip()[:-1] + b', "request": ' + empty.encode() + b"}"
    assert traces([("log", b"\n".join((TURNS[0], twice, *TURNS[2:])))]) == traces([("log", b"\n".join(TURNS))])


def test_a_span_that_gives_two_ids_of_its_trace_belongs_to_that_of_the_others():
    data = (TRACES / "generated" / "otel-genai" / "otlp_refund_spanonly.jsonl").read_bytes()
    first, *_ = re.findall(rb'"traceId": ?"[0-9a-f]+"', data)
    for twice in (first + b', "traceId": "' + b"1" * 32 + b'"', b'"traceId": "' + b"1" * 32 + b'", ' + first):
        assert traces([("spans", data.replace(first, twice, 1))]) == traces([("spans", data)])
