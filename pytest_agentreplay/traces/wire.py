"""A call of a model as it was on the wire, read into the neutral fields.

Whoever holds the bytes gives them to `model_call`; whoever holds the whole JSON, but not the bytes, to `json_call`. Of
the headers those are kept that a snapshot keeps: what carries a credential ends here, in a URL too.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_agentreplay.compare.matching.address import content, header, split
from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.providers import READER, find_dialect
from pytest_agentreplay.providers.hosts import provider
from pytest_agentreplay.providers.lenient import obj, rest, string
from pytest_agentreplay.providers.messages import normalize_conversation, normalize_reply, normalize_tools
from pytest_agentreplay.redaction import headers as header_rules
from pytest_agentreplay.redaction.headers import redact_url
from pytest_agentreplay.traces.trace import ModelCall, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Headers, Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading, ReplyReading

ADDRESSES = {
    "openai_chat": "https://api.openai.com/v1/chat/completions",
    "openai_responses": "https://api.openai.com/v1/responses",
    "openai_embeddings": "https://api.openai.com/v1/embeddings",
    "anthropic": "https://api.anthropic.com/v1/messages",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/models/{model}:{verb}",
    "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com/model/{model}/{verb}",
    "ollama_chat": "http://localhost:11434/api/chat",
    "ollama_generate": "http://localhost:11434/api/generate",
    "cohere": "https://api.cohere.com/v2/chat",
}
"""Where a dialect is spoken when its source does not say where it was."""

_ARGUMENTS = (
    *("extra_headers", "extra_query", "extra_body", "timeout", "http_client", "default_headers"),
    *("api_key", "api_base", "base_url", "organization"),
)
"""What is said to a client beside the body, and logged with it; credentials are among it."""

MODEL_KINDS = frozenset({"model", "embeddings", "rerank"})
JSON: Headers = (("content-type", "application/json"),)

_ABSENT = re.compile(r"<?([\w.]+\.)?(NOT_GIVEN|NotGiven|(Omit|Unset)(?=\W))(\(\))?( object( at \w+)?)?>?")
"""What a client prints of an argument that was not given."""
_VERBS = {"gemini": ("generateContent", "streamGenerateContent"), "bedrock": ("converse", "converse-stream")}
_STREAM = "text/event-stream"
_ERROR_STATUS = 400
_GOING_ON = frozenset({"in_progress", "queued"})
_HIDDEN = "[[redacted:key:1]]"


def model_call(request: HttpCall, response: HttpReply | Failure | None, **facts: Any) -> ModelCall:
    """The call with all that its bytes say; `facts` are further fields of `ModelCall`, and win over what was read.

    A `dialect` among them is that of a body which leaves out what its API demands, and so is not known by its looks.
    """
    url = redact_url(request.url, lambda *_: _HIDDEN)
    request, response = replace(request, url=url, headers=keep_headers(request.headers)), _kept_reply(response)
    call_reading, reply_reading = READER.read_call(request), READER.read_reply(request, response)
    if call_reading.kind == "http" and facts.get("dialect"):
        call_reading, reply_reading = _read_in_dialect(facts["dialect"], request, response, reply_reading)
    answered = isinstance(response, HttpReply) and bool(
        reply_reading.text or reply_reading.tool_uses or not reply_reading.error
    )
    read = join_readings(
        call_reading,
        reply_reading,
        is_answered=answered and not _is_unread(response, reply_reading),
        fault=_fault(response, reply_reading.error) or _find_cut(response, reply_reading),
        status=response.status if isinstance(response, HttpReply) else 0,
        request=request,
        response=response,
    )
    return replace(read, **facts)


def join_readings(call: CallReading, reply: ReplyReading, *, is_answered: bool, **facts: Any) -> ModelCall:
    """Return the call that two readings tell of; `facts` are fields of it that neither tells."""
    return ModelCall(
        provider=call.provider,
        dialect=call.dialect if call.kind in MODEL_KINDS else "",
        operation=call.operation or "chat",
        model=call.model,
        parameters=call.parameters,
        messages=normalize_conversation(call),
        tools=normalize_tools(call.tools),
        reply=normalize_reply(reply) if is_answered else None,
        response_model=reply.model,
        response_id=reply.response_id,
        fingerprint=reply.fingerprint,
        finish_reasons=reply.finish_reasons,
        usage=reply.usage,
        stream=call.stream,
        **facts,
    )


def json_call(where: str, body: Json, reply_body: Json, *, status: int = 200, **facts: Any) -> ModelCall:
    """The call whose request and reply were these JSON values, at the URL or in the dialect `where`.

    No reply came where `reply_body` is None. A reply that is a list holds the events of a stream.
    """
    if "://" not in where:
        fields = body if isinstance(body, dict) else {}
        where = address(where, model=str(fields.get("model", "")), stream=fields.get("stream") is True)
    if isinstance(body, dict):
        body = without_absent({**rest(body, *_ARGUMENTS), **obj(body.get("extra_body"))})
    reply = None if reply_body is None else HttpReply(status, headers=JSON, body=Body(compact(reply_body)))
    return model_call(HttpCall("POST", where, JSON, Body(compact(body))), reply, **facts)


def address(dialect: str, *, model: str = "", stream: bool = False) -> str:
    """The usual URL of a dialect; "" for one that has none."""
    verb = _VERBS.get(dialect, ("", ""))[stream]
    return ADDRESSES.get(dialect, "").format(model=quote(model, safe="", errors="replace"), verb=verb)


def compact(value: Json) -> bytes:
    """JSON as clients write it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half a character stands in it
        return json.dumps(value, separators=(",", ":")).encode()


def without_absent(fields: JsonObject) -> JsonObject:
    """Return the fields, and those of objects in them, without the marks of clients for an argument that is none."""
    present = {name: value for name, value in fields.items() if not _ABSENT.fullmatch(string(value))}
    return {name: without_absent(value) if isinstance(value, dict) else value for name, value in present.items()}


def keep_headers(headers: Iterable[tuple[str, str]], *, reply: bool = False) -> Headers:
    """Return the headers that a snapshot keeps, too."""
    if reply:
        return tuple(
            (name, value) for name, value in headers if header_rules.kept_in_reply(name.lower(), value, frozenset())
        )
    return tuple(
        (name, value) for name, value in headers if header_rules.choose_use(name.lower()) in {"keep", "session"}
    )


def _read_in_dialect(
    name: str, request: HttpCall, response: HttpReply | Failure | None, reply_reading: ReplyReading
) -> tuple[CallReading, ReplyReading]:
    """Return a call and its reply, in one piece, as this dialect reads them."""
    dialect = find_dialect(name)
    assert dialect is not None, name
    url = split(request.url)
    call_reading = dialect.read_call({"messages": [], **obj(content(request.headers, request.body).tree)}, url)
    call_reading = replace(
        call_reading, dialect=name, provider=provider(url.host) or call_reading.provider or dialect.provider
    )
    if isinstance(response, HttpReply):
        reply_reading = replace(
            dialect.read_reply(obj(content(response.headers, response.body).tree)), error=reply_reading.error
        )
    return call_reading, reply_reading


def _kept_reply(response: HttpReply | Failure | None) -> HttpReply | Failure | None:
    if not isinstance(response, HttpReply):
        return response
    cuts = response.cuts or ((len(response.body),) if len(response.body) else ())
    return replace(response, headers=keep_headers(response.headers, reply=True), cuts=cuts)


def _find_cut(response: HttpReply | Failure | None, reading: ReplyReading) -> TraceFault | None:
    """Return the error of a reply that breaks off: JSON that is none, or a stream without an end of the reply in it."""
    if not isinstance(response, HttpReply) or set(reading.finish_reasons) - _GOING_ON:
        return None
    kind, body = header(response.headers, "content-type"), content(response.headers, response.body)
    if kind.startswith(_STREAM):
        return TraceFault("", "the stream ends before the reply in it does")
    broken = "json" in kind and body.kind == "bytes" and body.data[:1] in {b"{", b"["}
    return TraceFault("", "the reply is JSON that breaks off") if broken else None


def _is_unread(response: HttpReply | Failure | None, reading: ReplyReading) -> bool:
    """Return whether the body of a reply is neither JSON nor a stream of it, as its type says."""
    if not isinstance(response, HttpReply) or not len(response.body) or response.status >= _ERROR_STATUS:
        return False
    if reading.text or reading.tool_uses or reading.finish_reasons or reading.model or reading.response_id:
        return False
    kind = header(response.headers, "content-type").partition(";")[0]
    typed = not kind or kind.endswith(("json", "octet-stream", _STREAM))
    return typed and content(response.headers, response.body).kind == "bytes"


def _fault(response: HttpReply | Failure | None, error: str) -> TraceFault | None:
    if isinstance(response, Failure):
        return TraceFault(response.type, response.message)
    if not error:
        return None
    return TraceFault(f"HTTP {response.status}" if response is not None and response.status >= 400 else "", error)
