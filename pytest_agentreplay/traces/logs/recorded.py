"""HTTP as somebody recorded it: HAR, vcrpy, go-vcr and cassetter.

HAR 1.2 is what a proxy or a browser saw, with times, of many runs in one file. The others write requests and replies, a
file a test: YAML, vcrpy also JSON, cassetter also TOML. None knows when a request was sent, nor of which tool it was;
cassetter notes when a reply had come.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.compare.matching.address import decode_body, header, split
from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.model.canonical_json import parse
from pytest_agentreplay.model.content_coding import is_coded
from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.formats import Format, document_of, drop_repeated
from pytest_agentreplay.traces.logs import runs
from pytest_agentreplay.traces.logs.runs import LogRow
from pytest_agentreplay.traces.moments import add_milliseconds, moment
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, TraceFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Headers, Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Step, Trace

_JSON_STARTS = (b"{", b"[", b"data:", b"event:")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCalls:
    """One request and what came back. `exact` says that both bodies are the bytes that were on the wire.

    `unread` says why a body of it cannot be read.
    """

    request: HttpCall
    response: HttpReply | Failure | None
    exact: bool = True
    unread: tuple[str, ...] = ()
    started: int | None = None
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """What recorded HTTP amounts to: the rows of a run, the sentences on what is left out, and how near it is.

    `missing` are requests to a model that cannot be read, `unread` counts the bodies that cannot.
    """

    rows: tuple[LogRow, ...]
    losses: tuple[str, ...]
    fidelity: Literal["bytes", "body-json"]
    missing: tuple[str, ...] = ()
    unread: int = 0


def read_calls(recorded: Iterable[RecordedCalls]) -> RecordedReply:
    """Return the calls of models, and of tools over MCP; everything else is counted."""
    rows: list[LogRow] = []
    others: Counter[str] = Counter()
    exact, packed = True, 0
    unread: Counter[str] = Counter()
    missing: list[str] = []
    for recorded_call in recorded:
        kind = READER.read_call(recorded_call.request).kind
        unread.update(recorded_call.unread)
        if recorded_call.unread and kind == "http" and recorded_call.request.method == "POST":
            missing.append(f"the request to {split(recorded_call.request.url).host}")
        if kind not in wire.MODEL_KINDS | {"tool"}:
            others[f"{recorded_call.request.method} {split(recorded_call.request.url).host}"] += kind != "mcp"
            continue
        plain = _with_true_headers(recorded_call)
        exact &= plain.exact
        readable = _readable(plain.response)
        packed += not readable
        rows.append(LogRow(step=(step := _step(plain, kind))))
        if readable and isinstance(step, ModelCall) and step.response and not (step.reply or step.fault):
            unread["neither JSON nor a stream of events"] += 1
    losses = [f"{packed} replies are packed in a way that is not read: they are kept, not understood"] if packed else []
    losses += [f"bodies that cannot be read, because they are {why}: {number}" for why, number in unread.items()]
    if text := ", ".join(f"{number} x {where}" for where, number in others.items() if number):
        losses.append(f"other HTTP is left out: {text}")
    return RecordedReply(
        tuple(rows), tuple(losses), "bytes" if exact else "body-json", tuple(missing), packed + unread.total()
    )


def _step(recorded: RecordedCalls, kind: str) -> Step:
    if kind in wire.MODEL_KINDS:
        return wire.model_call(recorded.request, recorded.response, started=recorded.started, ended=recorded.ended)
    request, reply = READER.read_call(recorded.request), READER.read_reply(recorded.request, recorded.response)
    return ToolRun(
        name=request.name,
        arguments=request.parameters,
        result=UNKNOWN if recorded.response is None or (reply.error and reply.result is None) else reply.result,
        fault=TraceFault(message=reply.error) if reply.error else None,
        started=recorded.started,
        ended=recorded.ended,
    )


def _with_true_headers(recorded: RecordedCalls) -> RecordedCalls:
    """The same with headers that are true of the bodies: recorders unpack a body and leave its headers alone."""
    request_headers, is_true_request = _true_of(recorded.request.headers, recorded.request.body.data)
    request = replace(recorded.request, headers=request_headers)
    if not isinstance(recorded.response, HttpReply):
        return replace(recorded, request=request, exact=recorded.exact and is_true_request)
    headers, is_true_reply = _true_of(recorded.response.headers, recorded.response.body.data)
    if not headers:  # a hook took them all; a client needs to know what it is given
        headers = _guess_type(recorded.response.body.data)
        is_true_reply = is_true_reply and not headers
    return replace(
        recorded,
        request=request,
        response=replace(recorded.response, headers=headers),
        exact=recorded.exact and is_true_request and is_true_reply,
    )


def _true_of(headers: Headers, data: bytes) -> tuple[Headers, bool]:
    """The headers without what the body contradicts, and whether it contradicted nothing."""
    coding, length = header(headers, "content-encoding"), header(headers, "content-length")
    false: set[str] = set()
    if is_coded(coding) and not _is_coded(data, coding):
        false |= {"content-encoding", "content-length"}
    if length.isdecimal() and len(length) < 16 and int(length) != len(data):
        false.add("content-length")
    return tuple((name, value) for name, value in headers if name.lower() not in false), not false


def _guess_type(data: bytes) -> Headers:
    start = data.lstrip()
    if start.startswith((b"data:", b"event:")):
        return (("content-type", "text/event-stream"),)
    return (("content-type", "application/json"),) if start.startswith((b"{", b"[")) else ()


def _is_coded(data: bytes, coding: str) -> bool:
    if "gzip" in coding.lower():
        return data.startswith(_GZIP)
    return not data.lstrip().startswith(_JSON_STARTS)


def _readable(response: HttpReply | Failure | None) -> bool:
    if not isinstance(response, HttpReply):
        return True
    return decode_body(response.body.data, header(response.headers, "content-encoding"))[1]


# Fields: http://www.softwareishard.com/blog/har-12-spec/
_HEX = re.compile(r"[\[\]\",\s0-9A-Fa-f]*")
_TEXT = frozenset({"", "utf-8", "utf8", "text", "identity"})
"""Encodings of a body that stands in the file as it is."""


def _log(opened: Opened) -> JsonObject:
    """The log; Playwright puts it into an archive, with the bodies as files beside it."""
    if opened.members is not None:
        data = next((data for name, data in opened.members.items() if name.endswith(".har")), b"")
        return obj(obj(parse(data)).get("log"))
    return obj(document_of(opened).get("log"))


def _fits_har(opened: Opened) -> bool:
    log = _log(opened)
    return isinstance(log.get("entries"), list) and "version" in log


def _read_har(opened: Opened) -> list[Trace]:
    log = _log(opened)
    entries = objects(drop_repeated(arr(log.get("entries"))))
    calls = read_calls(_read_entry(entry, opened.members or {}) for entry in entries)
    if not calls.rows and any(map(_bodiless, entries)):
        msg = "holds no bodies: save it again with content (in a browser: Save all as HAR with content)"
        raise TraceIncomplete(msg, file=opened.file)
    if (
        calls.rows
        and not calls.unread
        and all(isinstance(row.step, ModelCall) and row.step.reply is None and not row.step.fault for row in calls.rows)
    ):
        raise TraceIncomplete("holds no replies: save it again with content", file=opened.file)
    creator = obj(log.get("creator"))
    version = " ".join(filter(None, (string(creator.get("name")), string(creator.get("version")))))
    return _traces(opened, calls, Source(format="har", version=version))


def _read_entry(entry: JsonObject, files: dict[str, bytes]) -> RecordedCalls:
    request, reply = obj(entry.get("request")), obj(entry.get("response"))
    started = moment(entry.get("startedDateTime"))
    posted = obj(request.get("postData"))
    sent, unread = _har_body(posted, files)
    headers = _har_headers(request, posted, sent)
    response, unread_reply = _har_reply(reply, files)
    return RecordedCalls(
        request=HttpCall(string(request.get("method")).upper(), string(request.get("url")), headers, Body(sent)),
        response=response,
        unread=tuple(filter(None, (unread, unread_reply))),
        started=started,
        ended=add_milliseconds(started, entry.get("time")),
    )


def _har_reply(reply: JsonObject, files: dict[str, bytes]) -> tuple[HttpReply | Failure | None, str]:
    """What came back, None where the file does not say or cannot be read; and why its body cannot be read, or ""."""
    status, content = reply.get("status"), obj(reply.get("content"))
    if not isinstance(status, int) or isinstance(status, bool) or not 100 <= status < 1000:
        error = string(reply.get("_error")) or string(reply.get("statusText"))
        return (Failure("builtins.ConnectionError", error) if error else None), ""
    there = string(content.get("_file")) in files or isinstance(content.get("text"), str)
    if not there and (content.get("size") not in (0, None) or status < 400):
        return None, ""
    data, unread = _har_body(content, files)
    if unread:
        return None, unread
    version = string(reply.get("httpVersion")).upper() or "HTTP/1.1"
    return HttpReply(
        status, string(reply.get("statusText")), version, _har_headers(reply, content, data), Body(data)
    ), ""


def _har_body(side: JsonObject, files: dict[str, bytes]) -> tuple[bytes, str]:
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
    request = obj(entry.get("request"))
    return request.get("method") == "POST" and not string(obj(request.get("postData")).get("text"))


def _har_headers(side: JsonObject, content: JsonObject, data: bytes) -> Headers:
    """The headers of a request or a reply, with the type that HAR tells of its body where none of them does."""
    pairs = [(string(pair.get("name")), string(pair.get("value"))) for pair in objects(side.get("headers"))]
    headers = [(name, value) for name, value in pairs if name and not name.startswith(":")]
    if data and not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("content-type", string(content.get("mimeType"))))
    return tuple(headers)


LOSS = "neither times nor a session: the order is that of the file"
CASSETTER_LOSS = "neither times of requests nor a session, nor the text of JSON: only its values"
_NO_HTTP = {"grpc_interactions": "calls of gRPC", "ws_interactions": "WebSocket connections"}
"""Lists in a recording of cassetter that are not read."""


def _interactions(opened: Opened) -> list[JsonObject]:
    """Return the interactions of a file, in order of time where it has times: cassetter sorts them by URL.

    Some serializers keep requests and replies in two lists.
    """
    file = document_of(opened)
    if isinstance(file.get("interactions"), list):
        return sorted(objects(file["interactions"]), key=lambda call: string(call.get("recorded_at")))
    return [
        {"request": request, "response": reply}
        for request, reply in zip(objects(file.get("requests")), objects(file.get("responses")), strict=False)
    ]


def _is_cassetter(opened: Opened) -> bool:
    """Return whether a status is a number, which vcrpy writes as an object, or there are calls of another protocol."""
    statuses = [obj(call.get("response")).get("status") for call in _interactions(opened)]
    is_http = _is_python(opened) and any(isinstance(status, int) for status in statuses)
    return is_http or not _NO_HTTP.keys().isdisjoint(document_of(opened))


def _is_python(opened: Opened) -> bool:
    return any("uri" in obj(call.get("request")) for call in _interactions(opened))


def _is_go(opened: Opened) -> bool:
    return not _is_python(opened) and any("url" in obj(call.get("request")) for call in _interactions(opened))


def _read_tests(name: str) -> Callable[[Opened], list[Trace]]:
    def read_file(opened: Opened) -> list[Trace]:
        file = document_of(opened)
        calls = read_calls(_interaction(call, name) for call in _interactions(opened))
        left_out = [f"{what} are left out: {len(arr(file[key]))}" for key, what in _NO_HTTP.items() if file.get(key)]
        calls = replace(calls, losses=(*left_out, *calls.losses))
        source = Source(format=name, version=str(file.get("version") or ""))
        return _traces(opened, calls, source, CASSETTER_LOSS if name == "cassetter" else LOSS, together=True)

    return read_file


def _traces(opened: Opened, calls: RecordedReply, source: Source, *losses: str, together: bool = False) -> list[Trace]:
    if not calls.rows:
        reason = "; ".join(calls.losses) or "nothing in it"
        raise TraceError(f"holds no call of a model or of a tool ({reason})", file=opened.file)
    source = replace(source, file=opened.file, fidelity=calls.fidelity)
    return runs.traces(calls.rows, source, *losses, *calls.losses, together=together, missing=calls.missing)


def _interaction(interaction: JsonObject, recorder: str) -> RecordedCalls:
    request, response = obj(interaction.get("request")), obj(interaction.get("response"))
    read_body = _typed_body if recorder == "cassetter" else _body
    (sent, sent_exact), (received, received_exact) = read_body(request), read_body(response)
    method, status = string(request.get("method")).upper(), response.get("status")
    if recorder == "go-vcr":
        url, method = request.get("url"), method or "GET"
        code, reason, version = response.get("code"), string(status).partition(" ")[2], string(response.get("proto"))
        # Hooks that tidy a recording leave the length alone: a body of another one has been written anew.
        sides = ((request, sent), (response, received))
        exact = all(side.get("content_length") in (None, -1, len(data)) for side, data in sides)
    else:
        url, version, exact = request.get("uri"), "", sent_exact and received_exact
        code, reason = obj(status).get("code", response.get("status_code", status)), string(obj(status).get("message"))
    code = code if isinstance(code, int) else 0
    reply = HttpReply(code, reason, version or "HTTP/1.1", _headers(response), Body(received))
    call = HttpCall(method, string(url), _headers(request), Body(sent))
    ended = moment(interaction.get("recorded_at"))
    return RecordedCalls(request=call, response=reply if response else None, exact=exact, ended=ended)


def _headers(side: JsonObject) -> Headers:
    pairs: list[tuple[str, str]] = []
    for name, values in obj(side.get("headers")).items():
        pairs += [(name, string(value)) for value in (values if isinstance(values, list) else [values])]
    return tuple(pairs)


def _body(side: JsonObject) -> tuple[bytes, bool]:
    """The bytes of a body, in whichever way it is written, and whether they are those that were recorded."""
    for name in ("body", "content"):
        if name in side:
            return _bytes(side[name])
    if "parsed_body" in side:
        return wire.compact(side["parsed_body"]), False
    return b"", True


def _typed_body(side: JsonObject) -> tuple[bytes, bool]:
    """Return the bytes of a body of cassetter, and whether they are those that were recorded.

    JSON is parsed in YAML and a text in TOML, without its white space; texts are in Unicode's NFC; bytes are hex.
    """
    body = obj(side.get("body"))
    kind, content = body.get("type", side.get("body_type")), body.get("content", side.get("body_content"))
    if kind == "json" and body:
        return wire.compact(content), False
    text = string(content).encode("utf-8", "replace")
    if kind == "binary" and _HEX.fullmatch(string(content)) and not len(text) % 2:
        return bytes.fromhex(string(content)), True
    return text, not text


def _bytes(value: Json) -> tuple[bytes, bool]:
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape"), True  # a surrogate stands for a byte of a !!binary
        except UnicodeEncodeError:
            return value.encode("utf-8", "replace"), False
    if isinstance(value, dict) and value.keys() == {"state"} and (state := arr(value["state"])):
        return _bytes(state[0])  # of a BytesIO: its bytes, the position in them, its attributes
    packed = string(obj(value).get("base64_string"))
    if packed:
        try:
            return base64.b64decode(packed, validate=True), True
        except (binascii.Error, ValueError):
            return packed.encode("utf-8", "replace"), False
    if isinstance(value, dict) and value.keys() <= {"string", "encoding"}:
        return _bytes(value.get("string"))
    if isinstance(value, list) and all(isinstance(number, int) and 0 <= number < 256 for number in arr(value)):
        return bytes(int(str(number)) for number in value), True
    return (b"", True) if value is None else (wire.compact(value), False)


FORMATS = (
    Format("har", "HAR of a proxy or a browser", 19, _fits_har, _read_har),
    Format("cassetter", "recording of cassetter", 19.5, _is_cassetter, _read_tests("cassetter")),
    Format("vcrpy", "recording of vcrpy", 20, _is_python, _read_tests("vcrpy")),
    Format("go-vcr", "recording of go-vcr", 20, _is_go, _read_tests("go-vcr")),
)
