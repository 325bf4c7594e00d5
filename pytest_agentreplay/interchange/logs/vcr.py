"""Recordings of vcrpy and of go-vcr: requests and replies in the order in which a test made them, a file a test.

Both write YAML; vcrpy also JSON. Neither knows when something happened, nor of which tool.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import Body, HttpCall, HttpReply
from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.errors import TraceError
from pytest_agentreplay.interchange import wire
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import runs
from pytest_agentreplay.interchange.logs.recorded import RecordedCalls, heard
from pytest_agentreplay.interchange.trace import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.model import Headers, Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

LOSS = "neither times nor a session: the order is that of the file"


def _interactions(opened: Opened) -> list[JsonObject]:
    """The interactions of a file. Some serializers keep requests and replies in two lists."""
    found = obj(opened.rows[0]) if len(opened.rows) == 1 else {}
    if isinstance(found.get("interactions"), list):
        return objects(found["interactions"])
    return [
        {"request": asked, "response": told}
        for asked, told in zip(objects(found.get("requests")), objects(found.get("responses")), strict=False)
    ]


def _is_python(opened: Opened) -> bool:
    return any("uri" in obj(one.get("request")) for one in _interactions(opened))


def _is_go(opened: Opened) -> bool:
    return not _is_python(opened) and any("url" in obj(one.get("request")) for one in _interactions(opened))


def _traces(opened: Opened, name: str, read: Callable[[JsonObject], RecordedCalls]) -> list[Trace]:
    found = heard(map(read, _interactions(opened)))
    if not found.rows:
        said = "; ".join(found.losses) or "nothing in it"
        raise TraceError(f"holds no call of a model or of a tool ({said})", file=opened.file)
    version = str(obj(opened.rows[0]).get("version") or "")
    source = Source(format=name, version=version, file=opened.file, fidelity=found.fidelity)
    return runs.traces(found.rows, source, LOSS, *found.losses, together=True, missing=found.missing)


def _python(one: JsonObject) -> RecordedCalls:
    asked, told = obj(one.get("request")), obj(one.get("response"))
    sent, sent_exact = _body(asked)
    came, came_exact = _body(told)
    status = obj(told.get("status"))
    code = status.get("code", told.get("status_code"))
    reply = HttpReply(
        code if isinstance(code, int) else 0, string(status.get("message")), headers=_pairs(told), body=Body(came)
    )
    request = HttpCall(string(asked.get("method")).upper(), string(asked.get("uri")), _pairs(asked), Body(sent))
    return RecordedCalls(request=request, response=reply if told else None, exact=sent_exact and came_exact)


def _go(one: JsonObject) -> RecordedCalls:
    asked, told = obj(one.get("request")), obj(one.get("response"))
    sent, came = _body(asked)[0], _body(told)[0]
    code = told.get("code")
    reply = HttpReply(
        code if isinstance(code, int) else 0,
        string(told.get("status")).partition(" ")[2],
        string(told.get("proto")) or "HTTP/1.1",
        _pairs(told),
        Body(came),
    )
    method = string(asked.get("method")).upper() or "GET"
    # Hooks that tidy a recording leave the length alone: a body of another one has been written anew.
    exact = _as_long(asked, sent) and _as_long(told, came)
    request = HttpCall(method, string(asked.get("url")), _pairs(asked), Body(sent))
    return RecordedCalls(request=request, response=reply if told else None, exact=exact)


def _as_long(side: JsonObject, data: bytes) -> bool:
    length = side.get("content_length")
    return length in (None, -1, len(data))


def _pairs(side: JsonObject) -> Headers:
    found: list[tuple[str, str]] = []
    for name, values in obj(side.get("headers")).items():
        found += [(name, string(value)) for value in (values if isinstance(values, list) else [values])]
    return tuple(found)


def _body(side: JsonObject) -> tuple[bytes, bool]:
    """The bytes of a body, in whichever way it is written, and whether they are those that were recorded."""
    for name in ("body", "content"):
        if name in side:
            return _bytes(side[name])
    if "parsed_body" in side:
        return wire.compact(side["parsed_body"]), False
    return b"", True


def _bytes(value: Json) -> tuple[bytes, bool]:
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape"), True  # a surrogate stands for a byte of a !!binary
        except UnicodeEncodeError:
            return value.encode("utf-8", "replace"), False
    packed = string(obj(value).get("base64_string"))
    if packed:
        try:
            return base64.b64decode(packed, validate=True), True
        except (binascii.Error, ValueError):
            return packed.encode("utf-8", "replace"), False
    if isinstance(value, dict) and value.keys() <= {"string", "encoding"}:
        return _bytes(value.get("string"))
    if isinstance(value, list) and all(isinstance(one, int) and 0 <= one < 256 for one in arr(value)):
        return bytes(int(str(one)) for one in value), True
    return (b"", True) if value is None else (wire.compact(value), False)


FORMATS = (
    Format("vcrpy", "recording of vcrpy", 20, _is_python, lambda opened: _traces(opened, "vcrpy", _python)),
    Format("go-vcr", "recording of go-vcr", 20, _is_go, lambda opened: _traces(opened, "go-vcr", _go)),
)
