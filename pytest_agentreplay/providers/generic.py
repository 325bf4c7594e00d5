"""HTTP that no dialect knows, and what every HTTP reply may carry: JSON-RPC envelopes, forms, error texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import header
from pytest_agentreplay.model.reading import CallReading
from pytest_agentreplay.providers.lenient import obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.compare.matching.address import MatchContent, Url
    from pytest_agentreplay.model.exchanges import HttpCall, HttpReply, Json, JsonObject

_FIELD = re.compile(r'\bname="([^"]*)"')
_TEXTS = re.compile(r"text/|json|xml|javascript|x-www-form-urlencoded|event-stream", re.IGNORECASE)
_ERROR_TEXT = 300


def read_call(call: HttpCall, url: Url, held: MatchContent) -> CallReading:
    """Read any request: `parameters` are the body's fields where it has fields."""
    tree = held.tree
    where = url.host if url.loopback or url.port is None else f"{url.host}:{url.port}"
    operation, ids = json_rpc(tree) if held.kind == "json" else ("", ())
    return CallReading(
        kind="http",
        name=f"{call.method} {where}{url.path}",
        operation=operation,
        parameters=_parts(tree) if held.kind == "multipart" else obj(tree),
        client_ids=ids,
    )


def text_of(reply: HttpReply, data: bytes) -> str:
    """The decoded body where its type says that it is text, else ""."""
    return data.decode("utf-8", "replace") if _TEXTS.search(header(reply.headers, "content-type")) else ""


def error_of(reply: HttpReply, body: JsonObject, data: bytes) -> str:
    """What went wrong, in the words of the reply; "" when nothing did."""
    said = _message(body, failed=reply.status >= 400)
    if not said and reply.status >= 400:
        said = " ".join(data[: _ERROR_TEXT * 4].decode("utf-8", "replace").split())[:_ERROR_TEXT]
        said = said or reply.reason or "no body"
    if reply.status >= 400:
        said = f"{reply.status} {said}"
    if reply.failure is not None:
        broke = f"{reply.failure.type}: {reply.failure.message}".rstrip(": ")
        said = f"{said}; {broke}" if said else broke
    return said


def _message(body: JsonObject, *, failed: bool) -> str:
    """What an error says; the reply of a request that failed may be one itself."""
    error = body.get("error", body if failed else None)
    if isinstance(error, str):
        return error
    found = obj(error)
    # A stream's error event may nest: {"type": "error", "error": {...}}.
    inner = obj(found.get("error")) or found
    message = string(inner.get("message"))
    kind = string(inner.get("type")).removeprefix("error") or string(inner.get("code"))
    kind = kind or string(inner.get("status"))
    return f"{kind}: {message}" if kind and message else message or kind


def json_rpc(tree: Json) -> tuple[str, tuple[str, ...]]:
    """The method of a JSON-RPC request and the paths of the ids that its client made; a client's answer has none."""
    from pytest_agentreplay.providers import mcp

    return ", ".join(mcp.methods(tree)), mcp.client_ids(tree)


def _parts(tree: Json) -> JsonObject:
    """The parts of a multipart by the name of their field, else by their place."""
    found: JsonObject = {}
    for place, part in enumerate(objects(tree)):
        named = _FIELD.search(string(part["headers"]))
        found[named[1] if named else str(place)] = part["body"]
    return found
