"""JSON-RPC 2.0 as MCP speaks it over a lasting connection: which message answers which, under which of today's ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import parse
from pytest_agentreplay.model.exchanges import FrameCall, FramesReply
from pytest_agentreplay.providers.lenient import obj

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from pytest_agentreplay.model.exchanges import Exchange, Json, JsonObject

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def message(data: bytes) -> JsonObject:
    """The message that `data` is; empty when it is none."""
    return obj(parse(data))


def is_request(said: JsonObject) -> bool:
    """Whether whoever says it wants an answer."""
    return "method" in said and "id" in said


def subject(data: bytes, *, by_agent: bool) -> Hashable | None:
    """What a message is about: who asked, and under which id. A question and its answer have the same subject.

    Progress is about the question whose token it bears. None for what is about nothing else, such as a log line.
    """
    said = message(data)
    if is_request(said):
        return ("agent" if by_agent else "server"), plain(said["id"])
    if "id" in said:
        return ("server" if by_agent else "agent"), plain(said["id"])
    if not by_agent and (token := _token(said)) is not None:
        return "agent", token
    return None


def answers(exchanges: Iterable[Exchange]) -> dict[int, JsonObject]:
    """What answered each question that an agent asked over a connection of MCP, by the start of its exchange.

    An answer may have come after the agent had said other things, so it stands in the outcome of one of those.
    """
    asked: dict[tuple[int, Hashable], int] = {}
    found: dict[int, JsonObject] = {}
    for x in exchanges:
        if not isinstance(x.call, FrameCall) or x.call.boundary != "mcp":
            continue
        connection = x.call.connection or x.start
        if (about := subject(x.call.body.data, by_agent=True)) is not None:
            asked[connection, about] = x.start
        for frame in x.outcome.frames() if isinstance(x.outcome, FramesReply) else ():
            said = message(frame.data)
            if "method" not in said and (about := subject(frame.data, by_agent=False)) is not None:
                start = asked.get((connection, about))
                if start is not None:
                    found.setdefault(start, said)
    return found


def made_ids(data: bytes) -> dict[str, Json]:
    """The ids that the client made up for a question, by what they are: its number, its token of progress."""
    asked = message(data)
    if not is_request(asked):
        return {}
    meta = obj(obj(asked.get("params")).get("_meta"))
    found = {"id": asked.get("id"), "token": meta.get("progressToken")}
    return {name: value for name, value in found.items() if value is not None}


def renamed(said: JsonObject, names: Mapping[Hashable, Json]) -> JsonObject:
    """What the server said, under the ids that the client has made up today; `names` has them by the recorded ones."""
    if "method" not in said and "id" in said:
        return {**said, "id": names.get(plain(said["id"]), said["id"])}
    params = obj(said.get("params"))
    meta = obj(params.get("_meta"))
    if (token := _token(said)) in names:
        return {**said, "params": {**params, "progressToken": names[token]}}
    if (known := plain(meta.get(SUBSCRIPTION))) in names:
        return {**said, "params": {**params, "_meta": {**meta, SUBSCRIPTION: names[known]}}}
    return said


def _token(said: JsonObject) -> Hashable | None:
    return plain(obj(said.get("params")).get("progressToken")) if "method" in said else None


def plain(value: Json) -> Hashable | None:
    """An id as a key; numbers and texts stay apart."""
    return (type(value).__name__, value) if isinstance(value, str | int) else None
