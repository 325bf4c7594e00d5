"""The rows of one branch as calls of the model, and as the tools that ran between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.dialects import genai, messages
from pytest_agentreplay.dialects.anthropic import read_reply
from pytest_agentreplay.dialects.lenient import arr, obj, objects, string
from pytest_agentreplay.interchange.logs.claude_rows import blocks
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import ModelCall, ToolRun, TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.trace import Step


_BY_PROGRAM = "<synthetic>"
"""The model of what the program itself says in the assistant's place."""


def steps(rows: list[JsonObject], agent: str = "") -> list[Step]:
    """The steps in order; the pieces of one reply are one call, where its first piece stands."""
    pieces: dict[str, list[JsonObject]] = {}
    for place, row in enumerate(rows):
        if row.get("type") == "assistant":
            pieces.setdefault(_reply(row, place), []).append(row)
    asked: dict[str, ToolRun] = {}
    before: list[JsonObject] = []
    found: list[Step] = []
    for place, row in enumerate(rows):
        if row.get("type") == "user":
            before = [] if row.get("isCompactSummary") is True else before  # from here on the model saw the summary
            found += _ran(row, asked)
            genai.join(before, genai.message(obj(row.get("message"))))
        elif obj(row.get("message")).get("model") == _BY_PROGRAM and row.get("isApiErrorMessage") is not True:
            genai.join(before, genai.message(obj(row.get("message"))))
        elif (own := pieces.pop(_reply(row, place), None)) is not None:
            call, uses = _call(own, before)
            found.append(replace(call, agent=agent))
            asked |= {use.call_id: replace(use, agent=agent) for use in uses}
            if call.reply is not None:
                genai.join(before, call.reply)
    return found


def last_text(rows: list[JsonObject]) -> Json:
    """What the assistant said last in words."""
    for row in reversed(rows):
        if row.get("type") == "assistant" and row.get("isApiErrorMessage") is not True:
            content = obj(row.get("message")).get("content")
            texts = [string(block.get("text")) for block in blocks(row) if block.get("type") == "text"]
            if said := string(content) or "\n".join(filter(None, texts)):
                return said
    return None


def _reply(row: JsonObject, place: int) -> str:
    return string(obj(row.get("message")).get("id")) or f"#{place}"


def _call(rows: list[JsonObject], before: list[JsonObject]) -> tuple[ModelCall, list[ToolRun]]:
    """The call whose reply these rows are, and the tools that it asks for."""
    told = [obj(row.get("message")) for row in rows]
    content: list[Json] = []
    seen: set[str] = set()
    for message in told:
        given = message.get("content")
        listed: list[Json] = given if isinstance(given, list) else [{"type": "text", "text": given}]
        for block in listed:
            if (key := canonical(block)) not in seen:  # a row may say again what an earlier one said
                seen.add(key)
                content.append(block)
    reading = read_reply({**told[-1], "content": content})
    times = [moment(row.get("timestamp")) for row in rows]
    reply = genai.message({"role": "assistant", "content": content})
    failed = rows[0].get("isApiErrorMessage") is True  # what stands there is the program's word for the error
    call = ModelCall(
        provider="anthropic",
        dialect="anthropic",
        model="" if failed else reading.model,
        messages=tuple(before),
        reply=reply | {"finish_reason": next(iter(reading.finish_reasons), "")}
        if arr(reply["parts"]) and not failed
        else None,
        response_model="" if failed else reading.model,
        response_id=reading.response_id,
        finish_reasons=reading.finish_reasons,
        usage={} if failed else reading.usage,
        fault=TraceFault(message=reading.text) if failed else None,
        started=times[0],
        ended=times[-1],
        id=string(rows[0].get("uuid")),
        parent=string(rows[0].get("parentUuid")),
    )
    uses = messages.tool_uses({"role": "assistant", "content": content})
    return call, [ToolRun(name=use.name, call_id=use.id, arguments=use.arguments, started=times[-1]) for use in uses]


def _ran(row: JsonObject, asked: dict[str, ToolRun]) -> list[ToolRun]:
    """The tools whose results a row tells; what the program keeps beside a result says more than the model saw."""
    message = genai.message(obj(row.get("message")))
    results = [part for part in objects(message["parts"]) if part.get("type") == "tool_call_response"]
    found: list[ToolRun] = []
    for part in results:
        run = asked.pop(string(part.get("id")), None)
        if run is None:
            continue
        seen = part.get("response")
        beside = row.get("toolUseResult")
        said = seen if isinstance(seen, str) else canonical(seen)
        found.append(
            replace(
                run,
                seen=seen,
                result=seen if beside is None or len(results) > 1 else beside,
                fault=TraceFault(message=said) if part.get("is_error") is True else None,
                ended=moment(row.get("timestamp")),
                id=string(row.get("uuid")),
            )
        )
    return found
