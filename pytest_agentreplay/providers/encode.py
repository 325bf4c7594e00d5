"""Writing the bytes of model providers: a request or a reply of the conventions in the words of one API.

Reading has its own table (`providers.FAMILIES`); here are the APIs that can be written too. What is written is read
back as what it was made of; ids and times that nobody gave are derived, so that equal replies are equal bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from pytest_agentreplay.compare.matching.address import content
from pytest_agentreplay.model.exchanges import Body, Failure, HttpCall, HttpReply
from pytest_agentreplay.providers import READER, anthropic, bedrock, gemini, genai, openai_responses
from pytest_agentreplay.providers import openai_chat_writing as openai_chat
from pytest_agentreplay.providers.lenient import obj
from pytest_agentreplay.providers.model_reply import dump_json, make_reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Call, JsonObject, Outcome
    from pytest_agentreplay.providers.model_reply import ModelReply

_JSON = ("content-type", "application/json")
_SSE = ("content-type", "text/event-stream; charset=utf-8")
_FRAMES = ("content-type", "application/vnd.amazon.eventstream")
_GROUPS = {"gemini": "generationConfig", "bedrock": "inferenceConfig"}


class ReplyWriter(Protocol):
    """What the module of a dialect has that can be written."""

    BASE: str
    PATH: str
    STREAM_PATH: str
    """Where a request for a stream goes, where the path names the model; "" where the body says both."""

    def request_body(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
        """The body of a request, without its parameters and without what the path says in some APIs."""

    def write_reply(self, reply: ModelReply) -> JsonObject:
        """Return a reply in one piece."""

    def write_stream(self, reply: ModelReply, body: JsonObject, /) -> tuple[bytes, ...]:
        """Return a reply as a stream, an item each event; `body` is that of the request."""


_WRITERS: Mapping[str, ReplyWriter] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "bedrock": bedrock,
}
SPOKEN = frozenset(_WRITERS)
"""The dialects, by their names in `providers.FAMILIES`, that can be written."""


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
    """A request in the words of `dialect`, to its own host or to `base`.

    `messages` and `tools` are those of `providers.genai`; `parameters` are set as they are, under the API's own names.
    Raises KeyError for a dialect that cannot be written.
    """
    writer = _WRITERS[dialect]
    body = writer.request_body(messages, tools)
    if not writer.STREAM_PATH:
        body = {"model": model, **body, **({"stream": True} if stream else {})}
    settings = dict(parameters or {})
    group = _GROUPS.get(dialect)
    if group is not None and settings and group not in settings:
        settings = {group: settings}
    path = (writer.STREAM_PATH if stream else "") or writer.PATH
    path = path.format(name=model.rpartition("/")[2] or "unknown", quoted=quote(model or "unknown", safe=""))
    data = dump_json({**body, **settings}).encode()
    return HttpCall("POST", f"{(base or writer.BASE).rstrip('/')}{path}", (_JSON,), Body(data))


def reply(
    call: Call,
    message: JsonObject,
    *,
    model: str = "",
    response_id: str = "",
    usage: Mapping[str, int] | None = None,
    fingerprint: str = "",
) -> HttpReply | None:
    """A reply to `call` that says `message`, in its dialect, whole or streamed as it asks; None where nobody can."""
    reading = READER.read_call(call)
    writer = _WRITERS.get(reading.dialect)
    if writer is None or not isinstance(call, HttpCall):
        return None
    model_reply = make_reply(
        message, model=model or reading.model, response_id=response_id, usage=dict(usage or {}), fingerprint=fingerprint
    )
    if not reading.stream:
        data = dump_json(writer.write_reply(model_reply)).encode()
        return HttpReply(
            200, "OK", headers=(_JSON, ("content-length", str(len(data)))), body=Body(data), cuts=(len(data),)
        )
    chunks = writer.write_stream(model_reply, obj(content(call.headers, call.body).tree))
    head = _FRAMES if reading.dialect == "bedrock" else _SSE
    return HttpReply(200, "OK", headers=(head,), body=Body(b"".join(chunks)), cuts=tuple(map(len, chunks)))


def retell(call: Call, recorded: Call, outcome: Outcome) -> Outcome:
    """What came back to `recorded`, as `call` asks for it: whole or streamed, in its dialect.

    The very outcome where both ask alike, where it is an error, and where nobody can say it otherwise.
    """
    now, before = READER.read_call(call), READER.read_call(recorded)
    alike = (now.dialect, now.stream) == (before.dialect, before.stream)
    if alike or isinstance(outcome, Failure) or (isinstance(outcome, HttpReply) and outcome.status >= 400):
        return outcome
    reading = READER.read_reply(recorded, outcome)
    if reading.error or not (reading.text or reading.tool_uses):
        return outcome
    message = genai.reply(reading)
    model, response_id = reading.model or before.model, reading.response_id
    translated = reply(
        call, message, model=model, response_id=response_id, usage=reading.usage, fingerprint=reading.fingerprint
    )
    return translated if translated is not None else outcome
