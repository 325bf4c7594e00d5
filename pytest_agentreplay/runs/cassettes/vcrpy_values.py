"""Requests and replies of vcrpy as calls and replies of ours. Nothing here imports vcrpy: its objects are handed in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import JsonObject

JSON_TYPE = ("content-type", "application/json")


def read_request(request: Any) -> HttpCall:
    """Return a `vcr.request.Request`, or the stub of one, as a call.

    aiohttp's stub keeps `json=` and `data=` as the object that the caller gave; it is taken for JSON.
    """
    headers = tuple(flatten_headers(request.headers))
    # Private since vcrpy 4: `body` makes a new file or iterator of a body that was one, `_body` is what was read.
    # https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/request.py
    body = getattr(request, "_body", None)
    if isinstance(body, list) and all(isinstance(part, bytes) for part in body):
        body = b"".join(body)
    if isinstance(body, dict | list | tuple):
        body = json.dumps(body, default=str).encode()
        headers = (JSON_TYPE, *(pair for pair in headers if pair[0].lower() != JSON_TYPE[0]))
    elif isinstance(body, str):
        body = body.encode()
    return HttpCall(request.method.upper(), request.uri.partition("#")[0], headers, Body(bytes(body or b"")))


def read_reply(response: JsonObject) -> HttpReply:
    """Return a recorded response, in today's form or in that of vcrpy's first releases for httpx, as a reply."""
    status: Any = response.get("status", {"code": response.get("status_code"), "message": ""})
    body: Any = response.get("body", {"string": response.get("content", b"")})
    text = body.get("string", b"") if isinstance(body, dict) else body
    data = text.encode() if isinstance(text, str) else bytes(text or b"")
    return HttpReply(
        status["code"], status.get("message") or "", "HTTP/1.1", tuple(flatten_headers(response["headers"])), Body(data)
    )


def flatten_headers(headers: Any) -> Iterator[tuple[str, str]]:
    """Yield the headers as pairs; a value may be a list, or one text, as bytes too."""
    for name, values in headers.items():
        for value in values if isinstance(values, list | tuple) else (values,):
            yield to_text(name), to_text(value)


def to_text(value: Any) -> str:
    """Return the name or value of a header, byte for character."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
