"""Rows of a request and its reply, as programs and gateways log them: `{"request": {...}, "response": {...}}`.

There is no standard; the names that many give to the two, to times, ids and people are read, and whatever wraps a body
("body", "url", "status") is taken off. Which API was spoken is seen from the bodies.

Helicone exports one row a request. Of PromptLayer there is what its SDK sends, the arguments of a call and its whole
reply, whose own key ends here; and what its REST API gives and takes: messages in the form of no provider
("blueprints"). `GET /api/public/v2/requests/ID` has one blueprint for all that was said, the reply last; a body of
`/log-request` has the reply apart.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.model.exchanges import Body, HttpCall, HttpReply
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, rest, string
from pytest_agentreplay.providers.messages import normalize_message
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.logs.runs import LOOKED_AT, LogRow, objects_of, rows_of_calls
from pytest_agentreplay.traces.moments import add_milliseconds, moment
from pytest_agentreplay.traces.platforms import bodies
from pytest_agentreplay.traces.platforms.span_facts import NAMES, about, find_named, subject, texts, usage
from pytest_agentreplay.traces.trace import TraceFault

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Format, Opened
    from pytest_agentreplay.traces.trace import ModelCall

_SIDES = (
    *(("request", "response"), ("req", "res"), ("req", "resp"), ("request_body", "response_body")),
    *(("request", "reply"), ("kwargs", "response"), ("body", "response"), ("input", "output")),
    *(("request", "completion"), ("requestBody", "responseBody"), ("raw_request", "raw_response")),
)
_STARTS = ("timestamp", "started_at", "start_time", "startTime", "request_time", "created_at", "time", "ts", "date")
_ENDS = ("ended_at", "end_time", "endTime", "response_time", "finished_at", "completed_at")
_SPENT = ("duration_ms", "latency_ms", "elapsed_ms", "durationMs", "latencyMs")
_IDS = ("id", "request_id", "requestId", "litellm_call_id")
_RUNS = ("run_id", "trace_id", "traceId")
_KINDS = ("type", "class", "error_class", "code")
_PRINTED = re.compile(r"[A-Z]\w*\(\w+=|<[\w.]+ object at 0x")
_STATUSES = ("status_code", "status", "statusCode", "http_status")
_ERRORS = ("error", "exception", "error_information", "error_message", "error_str")
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}
"""What an API answers with: a log that keeps its bodies alone does not tell."""
_RAW_SHOWN = ("model_parameters", "optional_params")
_MESSAGES = frozenset({"message", "message_start"})
_CHAT = frozenset({"chat.completion", "chat.completion.chunk"})
_FAMILIES = (("anthropic_version", "anthropic"), ("contents", "gemini"), ("inferenceConfig", "bedrock"))


class Pair(NamedTuple):
    """One row without what wraps its bodies. `reply` is None where none came."""

    request: JsonObject
    reply: Json
    url: str = ""
    status: int = 0
    error: Json = None

    @property
    def dialect(self) -> str:
        """The API that was spoken, "" for what is no model call."""
        return dialect_of(self.request, self.reply)


def pair(row: Json) -> Pair | None:
    """A row as a pair; None for any other."""
    fields = obj(row)
    for request_name, reply_name in _SIDES:
        request = parse_text(fields.get(request_name))
        if isinstance(request, dict) and reply_name in fields:
            return _pair(fields, request, parse_text(fields[reply_name]))
    if isinstance(fields.get("messages"), list) and isinstance(fields.get("response"), dict):  # LiteLLM's payload
        parameters = {name: value for field in _RAW_SHOWN for name, value in obj(fields.get(field)).items()}
        request = {"model": fields.get("model"), "messages": fields["messages"], **parameters}
        return _pair(fields, request, fields["response"])
    return None


def _pair(row: JsonObject, request: JsonObject, reply: Json) -> Pair:
    outer, answer = request, obj(reply)
    for name in ("body", "json", "data"):
        inner = parse_text(outer.get(name))
        if isinstance(inner, dict) and not {"messages", "input", "contents"} & outer.keys():
            request = inner
    wrapped = next((name for name in ("body", "json", "data") if name in answer), "")
    if wrapped and not dialect_of(None, answer):
        reply = parse_text(answer[wrapped])
    status = next((code for side in (answer, row) for name in _STATUSES if _code(code := side.get(name))), 0)
    error = next((row[name] for name in _ERRORS if row.get(name)), None)
    if obj(reply).get("error") and not status and not dialect_of(None, reply):
        status = _status_of(obj(obj(reply)["error"]))
    url = string(outer.get("url")) or string(outer.get("uri")) or string(row.get("url"))
    return Pair(request, reply or None, url if "://" in url else "", status if isinstance(status, int) else 0, error)


def _status_of(error: JsonObject) -> int:
    code = error.get("code")
    return code if isinstance(code, int) and _code(code) else _STATUS_OF.get(string(error.get("type")), 500)


def call(exchange: Pair, where: str = "", **facts: object) -> ModelCall:
    """The pair as the call of a model."""
    where = where or exchange.url or _find_url(exchange)
    status = exchange.status or 200
    if isinstance(exchange.reply, str) and (status >= 400 or _is_stream(exchange.reply)):
        sent = HttpCall("POST", where, wire.JSON, Body(wire.compact(exchange.request)))
        kind = "text/event-stream" if _is_stream(exchange.reply) else "text/plain"
        came = Body(exchange.reply.encode("utf-8", "replace"))
        return wire.model_call(sent, HttpReply(status, headers=(("content-type", kind),), body=came), **facts)
    if isinstance(
        exchange.reply, str
    ):  # the words alone, or what Python prints of an object, which nobody can read back
        words = "" if _PRINTED.match(exchange.reply) else exchange.reply
        message = normalize_message({"role": "assistant", "content": words}) if words else None
        return wire.json_call(where, exchange.request, None, status=status, reply=message, **facts)
    if exchange.error and exchange.reply is None:
        facts.setdefault("fault", fault(exchange.error))
    read = wire.json_call(where, exchange.request, exchange.reply, status=status, **facts)
    return read if exchange.status or exchange.reply is None else replace(read, status=0)


def fault(error: Json) -> TraceFault:
    """An error as a log tells it: a text, or an object with type and message."""
    fields = obj(error)
    kind = next((text for name in _KINDS if (text := string(fields.get(name)))), "")
    message = string(fields.get("message")) or string(fields.get("error_message"))
    message = message or (error if isinstance(error, str) else "")
    return TraceFault(kind, message or (wire.compact(error).decode("utf-8", "replace") if not kind else ""))


def read_field(row: JsonObject, *names: str) -> str:
    """Return the first of these fields of a row, or of its metadata, that is not empty."""
    return find_named((row, obj(row.get("metadata"))), names)


def dialect_of(request: Json, reply: Json) -> str:
    """The dialect by the shape of the reply, else by that of the request; "" for what is no model call."""
    body = obj(request)
    return _of_reply(reply) or _of_request(body)


def _of_reply(reply: Json) -> str:
    answer = obj(reply)
    if isinstance(reply, list):  # the events of a stream
        answer = next(iter(objects(reply)), {})
    kind = string(answer.get("object"))
    if kind in _CHAT or isinstance(answer.get("choices"), list):
        return "openai_chat"
    if kind == "response" or string(answer.get("type")).startswith("response."):
        return "openai_responses"
    if string(answer.get("type")) in _MESSAGES and ("content" in answer or "message" in answer):
        return "anthropic"
    if isinstance(answer.get("candidates"), list):
        return "gemini"
    if isinstance(obj(answer.get("output")).get("message"), dict) or "messageStart" in answer:
        return "bedrock"
    if isinstance(answer.get("message"), dict) and "done" in answer:
        return "ollama_chat"
    return "ollama_generate" if "done" in answer and "response" in answer else ""


def _of_request(body: dict[str, Json]) -> str:
    for name, dialect in _FAMILIES:
        if name in body:
            return dialect
    if isinstance(body.get("messages"), list):
        schemas = [tool for tool in objects(body.get("tools")) if "input_schema" in tool]
        ours = schemas or "stop_sequences" in body or string(body.get("model")).startswith("claude")
        return "anthropic" if ("system" in body or ours) and "max_tokens" in body else "openai_chat"
    return "openai_responses" if "input" in body and "model" in body else ""


def _is_stream(reply: str) -> bool:
    return reply.lstrip().startswith(("data:", "event:"))


def _find_url(exchange: Pair) -> str:
    streamed = isinstance(exchange.reply, list) or exchange.request.get("stream") is True
    model = string(exchange.request.get("model")) or string(obj(exchange.reply).get("modelVersion")) or "unknown"
    return wire.address(exchange.dialect, model=model.removeprefix("models/"), stream=streamed)


def _code(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600


def _row(row: JsonObject) -> LogRow | None:
    exchange = pair(row)
    if exchange is None or not exchange.dialect:
        return None
    started = next((at for name in _STARTS if (at := moment(row.get(name))) is not None), None)
    ended = next((at for name in _ENDS if (at := moment(row.get(name))) is not None), None)
    ended = ended or next((at for name in _SPENT if (at := add_milliseconds(started, row.get(name))) is not None), None)
    metadata, request = obj(row.get("metadata")), exchange.request
    return LogRow(
        step=call(exchange, started=started, ended=ended, id=read_field(row, *_IDS)),
        run=read_field(row, *_RUNS),
        name=read_field(row, "name", "agent", "agent_name"),
        tags=texts(row.get("tags")),
        metadata=rest(metadata, *NAMES["user"], *NAMES["session"]),
        **subject(row, metadata, obj(request.get("metadata")), {"user": request.get("user")}),
    )


def _format(name: str, title: str, *dialects: str) -> Format:
    """The format of rows whose first pair is in one of these dialects."""

    def is_dialect(opened: Opened) -> bool:
        pairs = filter(None, map(pair, objects_of(opened)[:LOOKED_AT]))
        return next((exchange.dialect for exchange in pairs if exchange.dialect), "") in dialects

    rows = rows_of_calls(
        name,
        title,
        24,
        pair,
        _row,
        "neither headers nor the bytes of the wire",
        refusal="holds no request with its messages beside its reply: log both bodies whole",
        left_out="rows are no calls of a model and left out",
    )
    return replace(rows, fits=is_dialect)


# Helicone: `HeliconeRequest` in packages/llm-mapper/types.ts of github.com/Helicone/helicone.
# PromptLayer: what its SDK 1.5.16 sends to /track-request.
_SESSION, _PATH, _NAME = "Helicone-Session-Id", "Helicone-Session-Path", "Helicone-Session-Name"
_HOSTS = {"OPENAI": "api.openai.com", "ANTHROPIC": "api.anthropic.com", "GROQ": "api.groq.com"}
_BLUEPRINT_KINDS = frozenset({"chat", "completion"})


def _helicone(row: JsonObject) -> LogRow | None:
    """One row a request, with bodies only where they were asked for."""
    request, reply = parse_text(row.get("request_body")), parse_text(row.get("response_body"))
    if not isinstance(request, dict):
        return None
    properties = obj(row.get("request_properties"))
    session = string(properties.get(_SESSION))
    started, ended = moment(row.get("request_created_at")), moment(row.get("response_created_at"))
    later = started is not None and ended is not None and ended > started
    status = row.get("response_status")
    path = string(row.get("request_path"))
    host = _HOSTS.get(string(row.get("provider")).upper(), "")
    return LogRow(
        step=call(
            Pair(request, reply or None, status=status if isinstance(status, int) and status > 0 else 0),
            path if "://" in path else f"https://{host}{path}" if host and path.startswith("/") else "",
            started=started,
            ended=ended if later else add_milliseconds(started, row.get("delay_ms")),
            id=string(row.get("request_id")),
        ),
        run=f"{session} {string(properties.get(_PATH))}".strip() if session else "",
        name=string(properties.get(_NAME)),
        user=string(row.get("request_user_id")),
        session=session,
        tenant=string(properties.get("tenant")),
        metadata=rest(properties, _SESSION, _PATH, _NAME, "tenant"),
    )


def _sent_by_sdk(row: JsonObject) -> LogRow | None:
    request = parse_text(row.get("kwargs"))
    if not isinstance(request, dict):
        return None
    metadata = obj(row.get("metadata"))
    return LogRow(
        step=call(
            Pair(request, parse_text(row.get("request_response"))),
            started=moment(row.get("request_start_time")),
            ended=moment(row.get("request_end_time")),
            id=string(row.get("span_id")),
        ),
        tags=texts(row.get("tags")),
        metadata=metadata,
        **subject(metadata),
    )


def _is_blueprint(row: JsonObject) -> bool:
    typed = "provider" in row and string(obj(row.get("input")).get("type")) in _BLUEPRINT_KINDS
    return typed or isinstance(row.get("prompt_blueprint"), dict)


def _blueprint(row: JsonObject) -> LogRow | None:
    if not _is_blueprint(row):
        return None
    blueprint = obj(row.get("prompt_blueprint"))
    template = obj(blueprint.get("prompt_template")) or obj(row.get("input"))
    model = obj(obj(blueprint.get("metadata")).get("model"))
    messages, reply = _list_messages(template, "user"), _list_messages(obj(row.get("output")), "assistant")
    if not reply and messages and obj(messages[-1]).get("role") == "assistant":
        messages, reply = messages[:-1], messages[-1:]
    parameters = obj(model.get("parameters")) or obj(row.get("parameters"))
    error = row.get("error_message")
    step = bodies.model_call(
        {"messages": messages, "tools": arr(template.get("tools")), **parameters},
        reply or None,
        provider=string(row.get("provider")) or string(model.get("provider")),
        model=string(row.get("model")) or string(model.get("name")),
        usage=usage(row),
        fault=fault({"type": row.get("error_type"), "message": error}) if error else None,
        started=moment(row.get("request_start_time")),
        ended=moment(row.get("request_end_time")),
        id=read_field(row, "request_id"),
    )
    if not step.messages:
        return None
    return LogRow(
        step=step,
        run=string(row.get("trace_id")),
        name=string(row.get("prompt_name")),
        tags=texts(row.get("tags")),
        **about(obj(row.get("metadata"))),
    )


def _list_messages(template: JsonObject, role: str) -> list[Json]:
    """The messages of a chat; the text of a completion as one."""
    if template.get("type") == "completion":
        return [{"role": role, "content": template.get("content")}]
    return [*objects(template.get("messages"))]


FORMATS = (
    _format("openai-chat-log", "requests and replies of OpenAI's chat API", "openai_chat"),
    _format("openai-responses-log", "requests and replies of OpenAI's Responses API", "openai_responses"),
    _format("anthropic-log", "requests and replies of Anthropic's Messages API", "anthropic"),
    _format(
        "model-log", "requests and replies of another model API", "gemini", "bedrock", "ollama_chat", "ollama_generate"
    ),
    rows_of_calls(
        "helicone",
        "export of Helicone",
        14,
        lambda row: {"request_path", "request_id", "request_created_at"} <= row.keys(),
        _helicone,
        "no tool has a record of its own",
        "a stream is kept as the whole that it amounts to",
        refusal="holds no bodies: export again with --include-body (a signed_body_url is not followed)",
        left_out="rows have no body and are left out",
    ),
    rows_of_calls(
        "promptlayer",
        "requests as PromptLayer's SDK sends them",
        15,
        lambda row: {"function_name", "provider_type", "kwargs", "request_response"} <= row.keys(),
        _sent_by_sdk,
        "no tool has a record of its own",
        "neither headers nor the bytes of the wire",
        refusal="holds no arguments of calls: log them with kwargs",
        left_out="rows are no calls of a model and left out",
    ),
    rows_of_calls(
        "promptlayer-requests",
        "requests of PromptLayer's REST API",
        15.1,
        _is_blueprint,
        _blueprint,
        "no tool has a record of its own",
        "messages are in PromptLayer's own form: neither the provider's body nor its response id and finish reason",
        refusal="its blueprints hold no messages: log `input` and `output` whole",
        left_out="rows hold no messages and are left out",
    ),
)
