"""Operators that change what came from a network: errors before an answer, streams, and the fields of an answer."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.compare.matching.address import decode_body, header
from pytest_agentreplay.model.canonical_json import parse
from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.streams import is_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.model.exchanges import Exchange, Headers, Json, Outcome

JSON: tuple[str, str] = ("content-type", "application/json")
AT_ONCE: Headers = (("retry-after", "0"), ("retry-after-ms", "1"))
"""Has SDKs repeat a call at once, so that a trial does not wait."""
NETWORK = ("httpx.NetworkError", "httpx.TransportError", "builtins.ConnectionError", "builtins.OSError")
# Not a ConnectError: after that nothing was sent, and whoever repeats a call that changes something is right.
RESET = Failure("httpx.ReadError", "Connection reset by peer", bases=(*NETWORK, "builtins.Exception"))
TOOL_RESET = Failure("builtins.ConnectionResetError", RESET.message, bases=(*NETWORK[2:], "builtins.Exception"))
BROKEN = replace(RESET, message="Connection broken in the middle of the body")
TIMED_OUT = ("httpx.TimeoutException", "httpx.TransportError", "builtins.TimeoutError", "builtins.Exception")
TIMEOUT = Failure("httpx.ReadTimeout", "The read operation timed out", bases=TIMED_OUT)
ERROR_BODY = b'{"error": {"message": "The server is overloaded", "type": "server_error", "code": null}}'
HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
PIECES = (1, 2, 3, 5, 7, 16, 64)
"""Sizes of chunks, in bytes; 1 cuts every character and every line end."""
CUTS = 48
"""Bytes at which a stream is cut, beside the ends of its events."""


def make_error(status: int, body: bytes, kind: str = JSON[1]) -> HttpReply:
    """Return an answer that is an error."""
    length = ("content-length", str(len(body)))
    headers = (("content-type", kind), length, *AT_ONCE)
    return HttpReply(status, "Error", headers=headers, body=Body(body), cuts=(len(body),) if body else ())


# What comes once instead of an answer, by operator, where it is the same for every call.
ONCE: dict[str, Outcome] = {
    "partial-error": make_error(429, ERROR_BODY[: len(ERROR_BODY) // 2]),
    "html-error": make_error(502, HTML, "text/html"),
    "empty-error": make_error(500, b""),
    "connection-reset": RESET,
    "tool-reset": TOOL_RESET,
    "timeout": TIMEOUT,
}


def make_fault(operator: str, exchange: Exchange, argument: Json, _run: Run) -> Outcome:
    """Return what comes once instead of the recorded answer."""
    if operator == "broken-body":
        reply = exchange.outcome
        assert isinstance(reply, HttpReply)
        data = reply.body.data[: len(reply.body) // 2]
        return replace(reply, body=Body(data), cuts=(len(data),), failure=BROKEN)
    return ONCE.get(operator) or make_error(argument if isinstance(argument, int) else 503, ERROR_BODY)


def list_faults(operator: str, exchange: Exchange, _run: Run) -> Sequence[Json]:
    """Return the arguments of an operator that has an error come first; none where it does not fit the call."""
    reply = exchange.outcome
    if operator == "tool-reset":
        is_tool = isinstance(exchange.call, ToolCall) and exchange.call.boundary == "tool"
        return (None,) if is_tool and isinstance(reply, ToolReply) and reply.items is None else ()
    if not isinstance(exchange.call, HttpCall) or not isinstance(reply, HttpReply) or reply.status >= 400:
        return ()
    if operator == "server-error":
        return (500, 429, 503)
    return (None,) if operator != "broken-body" or len(reply.body) > 1 else ()


def read_plain(reply: HttpReply) -> tuple[HttpReply, bytes]:
    """Return the answer without a content coding, and its bytes."""
    data, _ = decode_body(reply.body.data, header(reply.headers, "content-encoding"))
    kept = tuple(pair for pair in reply.headers if pair[0].lower() not in {"content-encoding", "content-length"})
    return replace(reply, headers=kept), data


def with_bytes(reply: HttpReply, data: bytes, cuts: Sequence[int] = ()) -> HttpReply:
    """Return the answer with other bytes, cut as `cuts` say: in one piece where they say nothing."""
    cuts = tuple(cuts) if sum(cuts) == len(data) else (len(data),) if data else ()
    headers = tuple(
        (name, str(len(data))) if name.lower() == "content-length" else (name, value) for name, value in reply.headers
    )
    return replace(reply, headers=headers, body=Body(data), cuts=cuts)


def with_events(reply: HttpReply, events: Sequence[bytes]) -> HttpReply:
    """Return the answer with these events, each in a piece of its own."""
    return with_bytes(reply, b"".join(events), [*map(len, events)])


def split_events(data: bytes) -> list[bytes]:
    """Return the events of a stream, each with the empty line that ends it."""
    end = b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n"
    return [part + end for part in data.split(end) if part]


def is_event_stream(reply: HttpReply) -> bool:
    """Return whether an answer is a stream of server-sent events."""
    return is_stream(header(reply.headers, "content-type"), reply.body.data) and reply.failure is None


def change_bytes(operator: str, exchange: Exchange, argument: Json, _run: Run) -> HttpReply:
    """Return the recorded answer with its bytes changed by an operator on streams or bodies."""
    recorded = exchange.outcome
    assert isinstance(recorded, HttpReply)
    reply, data = read_plain(recorded)
    number = argument if isinstance(argument, int) else 0
    match operator:
        case "split-stream":
            return with_bytes(reply, data, [len(data[at : at + number]) for at in range(0, len(data), number)])
        case "stream-comments":
            return with_bytes(reply, b": ping\n\n" + b": ping\n\n".join(split_events(data)))
        case "stream-crlf":
            return with_bytes(reply, data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
        case "unknown-event":
            events = split_events(data)
            at = min(number, len(events))
            event = UNKNOWN_EVENTS[READER.read_call(exchange.call).dialect]
            return with_events(reply, [*events[:at], event, *events[at:]])
        case "cut-stream":
            ends = [end for end in accumulate(recorded.cuts) if end < number] if data == recorded.body.data else []
            cuts = [end - start for start, end in zip([0, *ends], [*ends, number], strict=True)]
            return with_bytes(reply, data[:number], cuts)
        case "double-event":
            events = split_events(data)
            return with_events(reply, [*events[: number + 1], *events[number:]])
        case "member-order":
            return change_trees(reply, data, reverse_members)
        case _:
            return change_trees(reply, data, lambda tree: {**tree, "x_unheard_of": {"since": "2031"}})


def list_changes(operator: str, exchange: Exchange, _run: Run) -> Sequence[Json]:
    """Return the arguments of an operator on the bytes of an answer, the simplest first; none where it does not fit."""
    reply = exchange.outcome
    if not isinstance(exchange.call, HttpCall) or not isinstance(reply, HttpReply) or reply.status >= 400:
        return ()
    if not reply.body.data or reply.failure is not None:
        return ()
    if operator in {"unknown-field", "member-order"}:
        _, data = read_plain(reply)
        return (None,) if is_event_stream(reply) or isinstance(parse(data), dict) else ()
    if operator == "split-stream":
        return PIECES if len(reply.body) > 1 else ()
    if not is_event_stream(reply):
        return ()
    _, data = read_plain(reply)
    ends = [*accumulate(len(event) for event in split_events(data))]
    match operator:
        case "unknown-event":
            can_grow = READER.read_call(exchange.call).dialect in UNKNOWN_EVENTS
            return (*sorted({0, len(ends) // 2, max(len(ends) - 1, 0)}),) if can_grow else ()
        case "double-event":
            return (*range(max(len(ends) - 1, 0)),)
        case "cut-stream":
            step = max(1, len(data) // CUTS)
            return (*dict.fromkeys([*ends[:-1], *range(step, len(data), step)]),)
        case _:
            return (None,)


UNKNOWN_EVENTS = {
    "openai_chat": b'data: {"id": "", "object": "chat.completion.chunk", "created": 0, "model": "", "choices": []}\n\n',
    "openai_responses": b'event: response.unheard_of\ndata: {"type": "response.unheard_of", "sequence_number": 0}\n\n',
    "anthropic": b'event: unheard_of\ndata: {"type": "unheard_of"}\n\n',
    "gemini": b'data: {"unheardOf": true}\n\n',
}
"""By dialect, an event that its API may add: Anthropic documents that new types come, OpenAI chunks without a choice.

https://docs.anthropic.com/en/docs/build-with-claude/streaming, https://platform.openai.com/docs/api-reference/chat-streaming
"""


def change_trees(reply: HttpReply, data: bytes, change: Callable[[dict[str, Any]], dict[str, Any]]) -> HttpReply:
    """Return the answer with each of its JSON objects changed, those in the events of a stream too."""
    if not is_stream(header(reply.headers, "content-type"), data):
        return with_bytes(reply, dump(change(json.loads(data))))
    lines = data.split(b"\n")
    for at, line in enumerate(lines):
        if line.startswith(b"data:"):
            tree = parse(line[5:])
            if isinstance(tree, dict):
                lines[at] = b"data: " + dump(change(tree)) + b"\r" * line.endswith(b"\r")
    return with_bytes(reply, b"\n".join(lines))


def dump(tree: Json) -> bytes:
    """Return JSON as services write it."""
    return json.dumps(tree, ensure_ascii=False).encode("utf-8", "surrogatepass")


def reverse_members(tree: Any) -> Any:
    """Return JSON whose members come in the opposite order."""
    if isinstance(tree, dict):
        return {name: reverse_members(tree[name]) for name in reversed(tree)}
    return [reverse_members(item) for item in tree] if isinstance(tree, list) else tree
