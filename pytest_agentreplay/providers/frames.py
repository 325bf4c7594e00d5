"""Messages over a lasting connection: two dialects of model APIs, and what can be said of any other message.

A message that begins no model turn is named by where it goes and what it is, "SEND api.openai.com/v1/realtime
session.update"; what came back is that of the events that the frames are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.compare.matching.address import content, split
from pytest_agentreplay.model.reading import CallReading, ReplyReading
from pytest_agentreplay.providers import gemini, json_rpc, openai_responses, stream_json
from pytest_agentreplay.providers.dialect import Dialect, name_place, read_request
from pytest_agentreplay.providers.lenient import arr, first, obj, objects, rest, string
from pytest_agentreplay.providers.streams import ServerSentEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import FrameCall, FramesReply, Json, JsonObject, WireCall


# OpenAI's events over a WebSocket: Realtime and Responses. A `response.create` begins a model turn. Realtime keeps the
# conversation on the server, so an event carries what it adds to it; a Responses event is a Responses request. What
# comes back are the events of one response, or of several.
# https://platform.openai.com/docs/api-reference/realtime-client-events

CLIENT_IDS = ("$.event_id", "$.item.id", "$.previous_item_id")
CLIENT_REFS = ("$.item_id",)
"""Names an item that either side has made."""
_EVENTS = ("session.", "conversation.", "response.", "input_audio_buffer.", "output_audio_buffer.", "transcription_")


def fits_event(body: JsonObject) -> bool:
    """Whether a message is a client event of either."""
    return string(body.get("type")).startswith(_EVENTS)


def read_client_event(body: JsonObject, url: Url) -> CallReading:
    """Read a client event."""
    kind = string(body.get("type"))
    if kind == "response.create":
        return _read_response_create(body, url)
    if kind in {"session.update", "transcription_session.update"}:
        session = obj(body.get("session"))
        reading = read_request(
            session,
            system_in="instructions",
            messages_in="",
            path="$.session",
            model=string(session.get("model")) or _model(url),
            parameters=rest(session, "instructions", "tools"),
            stream=False,
        )
    else:
        item = obj(body.get("item"))
        is_message = string(item.get("type")) == "message"
        reading = CallReading("http", "", model=_model(url), parameters=rest(body, "type"))
        reading = replace(reading, messages=(item,), messages_at="$.item") if is_message else reading
    marks: dict[str, Any] = {"client_ids": CLIENT_IDS, "client_refs": CLIENT_REFS}
    return replace(reading, kind="http", name="", operation=kind, **marks)


def _read_response_create(body: JsonObject, url: Url) -> CallReading:
    """A `response.create`: the fields of a response stand in it, or below `response`."""
    inner = obj(body.get("response"))
    is_flat = not inner and "input" in body
    inner, path = (rest(body, "type"), "$") if is_flat else (inner, "$.response")
    reading = openai_responses.read_call(inner, url, path=path)
    model = reading.model or _model(url)
    return replace(reading, name=model or "realtime", model=model, client_ids=CLIENT_IDS)


def _model(url: Url) -> str:
    return next((value for name, value in url.query if name in {"model", "deployment"}), "")


# Gemini live (https://ai.google.dev/api/live): `setup`, then content, speech and tool results of the agent; field names
# in either spelling. Finished content, a text, and the results of tools begin a model turn. The model's name is in the
# setup alone.

_GEMINI_LIVE = "gemini live"
# The messages of the agent, and the field of each in which what is said to the model stands.
_LIVE_FIELDS = {
    "clientContent": ("turns",),
    "client_content": ("turns",),
    "realtimeInput": ("text",),
    "realtime_input": ("text",),
    "toolResponse": ("functionResponses", "function_responses"),
    "tool_response": ("functionResponses", "function_responses"),
    "setup": (),
}


def fits_live(body: JsonObject) -> bool:
    """Return whether a message is one of the agent's."""
    return bool(first(body, _LIVE_FIELDS))


def read_live_call(body: JsonObject, _url: Url) -> CallReading:
    """Read a message."""
    name = next(name for name in body if name in _LIVE_FIELDS)
    inner, path = obj(body[name]), f"$.{name}"
    if name == "setup":
        more: dict[str, Any] = {"kind": "http", "name": "", "operation": "setup", "stream": False}
        return read_request(inner, system_in=first(inner, gemini.SYSTEM), messages_in="", path=path, **more)
    fields = _LIVE_FIELDS[name]
    field = first(inner, fields)
    value = inner.get(field)
    # One result need not stand in a list; speech and pictures are no messages.
    messages = tuple(arr(value)) or ((value,) if isinstance(value, str | dict) and value else ())
    is_whole = inner.get("turnComplete", inner.get("turn_complete")) is not False
    begins = {"turns": is_whole, "text": bool(messages)}.get(fields[0], True)
    return CallReading(
        kind="model" if begins else "http",
        name=_GEMINI_LIVE if begins else "",
        operation="generate_content",
        parameters=rest(inner, field),
        messages=messages,
        messages_at=f"{path}.{field}" if messages else "",
    )


def join_live(events: Iterable[ServerSentEvent]) -> JsonObject:
    """Return the messages that came back as one response of generateContent; without a text, what was spoken is it."""
    parts: list[Json] = []
    transcript = ""
    finish: list[Json] = []
    usage: JsonObject = {}
    for value in (event.value or {} for event in events):
        content = obj(value.get("serverContent"))
        parts += objects(obj(content.get("modelTurn")).get("parts"))
        calls = objects(obj(value.get("toolCall")).get("functionCalls"))
        parts += [{"functionCall": call} for call in calls]
        transcript += string(obj(content.get("outputTranscription")).get("text"))
        finish += [{"finishReason": name} for name in ("turnComplete", "interrupted") if content.get(name) is True]
        usage = obj(value.get("usageMetadata")) or usage
    if not any(part.get("text") for part in objects(parts) if not part.get("thought")):
        parts.append({"text": transcript})
    read, written = usage.get("promptTokenCount"), usage.get("responseTokenCount")
    counts: JsonObject = {"promptTokenCount": read, "candidatesTokenCount": written}
    return {"candidates": [{"content": {"parts": parts}}, *finish], "usageMetadata": counts}


FRAME_DIALECTS = (
    Dialect(
        *("openai_realtime", "/(?:realtime|responses)/*", "openai", fits_event, read_client_event),
        *(openai_responses.read_reply, openai_responses.join),
    ),
    Dialect(
        *("gemini_live", r"BidiGenerateContent\w*", "gcp.gemini", fits_live, read_live_call),
        *(gemini.read_reply, join_live),
    ),
)
"""The dialects that are spoken over lasting connections: their path is that of the connection.

A reading without a name gets one of the place.
"""


def dialect_of(call: WireCall, url: Url) -> Dialect | None:
    """The dialect of a message, None where none knows it."""
    body = obj(content(call.headers, call.body).tree)
    spoken = (dialect for dialect in FRAME_DIALECTS if dialect.matches_path(url.path) and dialect.fits(body))
    return next(spoken, None)


def opens_model(url: str) -> bool:
    """Whether a connection to `url` is one to a model, by its path."""
    return any(dialect.matches_path(split(url).path) for dialect in FRAME_DIALECTS)


def read_call(call: FrameCall, url: Url) -> CallReading:
    """Read any message."""
    tree = content(call.headers, call.body).tree
    if call.boundary == "mcp" and (read := json_rpc.read_message(tree)) is not None:
        return read
    dialect = dialect_of(call, url)
    if dialect is not None:
        reading = replace(dialect.read_call(obj(tree), url), dialect=dialect.name, provider=dialect.provider)
        return reading if reading.name else replace(reading, name=_name(call, url, reading.operation))
    operation, ids = ", ".join(json_rpc.methods(tree)), json_rpc.client_ids(tree)
    if call.boundary == "process":
        ids = stream_json.client_ids(obj(tree))
    return CallReading(
        kind="http",
        name=_name(call, url, operation or string(obj(tree).get("type"))),
        dialect=call.boundary,
        operation=operation,
        parameters=obj(tree),
        client_ids=ids,
    )


def _name(call: FrameCall, url: Url, what: str) -> str:
    # The command line of a process holds whole prompts: its program alone is shown.
    place = url.path.partition(" ")[0] if call.boundary == "process" else name_place(url)
    return f"{call.method} {place} {what}".rstrip(" ")


def read_reply(call: WireCall, url: Url, reply: FramesReply) -> ReplyReading:
    """Read what came back."""
    dialect = dialect_of(call, url)
    if dialect is None:
        return ReplyReading(error=error_of(reply))
    events = [ServerSentEvent("message", frame.data.decode("utf-8", "replace")) for frame in reply.frames()]
    failed = [value.get("error") for event in events if (value := event.value or {}).get("type") == "error"]
    error = obj(failed[0]) if failed else {}
    message = string(error.get("message")) or string(error.get("code"))
    return replace(dialect.read_reply(dialect.join(events)), error=error_of(reply) or message)


def error_of(reply: FramesReply) -> str:
    """What broke the connection off, "" when nothing did."""
    if reply.failure is not None:
        return f"{reply.failure.type}: {reply.failure.message}".rstrip(": ")
    closed = reply.closed
    # RFC 6455, section 7.4.1: 1000 is a normal end, 1001 a peer that goes away.
    if closed is None or closed.by_agent or closed.code in {None, 0, 1000, 1001}:
        return ""
    return f"closed ({closed.code}): {closed.reason}".rstrip(": ")
