"""Gemini live: `setup`, then content, speech and tool results of the agent; field names in either spelling.

Finished content, a text, and the results of tools begin a model turn. The model's name is in the setup alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.reading import CallReading, ReplyReading, ToolUse
from pytest_agentreplay.providers.dialect import FrameDialect, read_request
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string, token_counts, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.providers.streams import ServerSentEvent

_NAME = "gemini live"
_SENT = ("clientContent", "client_content", "realtimeInput", "realtime_input", "toolResponse", "tool_response")
_KINDS = frozenset({"setup", *_SENT})


def fits(body: JsonObject) -> bool:
    """Whether a message is one of the agent's."""
    return any(name in _KINDS for name in body)


def read_call(body: JsonObject, _url: Url) -> CallReading:
    """Read a message."""
    name = next(name for name in body if name in _KINDS)
    inner, at = obj(body[name]), f"$.{name}"
    match name:
        case "setup":
            return _setup(inner, at)
        case "clientContent" | "client_content":
            turns = tuple(arr(inner.get("turns")))
            begins = _get(inner, "turnComplete") is not False
            return _said(turns, f"{at}.turns" if turns else "", rest(inner, "turns"), begins=begins)
        case "toolResponse" | "tool_response":
            field = "functionResponses" if "functionResponses" in inner else "function_responses"
            given = inner.get(field)
            results: tuple[Json, ...] = tuple(arr(given)) or ((given,) if given else ())
            return _said(results, f"{at}.{field}" if results else "", rest(inner, field), begins=True)
        case _:
            text = inner.get("text")
            said: tuple[Json, ...] = (text,) if isinstance(text, str) else ()
            return _said(said, f"{at}.text" if said else "", rest(inner, "text"), begins=bool(said))


def _setup(setup: JsonObject, at: str) -> CallReading:
    system = next((name for name in ("systemInstruction", "system_instruction") if name in setup), "")
    more: dict[str, Any] = {"kind": "http", "name": "", "operation": "setup", "stream": False}
    return read_request(setup, system_in=system, messages_in="", at=at, **more)


def _said(messages: tuple[Json, ...], at: str, parameters: JsonObject, *, begins: bool) -> CallReading:
    return CallReading(
        kind="model" if begins else "http",
        name=_NAME if begins else "",
        operation="generate_content",
        parameters=parameters,
        messages=messages,
        messages_at=at,
    )


def read_reply(events: Iterable[ServerSentEvent]) -> ReplyReading:
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


def _get(found: JsonObject, name: str) -> Json:
    """A field in either spelling."""
    if name in found:
        return found[name]
    return found.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))


GEMINI_LIVE = FrameDialect("gemini_live", "BidiGenerateContent", "gcp.gemini", fits, read_call, read_reply)
