"""OpenAI's events over a WebSocket: Realtime, and Responses. A `response.create` begins a model turn.

Realtime keeps the conversation on the server, so an event carries what it adds to it; a Responses event is a Responses
request. What comes back are the events of one response, or of several.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.reading import CallReading
from pytest_agentreplay.providers import openai_responses
from pytest_agentreplay.providers.dialect import FrameDialect, read_request
from pytest_agentreplay.providers.lenient import obj, objects, rest, string
from pytest_agentreplay.providers.streams import ServerSentEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import ReplyReading

CLIENT_IDS = ("$.event_id", "$.item.id", "$.previous_item_id")
CLIENT_REFS = ("$.item_id",)
"""Names an item that either side has made."""
_EVENTS = ("session.", "conversation.", "response.", "input_audio_buffer.", "output_audio_buffer.", "transcription_")
_DELTAS = {
    "response.text.delta": "response.output_text.delta",
    "response.audio_transcript.delta": "response.output_text.delta",
    "response.output_audio_transcript.delta": "response.output_text.delta",
}
"""Events that carry text in the way of another one."""


def fits(body: JsonObject) -> bool:
    """Whether a message is a client event of either."""
    return string(body.get("type")).startswith(_EVENTS)


def read_call(body: JsonObject, url: Url) -> CallReading:
    """Read a client event."""
    kind = string(body.get("type"))
    if kind == "response.create":
        return _response(body, url)
    model = _model(url)
    if kind in {"session.update", "transcription_session.update"}:
        session = obj(body.get("session"))
        return read_request(
            session,
            system_in="instructions",
            messages_in="",
            at="$.session",
            kind="http",
            name="",
            operation=kind,
            model=string(session.get("model")) or model,
            parameters=rest(session, "instructions", "tools"),
            stream=False,
            client_ids=CLIENT_IDS,
            client_refs=CLIENT_REFS,
        )
    item = obj(body.get("item"))
    said: tuple[Json, ...] = (item,) if item and string(item.get("type")) == "message" else ()
    return CallReading(
        kind="http",
        name="",
        operation=kind,
        model=model,
        parameters=rest(body, "type"),
        messages=said,
        messages_at="$.item" if said else "",
        client_ids=CLIENT_IDS,
        client_refs=CLIENT_REFS,
    )


def _response(body: JsonObject, url: Url) -> CallReading:
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


def read_reply(events: Iterable[ServerSentEvent]) -> ReplyReading:
    """Read the events that came back; speech is told by its transcript."""
    told = [_retold(value) for event in events if (value := event.value) is not None]
    body = openai_responses.join(_event(value) for value in told)
    for item in objects(body.get("output")):
        for part in objects(item.get("content")):
            if "transcript" in part and "text" not in part:
                part["text"] = part["transcript"]
    reading = openai_responses.read_reply(body)
    failed = next((obj(value.get("error")) for value in told if string(value.get("type")) == "error"), {})
    return replace(reading, error=string(failed.get("message")) or string(failed.get("code")))


def _event(value: JsonObject) -> ServerSentEvent:
    """The event of a stream of Responses that says the same."""
    return ServerSentEvent(string(value.get("type")), canonical(value))


def _retold(value: JsonObject) -> JsonObject:
    kind = string(value.get("type"))
    return {**value, "type": _DELTAS[kind]} if kind in _DELTAS else value


def _model(url: Url) -> str:
    return next((value for name, value in url.query if name in {"model", "deployment"}), "")


OPENAI_REALTIME = FrameDialect("openai_realtime", r"/(realtime|responses)/*$", "openai", fits, read_call, read_reply)
