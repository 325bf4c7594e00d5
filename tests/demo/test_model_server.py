"""The loopback model server speaks to the real SDKs, never says the same thing twice, and breaks as told."""

from __future__ import annotations

import json
import socket
import threading

import anthropic
import httpx
import openai
import pytest

from tests.support.model_server import Ask, ModelServer, Raw, Say

pytestmark = pytest.mark.env("main", "legacy", "lowest")

USER = [{"role": "user", "content": "Where is my order A-1001?"}]
LOOKUP = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
CHAT_TOOLS = [
    {"type": "function", "function": {"name": "refund", "parameters": LOOKUP}},
    {"type": "function", "function": {"name": "lookup_order", "parameters": LOOKUP}},
]
FLAT_TOOLS = [{"type": "function", "name": "lookup_order", "parameters": LOOKUP, "strict": False}]
ANTHROPIC_TOOLS = [{"name": "lookup_order", "input_schema": LOOKUP}]


def chat(client, stream, **more):
    if not stream:
        reply = client.chat.completions.create(model="gpt-x", messages=USER, **more)
        message = reply.choices[0].message
        calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
        return reply.id, message.content or "", calls
    ids, text, calls, usage = set(), "", {}, None
    for chunk in client.chat.completions.create(
        model="gpt-x", messages=USER, stream=True, stream_options={"include_usage": True}, **more
    ):
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                name, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (name + (call.function.name or ""), arguments + call.function.arguments)
    assert usage.total_tokens > 0
    (identity,) = ids
    return identity, text, list(calls.values())


def responses(client, stream, **more):
    if stream:
        with client.responses.stream(model="gpt-x", input=USER, **more) as events:
            kinds = [event.type for event in events]
            reply = events.get_final_response()
        assert kinds[0] == "response.created"
        assert kinds[-1] == "response.completed"
    else:
        reply = client.responses.create(model="gpt-x", input=USER, **more)
    calls = [(item.name, item.arguments) for item in reply.output if item.type == "function_call"]
    return reply.id, reply.output_text, calls


def messages(client, stream, **more):
    if stream:
        with client.messages.stream(model="claude-x", max_tokens=9, messages=USER, **more) as events:
            reply = events.get_final_message()
    else:
        reply = client.messages.create(model="claude-x", max_tokens=9, messages=USER, **more)
    text = "".join(block.text for block in reply.content if block.type == "text")
    calls = [(block.name, json.dumps(block.input)) for block in reply.content if block.type == "tool_use"]
    return reply.id, text, calls


APIS = {
    "chat": (chat, openai.OpenAI, "/v1", CHAT_TOOLS),
    "responses": (responses, openai.OpenAI, "/v1", FLAT_TOOLS),
    "messages": (messages, anthropic.Anthropic, "", ANTHROPIC_TOOLS),
}
BOTH = Say("Let me  look.\n", (Ask("clock"), Ask("refund", {"order": "ü", "cents": 5})))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", APIS)
def test_every_api_is_spoken_never_the_same_twice_and_as_the_script_says(api, stream):
    speak, sdk, base, tools = APIS[api]
    with ModelServer() as server, sdk(base_url=server.url + base, api_key="any") as client:
        (first, said, none), (second, other, _) = speak(client, stream), speak(client, stream)
        assert (server.hits, server.requests[1].json["model"][-2:]) == (2, "-x")
        _, text, calls = speak(client, stream, tools=tools)
        assert (text, [(name, json.loads(given)) for name, given in calls]) == (
            "",
            [("lookup_order", {"order": "A-1001"})],  # the tool that the user means
        )
        server._replies = lambda body, number: BOTH
        _, text, calls = speak(client, stream)
    assert first != second
    assert said != other
    assert said.endswith("Where is my order A-1001?")
    assert none == []
    assert text == "Let me  look.\n"
    wanted = [("clock", {}), ("refund", {"order": "ü", "cents": 5})]
    assert [(name, json.loads(given)) for name, given in calls] == wanted


def test_a_tool_result_is_answered_with_text():
    results = [
        {"messages": [{"role": "tool", "content": "shipped"}], "tools": CHAT_TOOLS},
        {"input": [{"type": "function_call_output", "call_id": "c", "output": "shipped"}], "tools": FLAT_TOOLS},
        {
            "messages": [{"role": "user", "content": [{"type": "tool_result", "content": "shipped"}]}],
            "tools": ANTHROPIC_TOOLS,
        },
    ]
    with ModelServer() as server, httpx.Client(base_url=server.url) as client:
        for path, body in zip(["/chat/completions", "/responses", "/messages"], results, strict=True):
            assert "shipped" in client.post(path, json=body).text


def test_past_the_end_of_a_list_it_says_so():
    with ModelServer(["one"]) as server, httpx.Client(base_url=server.url) as client:
        client.post("/x")
        late = client.post("/x")
    assert late.status_code == 500
    assert "the script has 1 replies, and this is request 2" in late.text


def test_keep_alive_chunked_requests_and_marks():
    with ModelServer() as server, httpx.Client(base_url=server.url) as client:
        first = client.post("/anything?q=1", content=iter([b"ab", b"", b"c"]), headers={"X-Odd": "Yes"})
        second = client.get("/")
        ports = {reply.extensions["network_stream"].get_extra_info("client_addr") for reply in (first, second)}
    assert len(ports) == 1
    assert [r.body for r in server.requests] == [b"abc", b""]
    assert ("X-Odd", "Yes") in server.requests[0].headers
    assert (server.requests[0].method, server.requests[0].path) == ("POST", "/anything?q=1")
    for mark in ("x-request-id", "set-cookie"):
        assert first.headers[mark] != second.headers[mark]


def test_raw_bytes_go_out_as_they_are():
    headers = [("CONTENT-type", "text/Plain"), ("X-Twice", "1"), ("x-twice", "2")]
    raw = Raw(418, headers=headers, chunks=(b"\xc3", b"\xbc!"), reason="Short and stout")
    with ModelServer([raw]) as server, httpx.Client() as client, client.stream("GET", server.url) as reply:
        chunks = list(reply.iter_raw())
    assert chunks == [b"\xc3", b"\xbc!"]
    assert reply.reason_phrase == "Short and stout"
    assert reply.headers.raw[:3] == [(name.encode(), value.encode()) for name, value in headers]


FAULTS = [
    (Raw(status=0, break_after=0), httpx.RemoteProtocolError),
    (Raw(status=0, hang=True), httpx.ReadTimeout),
    (Raw(chunks=(b"a", b"b"), break_after=1), httpx.RemoteProtocolError),
    (Raw(chunks=(b"a", b"b"), break_after=1, reset=True), httpx.ReadError),
    (Raw(chunks=(b"a",), hang=True), httpx.ReadTimeout),
    (Raw(head=b"NONSENSE\r\n\r\n"), httpx.RemoteProtocolError),
]


def test_faults_happen_on_the_wire():
    for raw, error in FAULTS:
        with ModelServer([raw]) as server, httpx.Client(timeout=0.3) as client, pytest.raises(error):
            client.get(server.url)
        assert server.hits == 1


def test_after_stop_nobody_listens_and_no_thread_is_left():
    before = set(threading.enumerate())
    server = ModelServer([Raw(status=0, hang=True)]).start()
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as hanging:
        hanging.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while not server.hits:
            pass
        server.stop()
        server.stop()
        assert hanging.recv(1) == b""
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url)
    assert set(threading.enumerate()) <= before
