"""The lines of an agent that runs as a child process: prompts, messages, and a control protocol in both directions.

Spoken by the Claude Agent SDK with its command-line program. Each side may ask the other (hooks, permissions, tools of
the caller's own process); a question has a `request_id`, which its answer repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.json_rpc import message
from pytest_agentreplay.providers.lenient import obj, string

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from pytest_agentreplay.model.exchanges import Json, JsonObject

CLIENT_IDS = ("$.request_id",)
"""Where the id of a question stands that the SDK asks: it is drawn at random."""

# `claude_agent_sdk/_internal/query.py` of the SDK has both directions.
_QUESTIONS = frozenset({"control_request", "control_cancel_request"})


def client_ids(line: JsonObject) -> tuple[str, ...]:
    """The paths of ids that the SDK made up for a line of its own."""
    return CLIENT_IDS if string(line.get("type")) in _QUESTIONS else ()


def subject(data: bytes, *, by_agent: bool) -> Hashable | None:
    """Which question a line is about; None for what is said without being asked."""
    if question := read_question_id(data):
        return ("agent" if by_agent else "child"), question
    line = message(data)
    answered = obj(line.get("response")).get("request_id") if line.get("type") == "control_response" else None
    return (("child" if by_agent else "agent"), str(answered)) if answered is not None else None


def read_question_id(data: bytes) -> str:
    """Return the id of a question of either side, "" for any other line."""
    line = message(data)
    return string(line.get("request_id")) if client_ids(line) else ""


def rename_ids(line: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """Return what the child sent, under the ids that the SDK has drawn today."""
    response = obj(line.get("response"))
    request_id: Json = response.get("request_id")
    if line.get("type") == "control_response" and isinstance(request_id, str) and request_id in names:
        return {**line, "response": {**response, "request_id": names[request_id]}}
    return line
