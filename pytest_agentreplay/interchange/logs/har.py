"""HAR 1.2: the HTTP that a proxy or a browser saw, with times, of many runs in one file."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import parse
from pytest_agentreplay.core.model import Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange.formats import Format, once
from pytest_agentreplay.interchange.logs import runs
from pytest_agentreplay.interchange.logs.recorded import RecordedCalls, heard
from pytest_agentreplay.interchange.moments import after, moment
from pytest_agentreplay.interchange.trace import ModelCall, Source

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Headers, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace


_HEX = re.compile(r"[\[\]\",\s0-9A-Fa-f]*")
_TEXT = frozenset({"", "utf-8", "utf8", "text", "identity"})
"""Encodings of a body that stands in the file as it is."""


def _log(opened: Opened) -> JsonObject:
    """The log; Playwright puts it into an archive, with the bodies as files beside it."""
    if opened.members is not None:
        held = next((data for name, data in opened.members.items() if name.endswith(".har")), b"")
        return obj(obj(parse(held)).get("log"))
    return obj(obj(opened.rows[0]).get("log")) if len(opened.rows) == 1 else {}


def _fits(opened: Opened) -> bool:
    log = _log(opened)
    return isinstance(log.get("entries"), list) and "version" in log


def _read(opened: Opened) -> list[Trace]:
    log = _log(opened)
    entries = objects(once(arr(log.get("entries"))))
    found = heard(_recorded(entry, opened.members or {}) for entry in entries)
    if not found.rows:
        if any(_bodiless(entry) for entry in entries):
            msg = "holds no bodies: save it again with content (in a browser: Save all as HAR with content)"
            raise TraceIncomplete(msg, file=opened.file)
        said = "; ".join(found.losses) or "nothing in it"
        raise TraceError(f"holds no call of a model or of a tool ({said})", file=opened.file)
    if not found.unread and all(
        isinstance(row.step, ModelCall) and row.step.reply is None and not row.step.fault for row in found.rows
    ):
        raise TraceIncomplete("holds no replies: save it again with content", file=opened.file)
    creator = obj(log.get("creator"))
    version = " ".join(filter(None, (string(creator.get("name")), string(creator.get("version")))))
    source = Source(format="har", version=version, file=opened.file, fidelity=found.fidelity)
    return runs.traces(found.rows, source, *found.losses, missing=found.missing)


def _recorded(entry: JsonObject, files: dict[str, bytes]) -> RecordedCalls:
    asked, told = obj(entry.get("request")), obj(entry.get("response"))
    started = moment(entry.get("startedDateTime"))
    posted = obj(asked.get("postData"))
    sent, unread = _body(posted, files)
    headers = _headers(asked, posted, sent)
    response, unread_reply = _reply(told, files)
    return RecordedCalls(
        request=HttpCall(string(asked.get("method")).upper(), string(asked.get("url")), headers, Body(sent)),
        response=response,
        unread=tuple(filter(None, (unread, unread_reply))),
        started=started,
        ended=after(started, entry.get("time")),
    )


def _reply(told: JsonObject, files: dict[str, bytes]) -> tuple[HttpReply | Failure | None, str]:
    """What came back, None where the file does not say or cannot be read; and why its body cannot be read, or ""."""
    status, content = told.get("status"), obj(told.get("content"))
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status < 1000:
        error = string(told.get("_error")) or string(told.get("statusText"))
        return (Failure("builtins.ConnectionError", error) if error else None), ""
    there = string(content.get("_file")) in files or isinstance(content.get("text"), str)
    if not there and (content.get("size") not in (0, None) or status < 400):
        return None, ""
    data, unread = _body(content, files)
    if unread:
        return None, unread
    version = string(told.get("httpVersion")).upper() or "HTTP/1.1"
    return HttpReply(status, string(told.get("statusText")), version, _headers(told, content, data), Body(data)), ""


def _body(side: JsonObject, files: dict[str, bytes]) -> tuple[bytes, str]:
    """The bytes of a body, and why they cannot be read, or "". Polly.JS writes one, or a list of its pieces, as hex."""
    text, coding = string(side.get("text")), string(side.get("encoding")).lower()
    if string(side.get("_file")) in files:
        return files[string(side.get("_file"))], ""
    if side.get("_isBinary") is True and not coding:
        coding = "hex" if _HEX.fullmatch(text) else "base64"
    if coding in _TEXT:
        return text.encode("utf-8", "replace"), ""
    listed = parse(text.encode("utf-8", "replace")) if text.startswith("[") else None
    pieces = [string(piece) for piece in listed] if isinstance(listed, list) else [text]
    try:
        match coding:
            case "hex":
                return b"".join(map(bytes.fromhex, pieces)), ""
            case "base64":
                return b"".join(base64.b64decode("".join(piece.split()), validate=True) for piece in pieces), ""
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace"), f"said to be {coding}, and not"
    return text.encode("utf-8", "replace"), f"in the encoding {coding!r:.40}"


def _bodiless(entry: JsonObject) -> bool:
    asked = obj(entry.get("request"))
    return asked.get("method") == "POST" and not string(obj(asked.get("postData")).get("text"))


def _headers(side: JsonObject, content: JsonObject, data: bytes) -> Headers:
    """The headers of a request or a reply, with the type that HAR tells of its body where none of them does."""
    pairs = [(string(one.get("name")), string(one.get("value"))) for one in objects(side.get("headers"))]
    headers = [(name, value) for name, value in pairs if name and not name.startswith(":")]
    if data and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("content-type", string(content.get("mimeType"))))
    return tuple(headers)


FORMATS = (Format("har", "HAR of a proxy or a browser", 19, _fits, _read),)
