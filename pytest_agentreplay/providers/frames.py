"""Messages over a lasting connection: two dialects of model APIs, and what can be said of any other message.

A message that begins no model turn is named by where it goes and what it is, "SEND api.openai.com/v1/realtime
session.update"; what came back is that of the events that the frames are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.compare.matching.address import content, split
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
from pytest_agentreplay.providers import json_rpc, openai_responses, stream_json
from pytest_agentreplay.providers.dialect import name_place, read_request
from pytest_agentreplay.providers.gemini import SYSTEM
from pytest_agentreplay.providers.lenient import arr, first, obj, objects, rest, string, token_counts, unique
from pytest_agentreplay.providers.streams import ServerSentEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import FrameCall, FramesReply, Json, JsonObject, WireCall


class FrameDialect(NamedTuple):
    """A model API that is spoken in JSON messages over a lasting connection.

    A connection is of this dialect when its URL's path holds the pattern `path`; a message, when its body `fits` as
    well. A reading without a name gets one of the place. None of the functions raises, whatever the JSON.
    """

    name: str
    path: str
    provider: str
    fits: Callable[[JsonObject], bool]
    read_call: Callable[[JsonObject, Url], CallReading]
    read_reply: Callable[[Iterable[ServerSentEvent]], ReplyReading]

    def matches_url(self, url: Url) -> bool:
        """Return whether a connection to `url` is of this dialect."""
        return re.search(self.path, url.path) is not None


# OpenAI's events over a WebSocket: Realtime and Responses. A `response.create` begins a model turn. Realtime keeps the
# conversation on the server, so an event carries what it adds to it; a Responses event is a Responses request. What
# comes back are the events of one response, or of several.
# https://platform.openai.com/docs/api-reference/realtime-client-events

CLIENT_IDS = ("$.event_id", "$.item.id", "$.previous_item_id")
CLIENT_REFS = ("$.item_id",)
"""Names an item that either side has made."""
_EVENTS = ("session.", "conversation.", "response.", "input_audio_buffer.", "output_audio_buffer.", "transcription_")
_TEXT_DELTAS = {
    "response.text.delta": "response.output_text.delta",
    "response.audio_transcript.delta": "response.output_text.delta",
    "response.output_audio_transcript.delta": "response.output_text.delta",
}
"""Events that carry text in the way of another one."""


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
    if not inner and "input" in body:
        return replace(openai_responses.read_call(rest(body, "type"), url), client_ids=CLIENT_IDS)
    reading = openai_responses.read_call(inner, url)
    model = reading.model or _model(url)
    places = {
        name: at.replace("$", "$.response", 1)
        for name in ("system_at", "messages_at", "tools_at")
        if (at := getattr(reading, name))
    }
    return replace(reading, name=model or "realtime", model=model, client_ids=CLIENT_IDS, **places)


def read_events(events: Iterable[ServerSentEvent]) -> ReplyReading:
    """Read the events that came back; speech is told by its transcript."""
    values = [_rename_text_delta(value) for event in events if (value := event.value) is not None]
    body = openai_responses.join(ServerSentEvent(string(value.get("type")), canonical(value)) for value in values)
    for item in objects(body.get("output")):
        for part in objects(item.get("content")):
            if "transcript" in part and "text" not in part:
                part["text"] = part["transcript"]
    reading = openai_responses.read_reply(body)
    failed = next((obj(value.get("error")) for value in values if string(value.get("type")) == "error"), {})
    return replace(reading, error=string(failed.get("message")) or string(failed.get("code")))


def _rename_text_delta(value: JsonObject) -> JsonObject:
    kind = string(value.get("type"))
    return {**value, "type": _TEXT_DELTAS[kind]} if kind in _TEXT_DELTAS else value


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
        return read_request(inner, system_in=first(inner, SYSTEM), messages_in="", path=path, **more)
    fields = _LIVE_FIELDS[name]
    field = first(inner, fields)
    value = inner.get(field)
    # One result need not stand in a list; speech and pictures are no messages.
    messages = tuple(arr(value)) or ((value,) if isinstance(value, str | dict) and value else ())
    begins = {"turns": _get(inner, "turnComplete") is not False, "text": bool(messages)}.get(fields[0], True)
    return CallReading(
        kind="model" if begins else "http",
        name=_GEMINI_LIVE if begins else "",
        operation="generate_content",
        parameters=rest(inner, field),
        messages=messages,
        messages_at=f"{path}.{field}" if messages else "",
    )


def read_live_reply(events: Iterable[ServerSentEvent]) -> ReplyReading:
    """Read the messages that came back."""
    text, transcript = "", ""
    uses: list[ToolUse] = []
    finish: list[str] = []
    usage: JsonObject = {}
    for value in (event.value or {} for event in events):
        content = obj(_get(value, "serverContent"))
        for part in objects(obj(_get(content, "modelTurn")).get("parts")):
            text += "" if part.get("thought") is True else string(part.get("text"))
        transcript += string(obj(_get(content, "outputTranscription")).get("text"))
        finish += [name for name in ("turnComplete", "interrupted") if _get(content, name) is True]
        calls = objects(_get(obj(_get(value, "toolCall")), "functionCalls"))
        uses += [ToolUse(string(call.get("id")), string(call.get("name")), call.get("args")) for call in calls]
        usage = obj(_get(value, "usageMetadata")) or usage
    return ReplyReading(
        text=text or transcript,
        tool_uses=tuple(uses),
        finish_reasons=unique(finish),
        usage=token_counts(_get(usage, "promptTokenCount"), _get(usage, "responseTokenCount")),
        ids=unique([use.id for use in uses]),
    )


def _get(body: JsonObject, name: str) -> Json:
    """A field in either spelling."""
    if name in body:
        return body[name]
    return body.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))


FRAME_DIALECTS = (
    FrameDialect("openai_realtime", r"/(realtime|responses)/*$", "openai", fits_event, read_client_event, read_events),
    FrameDialect("gemini_live", "BidiGenerateContent", "gcp.gemini", fits_live, read_live_call, read_live_reply),
)
"""The dialects that are spoken over lasting connections."""


def dialect_of(call: WireCall, url: Url) -> FrameDialect | None:
    """The dialect of a message, None where none knows it."""
    body = obj(content(call.headers, call.body).tree)
    return (
        next((dialect for dialect in FRAME_DIALECTS if dialect.matches_url(url) and dialect.fits(body)), None)
        if body
        else None
    )


def opens_model(url: str) -> bool:
    """Whether a connection to `url` is one to a model, by its path."""
    return any(dialect.matches_url(split(url)) for dialect in FRAME_DIALECTS)


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
    reading = dialect.read_reply(events)
    return replace(reading, error=error_of(reply) or reading.error)


def error_of(reply: FramesReply) -> str:
    """What broke the connection off, "" when nothing did."""
    if reply.failure is not None:
        return f"{reply.failure.type}: {reply.failure.message}".rstrip(": ")
    closed = reply.closed
    # RFC 6455, section 7.4.1: 1000 is a normal end, 1001 a peer that goes away.
    if closed is None or closed.by_agent or closed.code in {None, 0, 1000, 1001}:
        return ""
    return f"closed ({closed.code}): {closed.reason}".rstrip(": ")
