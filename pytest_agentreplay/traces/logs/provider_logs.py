"""What providers themselves keep of the calls of their models: Bedrock, Vertex AI, and the files of a batch API.

Bedrock's log of invocations is that of S3 and CloudWatch. The body is Converse's, or that of the provider (Anthropic,
Nova). Where it was too large for the row, the row names an object in S3 and holds nothing.

Vertex has rows of a BigQuery table, whose JSON columns come as text when they are exported. Calls of tools have no ids
there: results are joined by name and order. Where only a sample of the requests is logged, turns are missing in the
middle.

The files of a batch API (OpenAI, Anthropic) are requests in one, replies in others, joined by `custom_id`. The replies
alone do not say what was asked: the file of requests is given beside them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.providers import bedrock
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, rest, string
from pytest_agentreplay.providers.streams import ServerSentEvent
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.logs import runs
from pytest_agentreplay.traces.logs.pairs import Pair, call, read_field
from pytest_agentreplay.traces.logs.runs import LogRow, holds_row, objects_of, rows_of_calls
from pytest_agentreplay.traces.moments import add_milliseconds, moment
from pytest_agentreplay.traces.platforms.span_facts import about, subject
from pytest_agentreplay.traces.trace import Source, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Bedrock: https://docs.aws.amazon.com/bedrock/latest/userguide/model-invocation-logging.html
# Vertex: https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/request-response-logging
# Batches: https://platform.openai.com/docs/guides/batch
_VERBS = {
    "Converse": "converse",
    "ConverseStream": "converse-stream",
    "InvokeModel": "invoke",
    "InvokeModelWithResponseStream": "invoke-with-response-stream",
}
_ENVELOPES = ("events", "logEvents", "results")
_HOST = "https://aiplatform.googleapis.com/v1/"
_MODEL = re.compile(r"[\w./@:-]{1,300}")
_BATCH_LOSSES = ("no tool has a record of its own", "neither headers nor times of single calls")


def _bedrock_rows(opened: Opened) -> list[JsonObject]:
    """The invocations: as rows, or as the messages of CloudWatch's envelopes and query results."""
    return [row for outer in objects_of(opened) for row in _unwrap_rows(outer)]


def _unwrap_rows(row: JsonObject) -> Iterator[JsonObject]:
    for name in _ENVELOPES:
        if isinstance(listed := row.get(name), list):
            for item in listed:
                fields = {string(pair.get("field")): pair.get("value") for pair in objects(item)}
                yield from _unwrap_rows(obj(item) or fields)
            return
    message = parse_text(row.get("message", row.get("@message")))
    yield message if isinstance(message, dict) else row


def _is_invocation(row: JsonObject) -> bool:
    return row.get("schemaType") == "ModelInvocationLog"


def _read_bedrock(opened: Opened) -> list[Trace]:
    rows = _bedrock_rows(opened)
    invocations = [row for row in rows if _is_invocation(row)]
    complete = [row for row in invocations if isinstance(obj(row.get("input")).get("inputBodyJson"), dict)]
    if not complete:
        elsewhere = next((path for row in invocations if (path := obj(row.get("input")).get("inputBodyS3Path"))), None)
        msg = "holds no bodies: switch on textDataDeliveryEnabled in the invocation logging of this region"
        if elsewhere is not None:
            msg = (
                f"holds no bodies: they are in S3 ({elsewhere!s:.120}); put them into inputBodyJson and outputBodyJson"
            )
        raise TraceIncomplete(msg, file=opened.file)
    losses = ["no tool has a record of its own", "neither headers nor how long a call took"]
    if left := len(rows) - len(complete) + opened.junk:
        losses.append(f"{left} rows hold no body (over 100 kB it is in S3) and are left out")
    if any(_is_nova(row) for row in complete):
        losses.append("InvokeModel in the words of Nova is kept as Converse, which says the same")
    version = string(complete[0].get("schemaVersion"))
    source = Source(format="bedrock-invocation-log", version=version, file=opened.file, fidelity="body-json")
    return runs.traces(map(_bedrock_row, complete), source, *losses)


def _bedrock_row(row: JsonObject) -> LogRow:
    model, region, operation = string(row.get("modelId")), string(row.get("region")), string(row.get("operation"))
    verb = _VERBS.get(operation, "converse")
    if _is_nova(row):
        verb = "converse-stream" if operation.endswith("Stream") else "converse"
    error = string(row.get("errorCode"))
    reply = None if error else obj(row.get("output")).get("outputBodyJson")
    body = obj(obj(row.get("input"))["inputBodyJson"])
    host = region if region.replace("-", "").isalnum() and len(region) < 30 else "us-east-1"
    spoken = "bedrock" if verb.startswith("converse") else "anthropic" if _is_typed(body) else ""
    step = wire.json_call(
        f"https://bedrock-runtime.{host}.amazonaws.com/model/{quote(model, safe=':', errors='replace')}/{verb}",
        rest(body, "modelId"),
        _join_frames(reply, verb) if reply else None,
        dialect=spoken,
        started=moment(row.get("timestamp")),
        id=string(row.get("requestId")),
    )
    if error:
        step = replace(step, fault=TraceFault(error, string(row.get("errorMessage"))))
    return LogRow(step=step, **about(obj(row.get("requestMetadata"))))


def _is_nova(row: JsonObject) -> bool:
    """Whether InvokeModel was given Nova's body, which has the form of Converse."""
    body = obj(obj(row.get("input")).get("inputBodyJson"))
    invoked = string(row.get("operation")).startswith("InvokeModel")
    return invoked and isinstance(body.get("messages"), list) and "max_tokens" not in body and not _is_typed(body)


def _is_typed(body: JsonObject) -> bool:
    """Whether the messages are Anthropic's: a text, or blocks with a type."""
    contents = [message.get("content") for message in objects(body.get("messages"))]
    return any(isinstance(value, str) or any("type" in block for block in objects(value)) for value in contents)


def _join_frames(reply: Json, verb: str) -> Json:
    """Return a reply in one piece: the frames of a ConverseStream are joined."""
    if not isinstance(reply, list) or not verb.startswith("converse"):
        return reply
    frames = [(name, value) for chunk in objects(reply) for name, value in obj(chunk.get("chunk", chunk)).items()]
    return bedrock.join(ServerSentEvent(name, canonical(value)) for name, value in frames)


def _vertex_row(row: JsonObject) -> LogRow | None:
    request = obj(parse_text(row.get("full_request"))) or _payload(row.get("request_payload"))
    if not request:
        return None
    reply = parse_text(row.get("full_response")) or _payload(row.get("response_payload"))
    labels = obj(request.get("labels"))
    started = moment(row.get("logging_time"))
    metadata = obj(parse_text(row.get("metadata")))
    model, method = string(row.get("model")), string(row.get("api_method"))
    path = model if _MODEL.fullmatch(model) else "publishers/google/models/unknown"
    return LogRow(
        step=call(
            Pair(request, reply or None),
            f"{_HOST}{path.lstrip('/')}:{method if method.isalnum() else 'generateContent'}",
            started=started,
            ended=add_milliseconds(started, metadata.get("request_latency")),
            id=read_field(row, "request_id"),
        ),
        metadata=labels,
        **subject(labels),
    )


def _payload(value: Json) -> JsonObject:
    """The older columns: a list of texts that hold JSON."""
    return obj(parse_text(next(iter(arr(value)), None)))


def _is_batched(row: JsonObject) -> bool:
    return string(row.get("custom_id")) != "" and bool(_batch_body(row) or _batch_reply(row))


def _read_batch(opened: Opened, beside: Iterable[Opened] = ()) -> list[Trace]:
    rows = [(string(row.get("custom_id")), row) for file in (opened, *beside) for row in objects_of(file)]
    bodies = {name: body for name, row in rows if (body := _batch_body(row))}
    replies = {name: reply for name, row in rows if (reply := _batch_reply(row)) is not None}
    joined = [_batch_row(name, bodies[name], reply) for name, reply in replies.items() if name in bodies]
    if not joined:
        there, lacking = ("requests", "replies (output_file_id)") if bodies else ("replies", "requests (input_file_id)")
        raise TraceIncomplete(
            f"holds the {there} of a batch alone: give the file of its {lacking} beside it", file=opened.file
        )
    losses = [*_BATCH_LOSSES]
    if left := len(replies) - len(joined):
        losses.append(f"{left} replies are to requests that are in no file, and left out")
    if left := len(bodies) - len(joined):
        losses.append(f"{left} requests have no reply in any file, and are left out")
    return runs.traces(joined, Source(format="batch", file=opened.file, fidelity="body-json"), *losses)


def _batch_body(row: JsonObject) -> JsonObject:
    """The body of a request; none where the row is a reply."""
    return obj(row.get("body")) or obj(row.get("params"))


def _batch_reply(row: JsonObject) -> Pair | None:
    """What came back, as OpenAI tells it under "response" and "error", and Anthropic under "result"."""
    if "response" in row or ("error" in row and not _batch_body(row)):
        response = obj(row.get("response"))
        status = response.get("status_code")
        return Pair({}, response.get("body"), status=status if isinstance(status, int) else 0, error=row.get("error"))
    result = obj(row.get("result"))
    if not string(result.get("type")):
        return None
    error = obj(result.get("error"))
    failed = result.get("type") != "succeeded"
    return Pair({}, result.get("message"), error=(obj(error.get("error")) or error or result) if failed else None)


def _batch_row(name: str, body: JsonObject, answer: Pair) -> LogRow:
    exchange = answer._replace(request=body, reply=answer.reply or None)
    return LogRow(step=call(exchange, started=moment(obj(answer.reply).get("created")), id=name), run=name)


FORMATS = (
    Format(
        "bedrock-invocation-log",
        "log of Bedrock's model invocations",
        17,
        holds_row(_is_invocation, _bedrock_rows),
        _read_bedrock,
    ),
    rows_of_calls(
        "vertex-request-response",
        "request-response log of Vertex AI",
        18,
        lambda row: {"logging_time", "api_method", "model"} <= row.keys(),
        _vertex_row,
        "calls of tools have no ids: results are joined by name and order",
        "rows over 10 MB and those that sampling_rate leaves out are not in the table",
        refusal="holds no full_request: set request_response_logging with a BigQuery table of schema v2",
        left_out="rows have no request and are left out",
    ),
    Format(
        "batch", "files of a batch API (OpenAI, Anthropic)", 23.9, holds_row(_is_batched), _read_batch, together="batch"
    ),
)
