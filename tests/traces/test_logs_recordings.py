"""Recordings of HTTP: real ones of vcrpy made here, and what the samples do not hold (packed bodies, other HTTP)."""

import base64
import gzip
import json

import httpx
import pytest
import vcr
import yaml
from openai import OpenAI

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.traces.opening import text_of
from pytest_agentreplay.traces.reading import traces
from tests.support.model_server import Ask, ModelServer
from tests.traces.neutral import packed, tools

ASKED = {"model": "m", "messages": [{"role": "user", "content": "Where is A-1, Zoë?"}]}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "On its way ✅"}, "finish_reason": "stop"}
REPLY = {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-1", "choices": [CHOICE]}
CHAT = "https://api.openai.com/v1/chat/completions"
TYPES = {"content-type": ["application/json"]}


def text(value):
    return json.dumps(value, ensure_ascii=False)


def interaction(url=CHAT, method="POST", asked=ASKED, reply=REPLY, *, sent=None, came=None):
    request = {"method": method, "uri": url, "body": text(asked), "headers": TYPES}
    response = {"status": {"code": 200, "message": "OK"}, "headers": TYPES, "body": {"string": text(reply)}}
    return {"request": request | (sent or {}), "response": response | (came or {})}


def recording(*interactions):
    return yaml.safe_dump({"version": 1, "interactions": list(interactions)}).encode()


def read(data):
    (trace,) = traces([("recording", data)])
    return trace


def read_reply(**came):
    """The trace of one interaction whose response is otherwise."""
    return read(recording(interaction(came=came)))


TOOLS = [{"type": "function", "function": {"name": "lookup_order", "parameters": {"type": "object", "properties": {}}}}]


def ask_twice(url):
    client = OpenAI(base_url=f"{url}/v1", api_key="sk-not-a-key", max_retries=0)
    asked = {"model": "m", "messages": [*ASKED["messages"]], "tools": TOOLS}
    said = client.chat.completions.create(**asked).choices[0].message
    asked["messages"] += [
        said,
        {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": '{"status": "shipped"}'},
    ]
    return client.chat.completions.create(**asked).choices[0].message.content


@pytest.mark.parametrize("serializer", ["yaml", "json"])
def test_what_vcrpy_records_today_is_a_run_to_the_byte(tmp_path, serializer):
    file = tmp_path / f"recorded.{serializer}"
    with ModelServer(script=[Ask("lookup_order", {"order_id": "A-1"}), "It is on its way ✅", "hello"]) as server:
        with vcr.use_cassette(str(file), serializer=serializer):
            said = ask_twice(server.url)
        received = [request.body for request in server.requests]
        with vcr.use_cassette(str(tmp_path / "httpx"), serializer=serializer):
            httpx.post(f"{server.url}/v1/chat/completions", json=ASKED).raise_for_status()
    trace = read(file.read_bytes())
    assert trace.source.fidelity == "bytes"
    assert [call.request.body.data for call in trace.model_calls] == received
    assert tools(trace) == [("lookup_order", {"order_id": "A-1"}, {"status": "shipped"})]
    assert trace.output == said == "It is on its way ✅"
    assert "sk-not-a-key" not in repr([call.request.headers for call in trace.model_calls])
    trace = read((tmp_path / "httpx").read_bytes())
    assert (trace.output, trace.model_calls[0].operation) == ("hello", "chat")


def test_other_http_is_counted_by_where_it_went_and_embeddings_are_calls_of_a_model():
    weather = interaction("https://weather.example/today?q=Oslo", "GET", sent={"body": None})
    trace = read(recording(weather, interaction(), weather))
    assert len(trace.steps) == 1
    assert "other HTTP is left out: 2 x GET weather.example" in trace.losses
    with pytest.raises(TraceError, match=r"no call of a model.*1 x GET weather\.example"):
        read(recording(weather))
    vectors = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}
    embeddings = "https://api.openai.com/v1/embeddings", "POST", {"model": "e", "input": ["refunds"]}, vectors
    found = read(recording(interaction(*embeddings), interaction())).model_calls
    assert [call.operation for call in found] == ["embeddings", "chat"]


def test_a_call_of_a_tool_over_mcp_is_an_execution():
    rpc = {"jsonrpc": "2.0", "id": 1}
    hello = rpc | {"method": "initialize", "params": {}}
    asked = rpc | {"method": "tools/call", "params": {"name": "lookup", "arguments": {"id": "A-1"}}}
    reply = rpc | {"result": {"content": [{"type": "text", "text": "shipped"}]}}
    url = "https://mcp.example/mcp"
    trace = read(recording(interaction(url, asked=hello), interaction(url, asked=asked, reply=reply)))
    (run,) = trace.tool_runs
    assert (run.name, run.arguments, run.executed) == ("lookup", {"id": "A-1"}, True)
    assert "shipped" in str(run.result)
    assert len(trace.losses) == 1


def test_a_packed_body_is_kept_as_it_is_and_one_that_was_unpacked_is_no_longer_to_the_byte():
    body = gzip.compress(text(REPLY).encode(), mtime=0)
    headers = TYPES | {"content-encoding": ["gzip"], "content-length": [str(len(body))]}
    trace = read_reply(headers=headers, body={"string": body})
    (call,) = trace.model_calls
    assert call.response.body.data == body
    assert ("content-encoding", "gzip") in call.response.headers
    assert (trace.source.fidelity, trace.output) == ("bytes", "On its way ✅")
    trace = read_reply(headers=TYPES | {"Content-Encoding": ["gzip"], "Content-Length": ["17"]})
    assert (trace.source.fidelity, trace.output) == ("body-json", "On its way ✅")
    assert trace.model_calls[0].response.headers == (("content-type", "application/json"),)
    trace = read_reply(headers=TYPES | {"content-encoding": ["br"]}, body={"string": b"\x8b\x02\x80\x03"})
    assert any("packed in a way that is not read" in loss for loss in trace.losses)
    assert trace.model_calls[0].response.body.data == b"\x8b\x02\x80\x03"


BASE64 = {"base64_string": base64.b64encode(text(REPLY).encode()).decode()}
APART = interaction()
PARSED = {side: {name: one for name, one in APART[side].items() if name != "body"} for side in APART}
PARSED["request"]["parsed_body"], PARSED["response"]["parsed_body"] = ASKED, REPLY
TWO_LISTS = yaml.safe_dump({"requests": [APART["request"]], "responses": [APART["response"]]}).encode()
OLDER = {
    "bodies in base64": (recording(interaction(came={"body": BASE64})), "bytes"),
    "bodies that a serializer has parsed": (recording(PARSED), "body-json"),
    "requests and replies in two lists": (gzip.compress(TWO_LISTS), "bytes"),
    "bodies in lists of bytes": (recording(interaction(came={"body": [*text(REPLY).encode()]})), "bytes"),
    "bodies in objects": (recording(interaction(came={"body": {"string": text(REPLY), "encoding": "utf-8"}})), "bytes"),
}


@pytest.mark.parametrize("form", OLDER)
def test_forms_of_older_releases(form):
    data, fidelity = OLDER[form]
    trace = read(data)
    assert (trace.source.fidelity, trace.output) == (fidelity, "On its way ✅")
    assert json.loads(trace.model_calls[0].request.body.data) == ASKED


def cassetter(at, body, url=CHAT, **came):
    request = {"method": "POST", "uri": url, "headers": TYPES, "body": {"type": "json", "content": ASKED}}
    response = {"status": 200, "headers": TYPES, "body": body} | came
    return {"request": request, "response": response, "recorded_at": f"2026-11-28T13:40:{at}+00:00"}


def test_bodies_of_cassetter_and_their_order_which_is_that_of_time():
    stream = f"data: {text(REPLY | {'object': 'chat.completion.chunk', 'choices': []})}\n\ndata: [DONE]\n\n"
    bodies = {
        "20": ({"type": "json", "content": REPLY}, text(REPLY)),
        "10": ({"type": "text", "content": stream}, stream),
        "15": ({"type": "binary", "content": text(REPLY).encode().hex()}, text(REPLY)),
        "12": ({"type": "binary", "content": "no hex"}, "no hex"),
        "30": ({"type": "none"}, ""),
    }
    trace = read(recording(*(cassetter(at, body) for at, (body, _) in bodies.items())))
    received = [call.response.body.data.decode() for call in trace.model_calls]
    assert received[:3] == [bodies[at][1] for at in ("10", "12", "15")]
    assert (json.loads(received[3]), received[4]) == (REPLY, "")
    assert (trace.source.format, trace.source.fidelity) == ("cassetter", "body-json")
    assert [call.ended for call in trace.model_calls] == sorted(call.ended for call in trace.model_calls)
    alone = {"version": 1, "interactions": [], "grpc_interactions": [{"request": {}, "response": {}}]}
    with pytest.raises(TraceError, match=r"no call of a model.*calls of gRPC are left out: 1"):
        read(yaml.safe_dump(alone).encode())


def test_a_recording_in_toml_is_redacted_and_read_as_json_and_a_key_of_many_parts_is_refused():
    table = '[[interactions]]\n[interactions.request]\nuri = "https://a.example"\nseen = 2026-11-28\n'
    whole = text_of(f"version = 1\n{table}[interactions.response]\nstatus = 200\n".encode())
    seen = {"uri": "https://a.example", "seen": "2026-11-28"}
    assert json.loads(whole)["interactions"] == [{"request": seen, "response": {"status": 200}}]
    hostile = table + ".".join(["a"] * 100_000) + " = 1"  # tomllib takes the square of it in memory
    assert text_of(hostile.encode()) == hostile
    words = yaml.safe_dump({"body": f"{table}not TOML"}, default_style="|")
    assert text_of(words.encode()) == words


def test_replies_that_failed_broke_off_or_cannot_be_unpacked_are_told_and_kept():
    status = {"code": 429, "message": "Too Many Requests"}
    failed = {"status": status, "body": {"string": '{"error": {"message": "slow down"}}'}}
    trace = read(recording(interaction(came=failed), interaction()))
    first, second = trace.model_calls
    assert (first.status, first.reply, first.fault.type) == (429, None, "HTTP 429")
    assert "slow down" in first.fault.message
    assert (second.fault, trace.output) == (None, "On its way ✅")
    half = '{"object": "chat.completion", "choices": [{"mess'
    (call,) = read_reply(body={"string": half}).model_calls
    assert (call.fault.message, call.response.body.data) == ("the reply is JSON that breaks off", half.encode())
    for body, data in (({"base64_string": "no base64!"}, b"no base64!"), ({"string": "\ud800"}, b"?")):
        trace = read(json.dumps({"version": 1, "interactions": [interaction(came={"body": body})]}).encode())
        assert (trace.model_calls[0].response.body.data, trace.source.fidelity) == (data, "body-json")
    aliased = recording(APART, APART)
    assert b"*id001" in aliased
    assert len(read(aliased).model_calls) == 2


# HAR


JSON_TYPE = {"name": "Content-Type", "value": "application/json"}
SECRET = {"name": "Authorization", "value": "Bearer sk-secret"}


def entry(asked=ASKED, *, came=None, sent=None, at="2026-11-20T13:51:50.559037+00:00"):
    headers = [JSON_TYPE, {"name": ":authority", "value": "api.openai.com"}]
    content = {"size": 1, "mimeType": "application/json", "text": text(REPLY)}
    request = {"method": "POST", "url": CHAT, "headers": [*headers, SECRET]}
    request |= {"postData": {"mimeType": "application/json", "text": text(asked)}}
    response = {"status": 200, "statusText": "OK", "httpVersion": "h2", "headers": headers, "content": content}
    times = {"startedDateTime": at, "time": 12.5}
    return times | {"request": request | (sent or {}), "response": response | (came or {})}


def har(*entries):
    creator = {"name": "WebInspector", "version": "537"}
    return text({"log": {"version": "1.2", "creator": creator, "entries": entries}}).encode()


def test_a_har_in_base64_unpacked_by_a_browser_of_a_failed_request_or_with_its_bodies_beside_it():
    encoded = base64.b64encode(text(REPLY).encode()).decode()
    trace = read(har(entry(came={"content": {"size": 3, "text": encoded, "encoding": "base64"}})))
    assert (trace.output, trace.source.version) == ("On its way ✅", "WebInspector 537")
    assert (trace.started, trace.ended) == (1795182710559037000, 1795182710571537000)
    assert trace.model_calls[0].request.headers == (("Content-Type", "application/json"),)
    bare = {"headers": []}
    (call,) = read(har(entry(sent=bare, came=bare))).model_calls
    assert call.request.headers == call.response.headers == (("content-type", "application/json"),)
    trace = read(har(entry(came={"headers": [{"name": "content-encoding", "value": "br"}, JSON_TYPE]})))
    assert (trace.output, trace.source.fidelity) == ("On its way ✅", "body-json")
    trace = read(har(entry(came={"status": 0, "statusText": "", "_error": "net::ERR_CONNECTION_RESET"})))
    assert trace.model_calls[0].fault.message == "net::ERR_CONNECTION_RESET"
    one = entry(came={"content": {"size": 3, "_file": "abc.json", "mimeType": "application/json"}})
    trace = read(packed({"har.har": har(one), "abc.json": text(REPLY)}))
    assert (trace.source.format, trace.output) == ("har", "On its way ✅")
    bodiless = entry(came={"content": {"size": 400, "mimeType": "application/json"}})
    for lacking in (one, entry(sent={"postData": {}}), bodiless):
        with pytest.raises(TraceIncomplete, match="with content"):
            read(har(lacking))
    answered = {"role": "assistant", "content": "?"}, {"role": "user", "content": "And?"}
    again = entry(ASKED | {"messages": [*ASKED["messages"], *answered]}, at="2026-11-20T13:51:51Z")
    assert read(har(bodiless, again)).missing == ("reply of model call 1",)


@pytest.mark.parametrize(
    "content",
    [
        {"text": text(REPLY).encode().hex(), "encoding": "hex"},
        {"text": gzip.compress(text(REPLY).encode()).hex().upper(), "_isBinary": True},
        {"text": json.dumps([text(REPLY).encode()[:9].hex(), text(REPLY).encode()[9:].hex()]), "_isBinary": True},
        {"text": base64.b64encode(text(REPLY).encode()).decode(), "_isBinary": True},
        {"text": json.dumps([base64.b64encode(text(REPLY).encode()[n : n + 20]).decode() for n in range(0, 400, 20)]),
         "encoding": "BASE64"},
        {"text": text(REPLY), "encoding": "utf-8"},
    ],
)  # fmt: skip
def test_a_har_whose_bodies_are_hex_or_pieces_as_polly_writes_them(content):
    coded = {"headers": [{"name": "content-encoding", "value": "gzip"}, JSON_TYPE]}
    trace = read(har(entry(came={"content": content, **coded})))
    assert (trace.output, trace.missing) == ("On its way ✅", ())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"text": "@rH(+", "encoding": "base85"}, "in the encoding 'base85'"),
        ({"text": "1f8b08zz", "encoding": "hex"}, "said to be hex, and not"),
        ({"text": "%%%%", "encoding": "base64"}, "said to be base64, and not"),
        ({"text": text(REPLY).encode().hex()}, "neither JSON nor a stream of events"),
    ],
)
def test_a_body_that_cannot_be_read_is_named_and_the_run_is_not_complete(content, why):
    trace = read(har(entry(came={"content": {**content, "mimeType": "application/json"}})))
    assert trace.missing == ("reply of model call 1",)
    assert f"bodies that cannot be read, because they are {why}: 1" in trace.losses
    if "encoding" not in content:
        assert read_reply(body={"string": content["text"]}).missing == ("reply of model call 1",)
    other = entry(sent={"postData": {"text": "@rH(+", "encoding": "base85"}})
    assert read(har(other, entry())).missing == ("the request to api.openai.com",)


def go(version=2, **more):
    request = {"url": CHAT, "method": "POST", "body": text(ASKED), "headers": {"Content-Type": ["application/json"]}}
    response = {"status": "200 OK", "code": 200, "body": text(REPLY), "headers": request["headers"], "duration": "1.5s"}
    one = {"id": 0, "request": request, "response": response | more}
    return read(yaml.safe_dump({"version": version, "interactions": [one]}).encode())


def test_recordings_of_every_go_vcr():
    whole = (1, {}, "bytes"), (2, {}, "bytes")
    otherwise = (2, {"content_length": 3}, "body-json"), (2, {"headers": {}}, "body-json")
    for version, changed, fidelity in (*whole, *otherwise):
        trace = go(version, **changed)
        assert (trace.source.format, trace.source.version, trace.output) == ("go-vcr", str(version), "On its way ✅")
        assert trace.source.fidelity == fidelity
        headers = trace.model_calls[0].response.headers
        assert ("content-type", "application/json") in {(name.lower(), value) for name, value in headers}
