"""A `Dialect` is one API of a model provider: which calls over HTTP it knows, how it reads them and how it writes them.

The functions here read what most APIs have in common, and what any HTTP call and reply may carry without an API: the
name of a request, the text of a reply, and what went wrong.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.compare.matching.address import header
from pytest_agentreplay.model.reading import CallReading, ReplyReading
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string, unique

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.compare.matching.address import MatchContent, Url
    from pytest_agentreplay.model.exchanges import HttpCall, HttpReply, Json, JsonObject
    from pytest_agentreplay.model.reading import ToolUse
    from pytest_agentreplay.providers.model_reply import Conversation, ModelReply
    from pytest_agentreplay.providers.streams import ServerSentEvent


def join_none(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the last event, for an API that does not stream."""
    return next((event.value for event in reversed(list(events)) if event.value), {})


class Unread(Exception):
    """The dialect of another package failed, which is reported already: nobody knows the call."""


class Writer(NamedTuple):
    """How the requests and replies of an API are written.

    Attributes:
        base: The API's own host, "https://api.openai.com".
        path: Where a request goes. `{name}` stands for the model, `{quoted}` for the model and what stands before it.
        write_request: Makes the body of a request, without its parameters.
        write_reply: Makes the body of a reply in one piece; gets the body of the request, too.
        write_stream: Makes a reply as a stream, an item for each event; gets the body of the request, too.
        stream_path: Where a request for a stream goes if the path names model and stream; "" if the body does.
        group: The field of the body in which the API wants its parameters; "" for the body itself.
        stream_type: The content type of a stream.
    """

    base: str
    path: str
    write_request: Callable[[Conversation], JsonObject]
    write_reply: Callable[[ModelReply, JsonObject], JsonObject]
    write_stream: Callable[[ModelReply, JsonObject], tuple[bytes, ...]]
    stream_path: str = ""
    group: str = ""
    stream_type: str = "text/event-stream; charset=utf-8"


class Dialect(NamedTuple):
    """An API of a model provider that is spoken over HTTP POST and JSON.

    A call is of this dialect if its path ends with `path`, whatever stands before, and its body `fits`. None of the
    functions raises, whatever the JSON.

    Attributes:
        name: The scope of rules, and what people are shown; no other dialect has it.
        path: A regular expression for the end of the path, "/v1/messages".
        provider: The provider, if neither the host nor `read_call` names one.
        fits: Whether a body has the shape of a request.
        read_call: Reads a request from its body and URL.
        read_reply: Reads the body of a reply.
        join: Makes of the events of a stream the body that the same reply would have had in one piece.
        writer: How requests and replies are written; None if nobody needs that.
    """

    name: str
    path: str
    provider: str
    fits: Callable[[JsonObject], bool]
    read_call: Callable[[JsonObject, Url], CallReading]
    read_reply: Callable[[JsonObject], ReplyReading]
    join: Callable[[Iterable[ServerSentEvent]], JsonObject] = join_none
    writer: Writer | None = None

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
    """Read what the requests of most APIs have in common; every field that is not named here is a parameter.

    Args:
        body: The body, or the part of it that holds the request.
        model: The model; None for the field "model".
        system_in: The field with the instructions; "" for none.
        messages_in: The field with the messages; "" for none.
        tools_in: The field with the tools; "" for none.
        path: Where `body` stands in the whole body.
        **more: Fields of the reading that take the place of what is read here.
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


def make_reading(
    body: JsonObject,
    uses: Iterable[ToolUse] = (),
    *,
    finish: Iterable[str] = (),
    ids: Iterable[str] | None = None,
    **more: Any,
) -> ReplyReading:
    """Read what the replies of most APIs have in common: the fields "id" and "model".

    Args:
        body: The body of the reply.
        uses: The calls of tools that the agent has to answer.
        finish: Why the reply ended; what is empty does not count.
        ids: The ids that the reply minted; None for its own and those of the calls.
        **more: Fields of the reading, beside or instead of what is read here.
    """
    fields: dict[str, Any] = {
        "response_id": string(body.get("id")),
        "model": string(body.get("model")),
        "tool_uses": tuple(uses),
        **more,
    }
    minted = [fields["response_id"], *(use.id for use in fields["tool_uses"])] if ids is None else ids
    return ReplyReading(**fields, finish_reasons=unique(finish), ids=unique(minted))


_FIELD = re.compile(r'\bname="([^"]*)"')
_TEXTS = re.compile(r"text/|json|xml|javascript|x-www-form-urlencoded|event-stream", re.IGNORECASE)
# Characters that are shown of an error that is no JSON: proxies send whole pages of HTML.
_ERROR_TEXT = 300


def read_unknown_call(call: HttpCall, url: Url, request: MatchContent) -> CallReading:
    """Return what can be said of a request that no dialect fits; its parameters are the fields of its body."""
    from pytest_agentreplay.providers import json_rpc

    tree = request.tree
    rpc = tree if request.kind == "json" else None
    return CallReading(
        kind="http",
        name=f"{call.method} {name_place(url)}",
        operation=", ".join(json_rpc.methods(rpc)),
        parameters=_read_multipart(tree) if request.kind == "multipart" else obj(tree),
        client_ids=json_rpc.client_ids(rpc),
    )


def name_place(url: Url) -> str:
    """Return host and path; a loopback port is left out, which the system picks anew for each run."""
    return f"{url.host if url.loopback or url.port is None else f'{url.host}:{url.port}'}{url.path}"


def text_of(reply: HttpReply, data: bytes) -> str:
    """Return the decoded body of a reply whose type says that it is text, else ""."""
    return data.decode("utf-8", "replace") if _TEXTS.search(header(reply.headers, "content-type")) else ""


def error_of(reply: HttpReply, body: JsonObject, data: bytes) -> str:
    """Return what went wrong, in the words of the reply; "" if nothing did."""
    message = _read_error(body, failed=reply.status >= 400)
    if not message and reply.status >= 400:
        # Four bytes are the most that a character takes in UTF-8.
        message = " ".join(data[: _ERROR_TEXT * 4].decode("utf-8", "replace").split())[:_ERROR_TEXT]
        message = message or reply.reason or "no body"
    if reply.status >= 400:
        message = f"{reply.status} {message}"
    if reply.failure is not None:
        broke = f"{reply.failure.type}: {reply.failure.message}".rstrip(": ")
        message = f"{message}; {broke}" if message else broke
    return message


def _read_error(body: JsonObject, *, failed: bool) -> str:
    """Return kind and message of an error; the body of a request that failed may be the error itself."""
    error = body.get("error", body if failed else None)
    if isinstance(error, str):
        return error
    details = obj(error)
    # A stream's error event may nest: {"type": "error", "error": {...}}.
    inner = obj(details.get("error")) or details
    message = string(inner.get("message"))
    kind = string(inner.get("type")).removeprefix("error") or string(inner.get("code")) or string(inner.get("status"))
    return f"{kind}: {message}" if kind and message else message or kind


def _read_multipart(tree: Json) -> JsonObject:
    """Return the parts of a multipart body by the name of their field, else by their place."""
    parts: JsonObject = {}
    for place, part in enumerate(objects(tree)):
        match = _FIELD.search(string(part["headers"]))
        parts[match[1] if match else str(place)] = part["body"]
    return parts
