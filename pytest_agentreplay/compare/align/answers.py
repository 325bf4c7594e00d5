"""What came back from a call, as one value that two runs can be compared on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.model.exchanges import Failure, FramesReply, HttpReply, ToolCall
from pytest_agentreplay.model.turns import is_model

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Closed, Exchange, Json, Outcome
    from pytest_agentreplay.model.reading import Reader


def answer(exchange: Exchange, reader: Reader) -> Json:
    """What came back, without ids and counts: the part of an outcome that two runs are compared on."""
    call, outcome = exchange.call, exchange.outcome
    if not isinstance(call, ToolCall) and isinstance(outcome, HttpReply | FramesReply) and is_model(call, reader):
        reply = reader.read_reply(call, outcome)
        uses: list[Json] = [{"name": use.name, "arguments": _value(use.arguments)} for use in reply.tool_uses]
        whole: dict[str, Json] = {"text": reply.text, "tool_calls": uses}
        if isinstance(outcome, HttpReply):
            whole["status"] = outcome.status
        whole["finish_reasons"] = list(reply.finish_reasons)
        if reply.error:
            whole["error"] = reply.error
        return whole
    return _outcome(outcome)


def _value(arguments: Json) -> Json:
    value = parse(arguments, exact=True) if isinstance(arguments, str) else arguments
    return arguments if isinstance(value, NotJson) else value


def _outcome(outcome: Outcome | None) -> Json:
    """Any outcome as one value."""
    match outcome:
        case None:
            return {"unfinished": True}
        case Failure(kind, message):
            return {"raised": f"{kind}: {message}".rstrip(": ")}
        case HttpReply(status):
            held = content(outcome.headers, outcome.body)
            body = held.tree if held.kind != "bytes" else held.data.decode("utf-8", "replace")
            return {"status": status, "body": body, **_broken(outcome.failure)}
        case FramesReply():
            frames: list[Json] = [_value(frame.data.decode("utf-8", "replace")) for frame in outcome.frames()]
            return {"frames": frames, **_ended(outcome.closed), **_broken(outcome.failure)}
        case _:
            items: dict[str, Json] = {} if outcome.items is None else {"items": list(outcome.items)}
            items |= {"sent": list(outcome.sent)} if outcome.sent else {}
            return {"value": outcome.value, **items, **_broken(outcome.failure)}


def _ended(closed: Closed | None) -> dict[str, Json]:
    return {} if closed is None else {"closed": closed.code, "reason": closed.reason}


def _broken(failure: Failure | None) -> dict[str, Json]:
    return {} if failure is None else {"raised": f"{failure.type}: {failure.message}".rstrip(": ")}
