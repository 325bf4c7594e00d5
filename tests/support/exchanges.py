"""HTTP calls of models and their replies, as the dialects are given them."""

from __future__ import annotations

import json
from typing import Any

from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply

JSON_TYPE = (("content-type", "application/json"),)
NDJSON_TYPE = (("content-type", "application/x-ndjson"),)
FRAMES_TYPE = (("content-type", "application/vnd.amazon.eventstream"),)
SSE_TYPE = (("content-type", "text/event-stream; charset=utf-8"),)
CHAT = "https://api.openai.com/v1/chat/completions"


def body_of(value: Any) -> Body:
    return Body(value if isinstance(value, bytes) else json.dumps(value).encode())


def call(body: Any, url: str = CHAT, method: str = "POST", headers: Any = JSON_TYPE) -> HttpCall:
    return HttpCall(method, url, headers, body_of(body))


def reply(body: Any, headers: Any = JSON_TYPE, status: int = 200, **more: Any) -> HttpReply:
    held = body_of(body)
    return HttpReply(status, headers=headers, body=held, cuts=(len(held),), **more)


def sse(*values: Any, named: bool = False, end: bytes = b"") -> bytes:
    """The values as server-sent events, with the name of the event before each where they are `named`."""
    names = ((f"event: {value['type']}\n" if named else "").encode() for value in values)
    events = (name + b"data: " + json.dumps(value).encode() for name, value in zip(names, values, strict=True))
    return b"".join(event + b"\n\n" for event in events) + end


def chat_use(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A tool call in a chat message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
