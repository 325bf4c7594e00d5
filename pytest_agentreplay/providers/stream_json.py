"""The lines of an agent that runs as a child process: prompts, messages, and a control protocol in both directions.

Spoken by the Claude Agent SDK with its command-line program. Each side may ask the other (hooks, permissions, tools of
the caller's own process); a question has a `request_id`, which its answer repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.json_rpc import make_key, message
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
    if question := made_ids(data).get("id"):
        return ("agent" if by_agent else "child"), question
    line = message(data)
    answered = obj(line.get("response")).get("request_id") if line.get("type") == "control_response" else None
    return (("child" if by_agent else "agent"), str(answered)) if answered is not None else None


def made_ids(data: bytes) -> dict[str, Json]:
    """Return the id of a question of either side; nothing for any other line."""
    line = message(data)
    return {"id": string(line.get("request_id"))} if client_ids(line) else {}


def rename_ids(line: JsonObject, names: Mapping[Hashable, Json]) -> JsonObject:
    """Return what the child sent, under the ids that the SDK has drawn today; `names` has them by recorded id."""
    response = obj(line.get("response"))
    request_id = make_key(response.get("request_id"))
    if line.get("type") == "control_response" and request_id in names:
        return {**line, "response": {**response, "request_id": names[request_id]}}
    return line
