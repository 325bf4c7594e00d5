"""Bedrock's log of model invocations, as S3 and CloudWatch hold it.

The body is Converse's, or that of the provider (Anthropic, Nova). Where it was too large for the row, the row names an
object in S3 and holds nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_agentreplay.core.canonical_json import canonical
from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.bedrock import BEDROCK
from pytest_agentreplay.dialects.lenient import obj, objects, rest, string
from pytest_agentreplay.dialects.streams import ServerSentEvent
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange import wire
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import runs, tables
from pytest_agentreplay.interchange.logs.pairs import known
from pytest_agentreplay.interchange.logs.runs import LogRow
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import Source, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

_VERBS = {
    "Converse": "converse",
    "ConverseStream": "converse-stream",
    "InvokeModel": "invoke",
    "InvokeModelWithResponseStream": "invoke-with-response-stream",
}
_ENVELOPES = ("events", "logEvents", "results")
_USERS, _SESSIONS = ("user", "user_id", "userId"), ("session", "session_id", "sessionId", "conversation_id")


def _rows(opened: Opened) -> list[JsonObject]:
    """The invocations: as rows, or as the messages of CloudWatch's envelopes and query results."""
    return [found for row in tables.rows(opened) for found in _unwrapped(row)]


def _unwrapped(row: JsonObject) -> Iterator[JsonObject]:
    for name in _ENVELOPES:
        if isinstance(listed := row.get(name), list):
            for one in listed:
                fields = {string(pair.get("field")): pair.get("value") for pair in objects(one)}
                yield from _unwrapped(obj(one) or fields)
            return
    message = genai.parsed(row.get("message", row.get("@message")))
    yield obj(message) if isinstance(message, dict) else row


def _invocation(row: JsonObject) -> bool:
    return row.get("schemaType") == "ModelInvocationLog"


def _fits(opened: Opened) -> bool:
    return any(map(_invocation, _rows(opened)[:50]))


def _read(opened: Opened) -> list[Trace]:
    rows = _rows(opened)
    invocations = [row for row in rows if _invocation(row)]
    whole = [row for row in invocations if isinstance(obj(row.get("input")).get("inputBodyJson"), dict)]
    if not whole:
        elsewhere = next((path for row in invocations if (path := obj(row.get("input")).get("inputBodyS3Path"))), None)
        msg = "holds no bodies: switch on textDataDeliveryEnabled in the invocation logging of this region"
        if elsewhere is not None:
            msg = (
                f"holds no bodies: they are in S3 ({elsewhere!s:.120}); put them into inputBodyJson and outputBodyJson"
            )
        raise TraceIncomplete(msg, file=opened.file)
    losses = ["no tool has a record of its own", "neither headers nor how long a call took"]
    if left := len(rows) - len(whole) + opened.junk:
        losses.append(f"{left} rows hold no body (over 100 kB it is in S3) and are left out")
    if any(_native(row) for row in whole):
        losses.append("InvokeModel in the words of Nova is kept as Converse, which says the same")
    version = string(whole[0].get("schemaVersion"))
    source = Source(format="bedrock-invocation-log", version=version, file=opened.file, fidelity="body-json")
    return runs.traces(map(_row, whole), source, *losses)


def _row(row: JsonObject) -> LogRow:
    told, metadata = obj(row.get("output")), obj(row.get("requestMetadata"))
    model, region = string(row.get("modelId")), string(row.get("region"))
    operation = string(row.get("operation"))
    verb = _VERBS.get(operation, "converse")
    if _native(row):
        verb = "converse-stream" if operation.endswith("Stream") else "converse"
    error = string(row.get("errorCode"))
    reply = None if error else told.get("outputBodyJson")
    body = obj(obj(row.get("input"))["inputBodyJson"])
    path = f"model/{quote(model, safe=':', errors='replace')}/{verb}"
    call = wire.json_call(
        f"https://bedrock-runtime.{_host(region)}.amazonaws.com/{path}",
        rest(body, "modelId"),
        _whole(reply, verb) if reply else None,
        dialect="anthropic" if verb.startswith("invoke") and _typed(body) else verb.startswith("converse") * "bedrock",
        started=moment(row.get("timestamp")),
        id=string(row.get("requestId")),
    )
    if error:
        call = replace(call, fault=TraceFault(error, string(row.get("errorMessage"))))
    return LogRow(
        step=call,
        user=known(metadata, *_USERS),
        session=known(metadata, *_SESSIONS),
        tenant=known(metadata, "tenant"),
        metadata=rest(metadata, *_USERS, *_SESSIONS, "tenant"),
    )


def _native(row: JsonObject) -> bool:
    """Whether InvokeModel was given Nova's body, which has the form of Converse."""
    body = obj(obj(row.get("input")).get("inputBodyJson"))
    invoked = string(row.get("operation")).startswith("InvokeModel")
    return invoked and isinstance(body.get("messages"), list) and "max_tokens" not in body and not _typed(body)


def _typed(body: JsonObject) -> bool:
    """Whether the messages are Anthropic's: a text, or blocks with a type."""
    contents = [message.get("content") for message in objects(body.get("messages"))]
    return any(isinstance(held, str) or any("type" in block for block in objects(held)) for held in contents)


def _whole(reply: Json, verb: str) -> Json:
    """A reply in one piece: the frames of a ConverseStream are joined."""
    if not isinstance(reply, list) or not verb.startswith("converse"):
        return reply
    frames = [(name, value) for chunk in objects(reply) for name, value in obj(chunk.get("chunk", chunk)).items()]
    return BEDROCK.join(ServerSentEvent(name, canonical(value)) for name, value in frames)


def _host(region: str) -> str:
    return region if region.replace("-", "").isalnum() and len(region) < 30 else "us-east-1"


FORMATS = (Format("bedrock-invocation-log", "log of Bedrock's model invocations", 17, _fits, _read),)
