"""Recordings of HTTP: real ones of vcrpy made here, and what the samples do not hold (packed bodies, other HTTP)."""

import base64
import gzip
import json
import zipfile
from io import BytesIO

import httpx
import pytest
import vcr
import yaml
from openai import OpenAI

from pytest_agentreplay.demo.server import Ask, ModelServer
from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.reading import traces

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Where is A-1, Zoë?"}]}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "On its way ✅"}, "finish_reason": "stop"}],
}
CHAT = "https://api.openai.com/v1/chat/completions"
TYPES = {"content-type": ["application/json"]}


def text(value):
    return json.dumps(value, ensure_ascii=False)


def interaction(url=CHAT, method="POST", asked=None, reply=None, *, sent=None, came=None):
    return {
        "request": {"method": method, "uri": url, "body": text(asked or ASKED), "headers": TYPES} | (sent or {}),
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": TYPES,
            "body": {"string": text(reply or REPLY)},
        }
        | (came or {}),
    }


def recording(*interactions):
    return yaml.safe_dump({"version": 1, "interactions": list(interactions)}).encode()


def read(data, name="recording"):
    return traces([(name, data)])


TOOLS = [{"type": "function", "function": {"name": "lookup_order", "parameters": {"type": "object", "properties": {}}}}]


def ask_twice(url, http_client=None):
    client = OpenAI(base_url=f"{url}/v1", api_key="sk-not-a-key", http_client=http_client, max_retries=0)
    messages = [{"role": "user", "content": "Where is A-1, Zoë?"}]
    said = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
    messages += [said, {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": '{"status": "shipped"}'}]
    return client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message.content


@pytest.mark.parametrize("serializer", ["yaml", "json"])
def test_what_vcrpy_records_today_is_a_run_to_the_byte(tmp_path, serializer):
    file = tmp_path / f"recorded.{serializer}"
    with ModelServer(script=[Ask("lookup_order", {"order_id": "A-1"}), "It is on its way ✅"]) as server:
        with vcr.use_cassette(str(file), serializer=serializer):
            said = ask_twice(server.url)
        received = [request.body for request in server.requests]

    (trace,) = read(file.read_bytes())

    assert trace.source.fidelity == "bytes"
    assert [call.request.body.data for call in trace.model_calls] == received
    assert [(run.name, run.arguments, run.seen) for run in trace.tool_runs] == [
        ("lookup_order", {"order_id": "A-1"}, {"status": "shipped"})
    ]
    assert trace.output == said == "It is on its way ✅"
    assert "sk-not-a-key" not in repr([call.request.headers for call in trace.model_calls])


def test_other_http_is_counted_by_where_it_went():
    weather = interaction("https://weather.example/today?q=Oslo", "GET", sent={"body": None})

    (trace,) = read(recording(weather, interaction(), weather))

    assert len(trace.steps) == 1
    assert "other HTTP is left out: 2 x GET weather.example" in trace.losses


def test_a_recording_of_other_http_alone_is_refused():
    with pytest.raises(TraceError, match=r"no call of a model.*1 x GET weather\.example"):
        read(recording(interaction("https://weather.example/", "GET", sent={"body": None})))


def test_a_call_of_a_tool_over_mcp_is_an_execution():
    asked = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "lookup", "arguments": {"id": "A-1"}},
    }
    reply = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "shipped"}]}}
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}

    (trace,) = read(
        recording(
            interaction("https://mcp.example/mcp", asked=hello),
            interaction("https://mcp.example/mcp", asked=asked, reply=reply),
        )
    )

    (run,) = trace.tool_runs
    assert (run.name, run.arguments, run.executed) == ("lookup", {"id": "A-1"}, True)
    assert "shipped" in str(run.result)
    assert len(trace.losses) == 1


def test_a_body_that_is_still_packed_is_kept_as_it_is():
    packed = gzip.compress(text(REPLY).encode(), mtime=0)
    headers = TYPES | {"content-encoding": ["gzip"], "content-length": [str(len(packed))]}

    (trace,) = read(recording(interaction(came={"headers": headers, "body": {"string": packed}})))

    assert b"!!binary" in recording(interaction(came={"body": {"string": packed}}))
    (call,) = trace.model_calls
    assert call.response.body.data == packed
    assert ("content-encoding", "gzip") in call.response.headers
    assert (trace.source.fidelity, trace.output) == ("bytes", "On its way ✅")


def test_a_body_that_was_unpacked_is_no_longer_to_the_byte():
    headers = TYPES | {"Content-Encoding": ["gzip"], "Content-Length": ["17"]}

    (trace,) = read(recording(interaction(came={"headers": headers})))

    assert (trace.source.fidelity, trace.output) == ("body-json", "On its way ✅")
    assert trace.model_calls[0].response.headers == (("content-type", "application/json"),)


def test_a_packing_that_nobody_reads_here_is_said():
    headers = TYPES | {"content-encoding": ["br"]}

    (trace,) = read(recording(interaction(came={"headers": headers, "body": {"string": b"\x8b\x02\x80\x03"}})))

    assert any("packed in a way that is not read" in loss for loss in trace.losses)
    assert trace.model_calls[0].response.body.data == b"\x8b\x02\x80\x03"


def test_bodies_in_base64_as_older_releases_wrote_them():
    packed = base64.b64encode(text(REPLY).encode()).decode()
    (trace,) = read(
        text({"version": 1, "interactions": [interaction(came={"body": {"base64_string": packed}})]}).encode()
    )

    assert (trace.source.fidelity, trace.output) == ("bytes", "On its way ✅")


def test_bodies_that_a_serializer_has_parsed_say_the_same_in_other_bytes():
    one = interaction()
    del one["request"]["body"], one["response"]["body"]
    one["request"]["parsed_body"], one["response"]["parsed_body"] = ASKED, REPLY

    (trace,) = read(recording(one))

    assert (trace.source.fidelity, trace.output) == ("body-json", "On its way ✅")
    assert json.loads(trace.model_calls[0].request.body.data) == ASKED


def test_requests_and_replies_in_two_lists():
    one = interaction()

    (trace,) = read(
        gzip.compress(yaml.safe_dump({"requests": [one["request"]], "responses": [one["response"]]}).encode())
    )

    assert trace.output == "On its way ✅"


def test_aliases_stand_for_what_they_name():
    shared = interaction()
    data = yaml.safe_dump({"version": 1, "interactions": [shared, shared]})

    assert "*id001" in data
    (trace,) = read(data.encode())
    assert len(trace.model_calls) == 2


def test_a_reply_that_failed_is_a_fault_and_no_reply():
    came = {
        "status": {"code": 429, "message": "Too Many Requests"},
        "body": {"string": '{"error": {"message": "slow down"}}'},
    }

    (trace,) = read(recording(interaction(came=came), interaction()))

    first, second = trace.model_calls
    assert (first.status, first.reply, first.fault.type) == (429, None, "HTTP 429")
    assert "slow down" in first.fault.message
    assert (second.fault, trace.output) == (None, "On its way ✅")


def test_embeddings_are_calls_of_a_model_too():
    one = interaction(
        "https://api.openai.com/v1/embeddings",
        asked={"model": "text-embedding-3-small", "input": ["refunds"]},
        reply={"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]},
    )

    (trace,) = read(recording(one, interaction()))

    assert [call.operation for call in trace.model_calls] == ["embeddings", "chat"]


SECRETS = {
    "authorization": ["Bearer sk-secret-one"],
    "Cookie": ["sid=secret-two"],
    "x-api-key": ["secret-three"],
    "x-goog-api-key": ["secret-four"],
}


def test_no_credential_of_the_headers_or_the_url_is_in_the_trace():
    gemini = "https://user:secret-five@generativelanguage.googleapis.com/v1beta/models/g:generateContent?key=secret-six"
    one = interaction(
        gemini,
        asked={"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        reply={"candidates": [{"content": {"role": "model", "parts": [{"text": "hello"}]}}]},
        sent={"headers": TYPES | SECRETS},
        came={"headers": TYPES | {"Set-Cookie": ["sid=secret-seven"]}},
    )

    (trace,) = read(recording(one))

    (call,) = trace.model_calls
    assert trace.output == "hello"
    assert "secret" not in f"{call.request.url} {call.request.headers} {call.response.headers}"


def entry(asked=None, reply=None, *, came=None, sent=None, at="2026-11-20T13:51:50.559037+00:00"):
    headers = [{"name": "Content-Type", "value": "application/json"}, {"name": ":authority", "value": "api.openai.com"}]
    content = {"size": 1, "mimeType": "application/json", "text": text(reply or REPLY)}
    return {
        "startedDateTime": at,
        "time": 12.5,
        "request": {
            "method": "POST",
            "url": CHAT,
            "headers": [*headers, {"name": "Authorization", "value": "Bearer sk-secret"}],
            "postData": {"mimeType": "application/json", "text": text(asked or ASKED)},
        }
        | (sent or {}),
        "response": {"status": 200, "statusText": "OK", "httpVersion": "h2", "headers": headers, "content": content}
        | (came or {}),
    }


def har(*entries):
    return text(
        {"log": {"version": "1.2", "creator": {"name": "WebInspector", "version": "537"}, "entries": entries}}
    ).encode()


def test_a_har_in_base64_with_times():
    content = {"size": 3, "text": base64.b64encode(text(REPLY).encode()).decode(), "encoding": "base64"}

    (trace,) = read(har(entry(came={"content": content})))

    assert (trace.output, trace.source.version) == ("On its way ✅", "WebInspector 537")
    assert (trace.started, trace.ended) == (1795182710559037000, 1795182710571537000)
    assert trace.model_calls[0].request.headers == (("Content-Type", "application/json"),)


def test_a_har_in_an_archive_with_its_bodies_beside_it():
    held = BytesIO()
    one = entry(came={"content": {"size": 3, "_file": "abc.json", "mimeType": "application/json"}})
    with zipfile.ZipFile(held, "w") as file:
        file.writestr("har.har", har(one))
        file.writestr("abc.json", text(REPLY))

    (trace,) = read(held.getvalue())

    assert (trace.source.format, trace.output) == ("har", "On its way ✅")
    with pytest.raises(TraceIncomplete, match="with content"):
        read(har(one))


def test_a_har_that_a_browser_unpacked_is_no_longer_to_the_byte():
    packed = [{"name": "content-encoding", "value": "br"}, {"name": "content-type", "value": "application/json"}]

    (trace,) = read(har(entry(came={"headers": packed})))

    assert (trace.output, trace.source.fidelity) == ("On its way ✅", "body-json")


def test_a_har_without_bodies_says_how_to_save_it_with_them():
    with pytest.raises(TraceIncomplete, match="with content"):
        read(har(entry(sent={"postData": {}})))
    with pytest.raises(TraceIncomplete, match="with content"):
        read(har(entry(came={"content": {"size": 400, "mimeType": "application/json"}})))


def test_one_reply_without_its_body_is_missing():
    again = ASKED | {
        "messages": [*ASKED["messages"], {"role": "assistant", "content": "?"}, {"role": "user", "content": "And?"}]
    }
    bodiless = entry(came={"content": {"size": 400}})

    (trace,) = read(har(bodiless, entry(again, at="2026-11-20T13:51:51Z")))

    assert trace.missing == ("reply of model call 1",)


def test_a_request_that_the_browser_could_not_make_is_a_fault():
    (trace,) = read(har(entry(came={"status": 0, "statusText": "", "_error": "net::ERR_CONNECTION_RESET"})))

    assert trace.model_calls[0].fault.message == "net::ERR_CONNECTION_RESET"


def go(**more):
    return {
        "id": 0,
        "request": {
            "url": CHAT,
            "method": "POST",
            "body": text(ASKED),
            "headers": {"Content-Type": ["application/json"]},
        },
        "response": {
            "status": "200 OK",
            "code": 200,
            "body": text(REPLY),
            "headers": {"Content-Type": ["application/json"]},
            "duration": "1.5s",
        }
        | more,
    }


@pytest.mark.parametrize("version", [1, 2])
def test_recordings_of_every_go_vcr(version):
    (trace,) = read(yaml.safe_dump({"version": version, "interactions": [go()]}).encode())

    assert (trace.source.format, trace.source.version, trace.output) == ("go-vcr", str(version), "On its way ✅")
    assert trace.source.fidelity == "bytes"


def test_a_length_that_is_not_that_of_the_body_tells_of_another_body():
    (trace,) = read(yaml.safe_dump({"version": 2, "interactions": [go(content_length=3)]}).encode())

    assert trace.source.fidelity == "body-json"


def test_a_reply_whose_headers_were_taken_says_its_type_again():
    (trace,) = read(yaml.safe_dump({"version": 2, "interactions": [go(headers={})]}).encode())

    assert trace.model_calls[0].response.headers == (("content-type", "application/json"),)
    assert trace.source.fidelity == "body-json"


def test_objects_of_python_are_refused_and_not_made():
    data = b"version: 1\ninteractions:\n- request: !!python/object/apply:os.system ['true']\n"

    with pytest.raises(TraceError, match="tag"):
        read(data)


def test_the_stub_speaks_to_httpx_clients_as_well(tmp_path):
    file = tmp_path / "async.yaml"
    with ModelServer(script=["hello"]) as server, vcr.use_cassette(str(file)):
        httpx.post(f"{server.url}/v1/chat/completions", json=ASKED).raise_for_status()

    (trace,) = read(file.read_bytes())

    assert (trace.output, trace.model_calls[0].operation) == ("hello", "chat")


def test_a_reply_whose_json_breaks_off_is_told_and_kept():
    request = {"method": "POST", "uri": "https://api.openai.com/v1/chat/completions", "headers": {}}
    request["body"] = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    half = '{"object": "chat.completion", "choices": [{"mess'
    response = {"status": {"code": 200}, "headers": {"content-type": ["application/json"]}, "body": {"string": half}}
    recording = {"version": 1, "interactions": [{"request": request, "response": response}]}

    (trace,) = traces([("half.json", json.dumps(recording).encode())])

    (call,) = trace.model_calls
    assert (call.fault.message, call.response.body.data) == ("the reply is JSON that breaks off", half.encode())
