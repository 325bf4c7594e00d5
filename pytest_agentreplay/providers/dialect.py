"""How calls over HTTP are read: by a dialect of a model API, one row of the table in `providers`; and without one.

What every HTTP reply may carry is read here too: its text, and what went wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.compare.matching.address import header
from pytest_agentreplay.model.reading import CallReading
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.compare.matching.address import MatchContent, Url
    from pytest_agentreplay.model.exchanges import HttpCall, HttpReply, Json, JsonObject
    from pytest_agentreplay.model.reading import ReplyReading
    from pytest_agentreplay.providers.streams import ServerSentEvent


class Dialect(NamedTuple):
    """A model API that is spoken over HTTP POST and JSON.

    A call is of this dialect when its path ends with the pattern `path`, whatever the host and the path before it, and
    its body `fits`. `provider` is said when neither the host nor the path tells one. `join` makes of a stream's events
    the body that the same reply would have had in one piece. None of the functions raises, whatever the JSON.
    """

    name: str
    path: str
    provider: str
    fits: Callable[[JsonObject], bool]
    read_call: Callable[[JsonObject, Url], CallReading]
    join: Callable[[Iterable[ServerSentEvent]], JsonObject]
    read_reply: Callable[[JsonObject], ReplyReading]

    def matches_path(self, path: str) -> bool:
        """Return whether a path ends as those of this dialect do."""
        return re.search(f"(?:{self.path})$", path) is not None


def read_request(
    body: JsonObject,
    *,
    model: str | None = None,
    system_in: str = "",
    messages_in: str = "messages",
    tools_in: str = "tools",
    path: str = "$",
    **more: Any,
) -> CallReading:
    """Read what the requests of most APIs have in common: fields of these names ("" for none), the rest as parameters.

    `model` is that of the body unless something else names it, `at` the place of `body`; `more` replaces what is read.
    """
    model = string(body.get("model")) if model is None else model
    names = {"system": system_in, "messages": messages_in, "tools": tools_in}
    present = {kind: name for kind, name in names.items() if name and name in body}
    elements = {kind: _elements(body[name]) for kind, name in present.items()}
    fields: dict[str, Any] = {
        "kind": "model",
        "name": model,
        "operation": "chat",
        "model": model,
        "parameters": rest(body, "model", *present.values()),
        "stream": body.get("stream") is True,
        **elements,
        **{f"{kind}_at": f"{path}.{name}" for kind, name in present.items()},
    }
    return CallReading(**{**fields, **more})


def _elements(value: Any) -> tuple[Json, ...]:
    """The elements of a list, or the only one."""
    return tuple(arr(value)) if isinstance(value, list) or value is None else (value,)


_FIELD = re.compile(r'\bname="([^"]*)"')
_TEXTS = re.compile(r"text/|json|xml|javascript|x-www-form-urlencoded|event-stream", re.IGNORECASE)
_ERROR_TEXT = 300


def read_unknown_call(call: HttpCall, url: Url, request: MatchContent) -> CallReading:
    """Read any request that no dialect fits: `parameters` are the body's fields where it has fields."""
    from pytest_agentreplay.providers import json_rpc

    tree = request.tree
    where = url.host if url.loopback or url.port is None else f"{url.host}:{url.port}"
    rpc = tree if request.kind == "json" else None
    return CallReading(
        kind="http",
        name=f"{call.method} {where}{url.path}",
        operation=", ".join(json_rpc.methods(rpc)),
        parameters=_read_multipart(tree) if request.kind == "multipart" else obj(tree),
        client_ids=json_rpc.client_ids(rpc),
    )


def text_of(reply: HttpReply, data: bytes) -> str:
    """The decoded body where its type says that it is text, else ""."""
    return data.decode("utf-8", "replace") if _TEXTS.search(header(reply.headers, "content-type")) else ""


def error_of(reply: HttpReply, body: JsonObject, data: bytes) -> str:
    """What went wrong, in the words of the reply; "" when nothing did."""
    message = _read_error(body, failed=reply.status >= 400)
    if not message and reply.status >= 400:
        message = " ".join(data[: _ERROR_TEXT * 4].decode("utf-8", "replace").split())[:_ERROR_TEXT]
        message = message or reply.reason or "no body"
    if reply.status >= 400:
        message = f"{reply.status} {message}"
    if reply.failure is not None:
        broke = f"{reply.failure.type}: {reply.failure.message}".rstrip(": ")
        message = f"{message}; {broke}" if message else broke
    return message


def _read_error(body: JsonObject, *, failed: bool) -> str:
    """What an error says; the reply of a request that failed may be one itself."""
    error = body.get("error", body if failed else None)
    if isinstance(error, str):
        return error
    details = obj(error)
    # A stream's error event may nest: {"type": "error", "error": {...}}.
    inner = obj(details.get("error")) or details
    message = string(inner.get("message"))
    kind = string(inner.get("type")).removeprefix("error") or string(inner.get("code"))
    kind = kind or string(inner.get("status"))
    return f"{kind}: {message}" if kind and message else message or kind


def _read_multipart(tree: Json) -> JsonObject:
    """The parts of a multipart by the name of their field, else by their place."""
    parts: JsonObject = {}
    for place, part in enumerate(objects(tree)):
        match = _FIELD.search(string(part["headers"]))
        parts[match[1] if match else str(place)] = part["body"]
    return parts
