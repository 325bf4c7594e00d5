"""Writing the bytes of model providers: a request or a reply of the conventions in the words of one API.

A dialect that can be written has a `Writer`. What is written is read back as what it was made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.providers import READER, find_dialect
from pytest_agentreplay.providers.lenient import dump_json, obj, string
from pytest_agentreplay.providers.messages import normalize_reply
from pytest_agentreplay.providers.model_reply import Conversation, ModelReply, end_of, make_stamp, take_apart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Call, JsonObject, Outcome
    from pytest_agentreplay.providers.dialect import Writer

_JSON = ("content-type", "application/json")


def find_writer(dialect: str) -> Writer | None:
    """Return how a dialect is written; None for one that cannot be, or that is none."""
    row = find_dialect(dialect)
    return row and row.writer


def request(
    dialect: str,
    *,
    model: str,
    messages: Sequence[JsonObject],
    tools: Sequence[JsonObject] = (),
    parameters: JsonObject | None = None,
    stream: bool = False,
    base: str = "",
) -> HttpCall:
    """Return a request in the words of `dialect`, to its own host or to `base`.

    `messages` and `tools` are those of `providers.messages`; `parameters` are set as they are, under the API's own
    names. Raises KeyError for a dialect that cannot be written.
    """
    writer = find_writer(dialect)
    if writer is None:
        raise KeyError(dialect)
    body = writer.write_request(Conversation(tuple(map(take_apart, messages)), tuple(map(_tool, tools))))
    if not writer.stream_path:
        body = {"model": model, **body, **({"stream": True} if stream else {})}
    # Gemini and Bedrock keep parameters in a group; a trace may have them there already.
    settings = dict(parameters or {})
    if writer.group and settings and writer.group not in settings:
        settings = {writer.group: settings}
    path = (writer.stream_path if stream else "") or writer.path
    path = path.format(name=model.rpartition("/")[2] or "unknown", quoted=quote(model or "unknown", safe=""))
    data = dump_json({**body, **settings}).encode()
    return HttpCall("POST", f"{(base or writer.base).rstrip('/')}{path}", (_JSON,), Body(data))


def _tool(tool: JsonObject) -> JsonObject:
    parameters = obj(tool.get("parameters")) or {"type": "object", "properties": {}}
    return {"name": tool.get("name"), "description": string(tool.get("description")), "parameters": parameters}


def reply(
    call: Call,
    message: JsonObject,
    *,
    model: str = "",
    response_id: str = "",
    usage: Mapping[str, int] | None = None,
    fingerprint: str = "",
) -> HttpReply | None:
    """Return a reply to `call` that says `message`, in its dialect, whole or streamed as it asks; None if none can."""
    reading = READER.read_call(call)
    writer = find_writer(reading.dialect)
    if writer is None or not isinstance(call, HttpCall):
        return None
    spoken = take_apart(message)
    model_reply = ModelReply(
        text=spoken.text,
        uses=spoken.uses,
        end=end_of(string(message.get("finish_reason")), spoken.uses),
        model=model or reading.model,
        id=response_id or make_stamp(message),
        fingerprint=fingerprint,
        usage=dict(usage or {}),
    )
    return write(writer, model_reply, obj(content(call.headers, call.body).tree), stream=reading.stream)


def write(writer: Writer, reply: ModelReply, body: JsonObject, *, stream: bool) -> HttpReply:
    """Return a reply as it is sent, one chunk for each event; `body` is that of the request."""
    if stream:
        chunks = writer.write_stream(reply, body)
        head = ("content-type", writer.stream_type)
        return HttpReply(200, "OK", headers=(head,), body=Body(b"".join(chunks)), cuts=tuple(map(len, chunks)))
    # In one chunk, as from a server that knows the length.
    data = dump_json(writer.write_reply(reply, body)).encode()
    headers = (_JSON, ("content-length", str(len(data))))
    return HttpReply(200, "OK", headers=headers, body=Body(data), cuts=(len(data),))


def retell(call: Call, recorded: Call, outcome: Outcome) -> Outcome:
    """Return what came back to `recorded` as `call` asks for it: whole or streamed, in its dialect.

    That is the very outcome if both ask alike, if it is an error, and if nobody can write it otherwise.
    """
    now, before = READER.read_call(call), READER.read_call(recorded)
    alike = (now.dialect, now.stream) == (before.dialect, before.stream)
    if alike or isinstance(outcome, Failure) or (isinstance(outcome, HttpReply) and outcome.status >= 400):
        return outcome
    reading = READER.read_reply(recorded, outcome)
    if reading.error or not (reading.text or reading.tool_uses):
        return outcome
    translated = reply(
        call,
        normalize_reply(reading),
        model=reading.model or before.model,
        response_id=reading.response_id,
        usage=reading.usage,
        fingerprint=reading.fingerprint,
    )
    return translated if translated is not None else outcome
