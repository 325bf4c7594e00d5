"""What the dialects read in calls and replies, plain and streamed, whole and broken off."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import Body, Failure, Frame, FrameCall, FramesReply, ToolCall, ToolReply
from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
from pytest_agentreplay.providers import READER, find_dialect, json_rpc, list_ours
from pytest_agentreplay.providers.shown_messages import show_message
from pytest_agentreplay.providers.streams import ServerSentEvent, events, is_stream, write_frame
from tests.support.exchanges import FRAMES_TYPE, JSON_TYPE, NDJSON_TYPE, SSE_TYPE, call, chat_use, reply, sse
from tests.support.tables import words

HI = {"role": "user", "content": "hi"}
KIND = {"role": "system", "content": "be kind"}
CHAT = {"model": "gpt-5", "messages": [KIND, HI], "tools": [{"type": "function"}], "n": 2, "stream": True}
RESPONSES = {"model": "gpt-5", "instructions": "be kind", "input": [HI], "tools": [{"name": "look"}], "store": False}
MESSAGES = {"model": "claude", "max_tokens": 9, "system": "be kind", "messages": [HI], "tools": [{"name": "look"}]}
RESPONSES_URL = "https://api.openai.com/v1/responses"
MESSAGES_URL = "https://api.anthropic.com/v1/messages"
CALLS = {
    "openai_chat": call(CHAT),
    "openai_responses": call(RESPONSES, RESPONSES_URL),
    "anthropic": call(MESSAGES, MESSAGES_URL),
}


# ---- calls


GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/gemini-3"
CONVERSE = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse"
CACHE, CHOICE = {"cachePoint": {"type": "default"}}, {"toolChoice": {"auto": {}}}
LOOK_OR_BOOK = {"functionDeclarations": [{"name": "look"}, {"name": "book"}]}
TWO_TOOLS = [{"function_declarations": [{"name": "look"}]}, {"google_search": {}}]
GEMINI = {"contents": [HI], "tools": [LOOK_OR_BOOK], "systemInstruction": {"parts": [{"text": "be kind"}]}}
SPEC = {"toolSpec": {"name": "look"}}
BEDROCK = {"messages": [HI], "system": [{"text": "be kind"}, CACHE], "toolConfig": {"tools": [SPEC], **CHOICE}}
OLLAMA = {"model": "m", "messages": [KIND], "options": {"seed": 1}, "stream": False}
DEVELOPER = {"role": "developer", "content": "be kind"}
PACKED = call(gzip.compress(json.dumps(CHAT).encode()), headers=(*JSON_TYPE, ("Content-Encoding", "gzip")))
CHAT_CALL = {
    "kind": "model", "name": "gpt-5", "dialect": "openai_chat", "provider": "openai", "operation": "chat", "model": "gpt-5",
    "parameters": {"n": 2, "stream": True}, "system": ("be kind",), "messages": (KIND, HI), "tools": ({"type": "function"},),
    "messages_at": "$.messages", "tools_at": "$.tools", "stream": True,
}  # fmt: skip
READ = [
    (CALLS["openai_chat"], CHAT_CALL),
    (PACKED, CHAT_CALL),
    (call({"messages": []}, "https://x.openai.azure.com/openai/deployments/d/chat/completions"), {"model": "d", "name": "d", "tools_at": ""}),
    (CALLS["openai_responses"], {"system": ("be kind",), "system_at": "$.instructions", "messages": (HI,), "messages_at": "$.input"}),
    (CALLS["openai_responses"], {"tools": ({"name": "look"},), "parameters": {"store": False}}),
    (call({"input": "hi"}, RESPONSES_URL), {"messages": ("hi",)}),
    (call({"input": [DEVELOPER, HI]}, RESPONSES_URL), {"system": ("be kind",), "system_at": "", "messages": (DEVELOPER, HI)}),
    (call({"previous_response_id": "r"}, RESPONSES_URL), {"messages_at": ""}),
    (CALLS["anthropic"], {"system": ("be kind",), "system_at": "$.system", "parameters": {"max_tokens": 9}}),
    (call(MESSAGES | {"system": [{"type": "text"}]}, MESSAGES_URL), {"system": ({"type": "text"},), "system_at": "$.system"}),
    (call(MESSAGES | {"system": None}, MESSAGES_URL), {"system": (), "system_at": "$.system"}),
    (call({"max_tokens": 9, "messages": [HI]}, MESSAGES_URL), {"system_at": "", "tools_at": "", "messages_at": "$.messages"}),
    (call(GEMINI, f"{GOOGLE}:generateContent"), {"operation": "generate_content", "stream": False, "messages": (HI,), "messages_at": "$.contents"}),
    (call(GEMINI, f"{GOOGLE}:generateContent"), {"system": ("be kind",), "system_at": "$.systemInstruction", "tools": ({"name": "look"}, {"name": "book"}), "tools_at": "$.tools[0].functionDeclarations"}),
    (call(GEMINI | {"generationConfig": {"temperature": 0.2}}, f"{GOOGLE}:generateContent"), {"parameters": {"generationConfig": {"temperature": 0.2}}}),
    (call({"contents": [], "system_instruction": "be kind", "tools": TWO_TOOLS}, f"{GOOGLE}:streamGenerateContent"), {"system": ("be kind",), "system_at": "$.system_instruction", "stream": True, "tools": tuple(TWO_TOOLS), "tools_at": "$.tools"}),
    (call(BEDROCK, CONVERSE), {"system": ({"text": "be kind"}, CACHE), "system_at": "$.system", "tools": (SPEC,), "tools_at": "$.toolConfig.tools", "parameters": {"toolConfig": CHOICE}}),
    (call(BEDROCK | {"inferenceConfig": {"maxTokens": 9}}, CONVERSE), {"parameters": {"inferenceConfig": {"maxTokens": 9}, "toolConfig": CHOICE}}),
    (call({"promptVariables": {}}, f"{CONVERSE}-stream"), {"messages_at": "", "system_at": "", "tools_at": "", "stream": True}),
    (call(OLLAMA, "http://127.0.0.1:11434/api/chat"), {"system": ("be kind",), "stream": False, "parameters": {"options": {"seed": 1}, "stream": False}}),
    (call({"model": "m", "prompt": "x", "system": "be kind"}, "http://127.0.0.1:11434/api/generate"), {"system": ("be kind",), "system_at": "$.system", "messages_at": "$.prompt"}),
]  # fmt: skip
"""Calls, and what is read of them."""


def test_what_a_call_asks_is_read_in_every_dialect():
    wrong = []
    for sent, expected in READ:
        reading = READER.read_call(sent)
        found = {name: getattr(reading, name) for name in expected}
        wrong += [(sent.url, found)] if found != expected else []
    assert not wrong, wrong
    assert READER.read_call(CALLS["openai_chat"]) == CallReading(**CHAT_CALL)


def test_tools_and_unknown_http():
    tool = CallReading(kind="tool", name="look", operation="execute_tool", parameters={"q": 1})
    assert READER.read_call(ToolCall("look", {"q": 1})) == tool
    reading = READER.read_call(call({"q": 1}, "http://localhost:4123/orders?x=1", "PUT"))
    assert (reading.kind, reading.name, reading.parameters) == ("http", "PUT localhost/orders", {"q": 1})
    form = (("content-type", "application/x-www-form-urlencoded"),)
    reading = READER.read_call(call(b"q=1&r=2&r=3", "https://a.example:8443/f", headers=form))
    assert (reading.name, reading.parameters) == ("POST a.example:8443/f", {"q": "1", "r": ["2", "3"]})
    assert READER.read_call(call(b"\x00\xff")).parameters == {}
    data = b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--B\r\nK: v\r\n\r\nx\r\n--B--\r\n'
    upload = call(data, headers=(("content-type", "multipart/form-data; boundary=B"),))
    assert READER.read_call(upload).parameters == {"purpose": "batch", "1": "x"}


# ---- replies


TOOLS = [chat_use("call_1", "look", '{"q":1}'), chat_use("call_2", "book", "{}")]
USED = {"input_tokens": 5, "output_tokens": 7, "cache_read.input_tokens": 3, "reasoning.output_tokens": 2}
CHAT_HEAD = {"id": "chatcmpl-1", "model": "gpt-5-2025", "system_fingerprint": "fp_1"}
CHAT_USAGE = {
    "prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}, "total_tokens": 12,
    "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": 2},
}  # fmt: skip
CHAT_CHOICE = {"index": 0, "finish_reason": "tool_calls"}
CHAT_CHOICE |= {"message": {"role": "assistant", "content": "Let me see", "tool_calls": TOOLS}}
CHAT_REPLY = CHAT_HEAD | {"choices": [CHAT_CHOICE], "usage": CHAT_USAGE}
CHAT_READ = ReplyReading(
    text="Let me see", tool_uses=(ToolUse("call_1", "look", '{"q":1}'), ToolUse("call_2", "book", "{}")),
    finish_reasons=("tool_calls",), usage=USED, response_id="chatcmpl-1", model="gpt-5-2025", fingerprint="fp_1",
    ids=("chatcmpl-1", "call_1", "call_2"),
)  # fmt: skip


def chunk(delta=None, finish=None, **rest):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return CHAT_HEAD | {"choices": choices, "usage": None, **rest}


def piece(index, arguments, call_id=None, name=None):
    return {"tool_calls": [{"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}]}


CHAT_STREAM = [
    *(chunk({"role": "assistant", "content": ""}), chunk({"content": "Let me"}), chunk({"content": " see"})),
    *(chunk(piece(0, "", "call_1", "look")), chunk(piece(1, "", "call_2", "book")), chunk(piece(1, "{"))),
    *(chunk(piece(0, '{"q"')), chunk(piece(1, "}")), chunk(piece(0, ":1}")), chunk({}, "tool_calls")),
    chunk(usage=CHAT_USAGE),
]
RESPONSE_OUTPUT = [
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see"}]},
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"q":1}'},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "shell", "input": "ls"},
    {"type": "web_search_call", "id": "ws_1"},
]
RESPONSE_HEAD = {"id": "resp_1", "model": "gpt-5-2025"}
RESPONSE_USAGE = {
    "input_tokens": 5, "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 2},
}  # fmt: skip
RESPONSE_REPLY = {**RESPONSE_HEAD, "status": "completed", "output": RESPONSE_OUTPUT, "usage": RESPONSE_USAGE}
RESPONSE_REPLY["error"] = None
RESPONSE_READ = ReplyReading(
    text="Let me see", tool_uses=(ToolUse("call_1", "look", '{"q":1}'), ToolUse("call_2", "shell", "ls")),
    finish_reasons=("completed",), usage=USED, response_id="resp_1", model="gpt-5-2025",
    ids=("resp_1", "rs_1", "msg_1", "fc_1", "call_1", "ctc_1", "call_2", "ws_1"),
)  # fmt: skip


def of_item(kind, index, **rest):
    return {"type": f"response.{kind}", "output_index": index, **rest}


RESPONSE_PIECES = [
    {"type": "response.created", "response": {**RESPONSE_HEAD, "status": "in_progress", "output": []}},
    of_item("output_item.added", 0, item=RESPONSE_OUTPUT[0]),
    of_item("output_item.added", 1, item={**RESPONSE_OUTPUT[1], "content": []}),
    of_item("output_text.delta", 1, content_index=0, delta="Let me"),
    of_item("output_text.delta", 1, content_index=0, delta=" see"),
    of_item("output_item.added", 2, item={**RESPONSE_OUTPUT[2], "arguments": ""}),
    of_item("output_item.added", 3, item={**RESPONSE_OUTPUT[3], "input": ""}),
    of_item("custom_tool_call_input.delta", 3, delta="l"),
    of_item("function_call_arguments.delta", 2, delta='{"q"'),
    of_item("custom_tool_call_input.delta", 3, delta="s"),
    of_item("function_call_arguments.delta", 2, delta=":1}"),
    of_item("output_item.done", 4, item=RESPONSE_OUTPUT[4]),
]
RESPONSE_STREAM = [*RESPONSE_PIECES, {"type": "response.completed", "response": RESPONSE_REPLY}]

LOOK = {"type": "tool_use", "id": "toolu_1", "name": "look"}
NOW = {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
MESSAGE_USAGE = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 7}
MESSAGE_REPLY = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-4", "stop_reason": "tool_use",
    "content": [THOUGHT, {"type": "text", "text": "Let me see"}, SEARCH, {**LOOK, "input": {"q": 1}}, NOW],
    "usage": MESSAGE_USAGE,
}  # fmt: skip
MESSAGE_READ = ReplyReading(
    text="Let me see", tool_uses=(ToolUse("toolu_1", "look", {"q": 1}), ToolUse("toolu_2", "now", {})),
    finish_reasons=("tool_use",), response_id="msg_1", model="claude-4",
    usage={"input_tokens": 10, "output_tokens": 7, "cache_read.input_tokens": 3, "cache_creation.input_tokens": 2},
    ids=("msg_1", "sig", "srvtoolu_1", "toolu_1", "toolu_2"),
)  # fmt: skip


def block(index, start, *deltas):
    yield {"type": "content_block_start", "index": index, "content_block": start}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


def partial(*texts):
    return [{"type": "input_json_delta", "partial_json": text} for text in texts]


STARTED = MESSAGE_REPLY | {"content": [], "stop_reason": None, "usage": {**MESSAGE_USAGE, "output_tokens": 1}}
SIGNED = [{"type": "thinking_delta", "thinking": "hm"}, {"type": "signature_delta", "signature": "sig"}]
SAID = [{"type": "text_delta", "text": text} for text in ("Let me", " see")]
MESSAGE_STREAM = [
    {"type": "message_start", "message": STARTED},
    {"type": "ping"},
    *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *SIGNED),
    *block(1, {"type": "text", "text": ""}, *SAID, {"type": "unheard_of"}),
    *block(2, SEARCH),
    *block(3, {**LOOK, "input": {}}, *partial("", '{"q"', ":1}")),
    *block(4, NOW),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
]

REPLIES = {
    "openai_chat": (CHAT_REPLY, sse(*CHAT_STREAM, end=b"data: [DONE]\n\n"), CHAT_READ),
    "openai_responses": (RESPONSE_REPLY, sse(*RESPONSE_STREAM, named=True), RESPONSE_READ),
    "anthropic": (MESSAGE_REPLY, sse(*MESSAGE_STREAM, named=True), MESSAGE_READ),
}


def read_as(name, body, *more, **facts):
    return READER.read_reply(CALLS[name], reply(body, *more, **facts))


@pytest.mark.parametrize("name", REPLIES)
def test_a_stream_reads_as_the_same_reply_in_one_piece(name):
    plain, stream, read = REPLIES[name]
    assert read_as(name, plain) == read
    assert read_as(name, stream, SSE_TYPE) == read
    assert read_as(name, stream, ()) == read, "without a content type"
    assert read_as(name, gzip.compress(stream), (*SSE_TYPE, ("content-encoding", "gzip"))) == read
    joined = find_dialect(name).join(events(stream))
    assert all(joined[side] == plain[side] for side in ("content", "output") if side in plain)


def test_a_response_is_told_from_its_pieces_and_says_why_it_stopped():
    read = read_as("openai_responses", sse(*RESPONSE_PIECES), SSE_TYPE)
    assert (read.text, read.tool_uses, read.response_id) == (RESPONSE_READ.text, RESPONSE_READ.tool_uses, "resp_1")
    empty_end = {"type": "response.completed", "response": {**RESPONSE_REPLY, "output": []}}
    assert read_as("openai_responses", sse(*RESPONSE_PIECES, empty_end), SSE_TYPE) == RESPONSE_READ
    early = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    refusal = {"output": [{"content": [{"type": "refusal", "refusal": "no"}]}]}
    read = read_as("openai_responses", RESPONSE_REPLY | early | refusal)
    assert (read.finish_reasons, read.text) == (("max_output_tokens",), "no")


def test_chat_streams_of_servers_that_leave_out_the_index():
    def bare(call_id, name, arguments):
        named = {"id": call_id, "function": {"name": name, "arguments": arguments}}
        return chunk({"tool_calls": [named if call_id else {"function": {"arguments": arguments}}]})

    stream = sse(bare("a", "look", '{"q"'), bare("", "", ":1}"), bare("b", "book", "{}"))
    uses = (ToolUse("a", "look", '{"q":1}'), ToolUse("b", "book", "{}"))
    assert read_as("openai_chat", stream, SSE_TYPE).tool_uses == uses


def test_chat_replies_of_old_and_custom_kinds():
    custom = {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    old = {"function_call": {"name": "look", "arguments": "{}"}}
    message = {"content": None, "refusal": "no", "tool_calls": [custom], **old}
    read = read_as("openai_chat", {"choices": [{"message": message}, {"message": {"content": [{"text": "two"}]}}]})
    uses = (ToolUse("c", "sh", "ls"), ToolUse("", "look", "{}"))
    assert (read.text, read.tool_uses) == ("no\ntwo", uses)
    begun = {"index": 0, "id": "c", "custom": {"name": "sh", "input": "l"}}
    stream = sse(
        chunk({"function_call": {"name": "look", "arguments": "{"}}),
        chunk({"function_call": {"arguments": "}"}, "audio": {"id": "au"}, "refusal": "n"}),
        chunk({"refusal": "o", "tool_calls": [begun]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"input": "s"}}]}),
    )
    read = read_as("openai_chat", stream, SSE_TYPE)
    assert (read.text, read.tool_uses) == ("no", uses)


@pytest.mark.parametrize("name", REPLIES)
def test_of_a_stream_that_broke_off_the_rest_is_read_and_the_break_is_told(name):
    stream = REPLIES[name][1]
    broke = Failure("httpx2.RemoteProtocolError", "peer closed")
    for end in range(0, len(stream), 7):
        read = read_as(name, stream[:end], SSE_TYPE, failure=broke)
        assert "Let me see".startswith(read.text)
        assert read.error == "httpx2.RemoteProtocolError: peer closed"
    half = sse(*block(0, {"type": "tool_use", "id": "t", "name": "look", "input": {}}, *partial('{"q"')))
    assert read_as("anthropic", half, SSE_TYPE).tool_uses == (ToolUse("t", "look", '{"q"'),)


SLOW = {"error": {"message": "slow down", "type": "rate_limit", "code": None}}
KEY = {"error": {"message": "bad key", "code": "invalid_api_key"}}
BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
FAILED = {**RESPONSE_REPLY, "status": "failed", "error": {"code": "c", "message": "m"}}
HTML = b"<html>\n Bad   Gateway</html>"


ERRORS = [
    ("openai_chat", reply(SLOW, status=429), "429 rate_limit: slow down"),
    ("openai_chat", reply(KEY, status=401), "401 invalid_api_key: bad key"),
    ("openai_chat", reply({"error": "plain words"}, status=400), "400 plain words"),
    ("openai_chat", reply(sse(chunk({"content": "x"}), {"error": {"message": "full"}}), SSE_TYPE), "full"),
    ("openai_responses", reply(sse({"type": "error", "code": "e", "message": "boom"}), SSE_TYPE), "e: boom"),
    ("openai_responses", reply(FAILED), "c: m"),
    ("anthropic", reply(BUSY, status=529), "529 overloaded_error: busy"),
    ("anthropic", reply(sse(BUSY, named=True), SSE_TYPE), "overloaded_error: busy"),
    ("openai_chat", reply(HTML, (("content-type", "text/html"),), 502), "502 <html> Bad Gateway</html>"),
    ("openai_chat", reply(b"", (), 503, reason="Service Unavailable"), "503 Service Unavailable"),
    ("openai_chat", reply(b"", (), 503), "503 no body"),
    ("openai_chat", reply(b'{"er', status=429, failure=Failure("h.ReadError")), '429 {"er; h.ReadError'),
    ("openai_chat", Failure("httpx2.ConnectTimeout", "timed out"), "httpx2.ConnectTimeout: timed out"),
    ("openai_chat", None, ""),
    ("openai_chat", ToolReply(1), ""),
]


def test_errors_in_the_words_of_the_reply():
    found = [READER.read_reply(CALLS[name], outcome).error for name, outcome, _ in ERRORS]
    assert found == [error for *_, error in ERRORS]


def test_a_reply_to_unknown_http_is_its_text():
    tool = call({"q": 1}, "https://crm.example/orders")
    assert READER.read_reply(tool, reply({"order": 1})).text == '{"order": 1}'
    assert READER.read_reply(tool, reply(sse({"a": 1}), SSE_TYPE)).text.startswith("data:")
    assert READER.read_reply(tool, reply(b"\x89PNG", (("content-type", "image/png"),))) == ReplyReading()


# ---- never an error

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/g:streamGenerateContent",
    "bedrock": "/model/m/converse-stream",
    "ollama_chat": "/api/chat",
    "ollama_generate": "/api/generate",
    "cohere": "/v2/chat",
    "openai_embeddings": "/v1/embeddings",
    "gemini_embeddings": "/v1beta/models/g:batchEmbedContents",
    "vertex_embeddings": "/v1/models/g:predict",
    "ollama_embeddings": "/api/embed",
    "cohere_embeddings": "/v2/embed",
    "rerank": "/v1/rerank",
}
WORDS = [
    *("", "x", "tool_use", "tool_result", "function_call", "text", "data:,x", "response.create", "session.update"),
    *("conversation.item.create", "response.done", "error"),
]
NAMES = sorted(
    words("""
role content tool_calls function custom id name arguments input messages model tools system max_tokens type text choices
message delta index usage error finish_reason output item output_index content_index response content_block url data
partial_json call_id tool_call_id source image_url parts functionCall functionResponse args toolUse toolResult toolConfig
toolUseId contentBlockIndex start candidates usageMetadata systemInstruction embeddings embedding values results images
predictions inlineData bytes tool_plan functionDeclarations jsonrpc method params result meta format mime_type thinking
promptFeedback reasoningContent tokens event_id session instructions transcript setup clientContent client_content turns
turnComplete toolResponse functionResponses realtimeInput serverContent modelTurn toolCall functionCalls status ids
documents distances hits score node $tuple x
""")
)
GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=15,
)
KINDS = sorted(
    words("""
content_block_delta response.output_text.delta message_delta error chunk fooException contentBlockStart metadata
contentBlockDelta content-delta tool-call-start tool-call-delta tool-plan-delta message-end content_block_start
response.output_item.added
""")
)
LIVE = "wss://generativelanguage.googleapis.com/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
SOCKETS = [
    "wss://api.openai.com/v1/realtime?model=m",
    "wss://api.openai.com/v1/responses",
    LIVE,
    "stdio:python server.py",
]


def reads(dialect, body, values, kind):
    """Garbage as the body of a call, as its reply, as a stream of each form, as frames, and in this process."""
    shaped = {name: [body] for name in ("messages", "input", "contents", "documents", "instances")}
    shaped |= {"max_tokens": 1, "model": "m", "prompt": "p", "query": "q", **(body if isinstance(body, dict) else {})}
    sent = call(shaped, f"https://a{PATHS[dialect.name]}")
    reading = READER.read_call(sent)
    assert all(isinstance(show_message(message), str) for message in reading.messages)
    READER.tool_uses(reading)
    READER.tool_results(reading)
    stream = sse(*({"type": kind, **v} if isinstance(v, dict) and kind else v for v in values))
    ndjson = b"\n".join(json.dumps(v).encode() for v in values)
    frames = b"".join(write_frame(kind, v) for v in values)
    forms = (body, JSON_TYPE), (values, JSON_TYPE), (stream, SSE_TYPE), (ndjson, NDJSON_TYPE), (frames, FRAMES_TYPE)
    for data, headers in forms:
        READER.read_reply(sent, reply(data, headers))
    show_message(body)
    json_rpc.read_message(body)
    json_rpc.read_answer(json_rpc.answer([body, *values], body))
    for url in SOCKETS:
        message = FrameCall(url, 1, body=Body(json.dumps(body).encode()))
        assert READER.read_call(message).name
        READER.read_reply(message, FramesReply.from_frames(Frame(json.dumps(v).encode()) for v in values))
    READER.read_chunks(ToolReply(body))
    READER.read_reply(ToolCall("m", boundary="model"), ToolReply(body))
    for boundary in ("model", "retrieval"):
        READER.read_call(ToolCall("m", {"messages": body, "query": body, "tools": body}, boundary))


ANYTHING = st.sampled_from([*list_ours()]), GARBAGE, st.lists(GARBAGE, max_size=4), st.sampled_from(["", *KINDS])
TRIES = [40, pytest.param(500, marks=pytest.mark.exhaustive)]


@pytest.mark.parametrize("tries", TRIES)
def test_reading_never_raises_whatever_json_comes(tries):
    settings(max_examples=tries)(given(*ANYTHING)(reads))()


@given(st.binary(max_size=60), st.sampled_from(list(CALLS.values())))
def test_reading_never_raises_whatever_bytes_come(data, sent):
    for headers in (JSON_TYPE, SSE_TYPE, (), (("content-encoding", "gzip"),)):
        READER.read_reply(sent, reply(data, headers))
        READER.read_call(call(data, sent.url, headers=headers))


# ---- event streams


def test_event_streams():
    lines = [": comment", "event: a", "data: one", "data:two", "id: 3", "", "data", "", "event: lost", ""]
    for end in ("\n", "\r\n", "\r"):
        data = ("\ufeff" + end.join([*lines, "retry: 5", "data: last"])).encode()
        found = [(event.name, event.data) for event in events(data)]
        assert found == [("a", "one\ntwo"), ("message", ""), ("message", "last")], end
    told = [ServerSentEvent("message", data).value for data in ('{"a":1}', "[DONE]", "[1]")]
    assert told == [{"a": 1}, None, None]
    streams = (
        ("Text/Event-Stream; charset=utf-8", b""),
        ("", b"event: x"),
        ("application/json", b"data: x"),
        ("", b"{}"),
    )
    assert [is_stream(*one) for one in streams] == [True, True, False, False]
