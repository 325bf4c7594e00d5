"""What the model server says: one reply in the words of each API, whole or as a stream.

Functions of the request, the reply and fresh ids. The shapes are those that the official SDKs parse; `providers.encode`
writes them where it speaks the API, and `cli.demo.ollama_cohere` and `cli.demo.vectors` write the others.
"""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.cli.demo import ollama_cohere, vectors
from pytest_agentreplay.cli.demo.script import fresh
from pytest_agentreplay.model.reading import ToolUse
from pytest_agentreplay.providers import anthropic, bedrock, gemini, openai_chat_writing, openai_responses
from pytest_agentreplay.providers.model_reply import ModelReply, end_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.cli.demo.script import Say

Whole: TypeAlias = "Callable[[ModelReply], dict[str, Any]]"
Streamed: TypeAlias = "Callable[[ModelReply, dict[str, Any]], tuple[bytes, ...]]"
LookUp: TypeAlias = "Callable[[dict[str, Any]], dict[str, Any]]"

SSE = "text/event-stream; charset=utf-8"
NDJSON = "application/x-ndjson"
FRAMES = "application/vnd.amazon.eventstream"


@dataclass(frozen=True, slots=True)
class Api:
    """One operation of an API: the end of its path, the writers of its reply, or what it looks up.

    An operation that has both forms streams when the body's `stream` says so, and `streams` where the body says
    nothing. What the path names as `model` stands in for the body's. `messages` is the field of the body that the
    model reads; ids begin with `prefix`, those of tool calls with `call_prefix`.
    """

    path: str
    write_whole: Whole | None = None
    write_stream: Streamed | None = None
    type: str = SSE
    streams: bool = False
    messages: str = "messages"
    prefix: str = ""
    call_prefix: str = "call_"
    look_up: LookUp | None = None

    def is_stream(self, body: dict[str, Any]) -> bool:
        """Whether the reply to a request is a stream."""
        if self.write_stream is None or self.write_whole is None:
            return self.write_stream is not None
        return bool(body.get("stream", self.streams))

    def whole(self, body: dict[str, Any], say: Say) -> dict[str, Any]:
        """The reply in one piece."""
        if self.look_up is not None:
            return self.look_up(body)
        assert self.write_whole is not None
        return self.write_whole(self._reply(body, say))

    def stream(self, body: dict[str, Any], say: Say) -> tuple[bytes, ...]:
        """The reply as a stream, an item each event."""
        assert self.write_stream is not None
        return self.write_stream(self._reply(body, say), body)

    def _reply(self, body: dict[str, Any], say: Say) -> ModelReply:
        uses = tuple(ToolUse(self.call_prefix and fresh(self.call_prefix), a.name, a.arguments) for a in say.asks)
        read, written = vectors.tokens(body.get(self.messages)), vectors.tokens([say.text, len(say.asks)])
        model = body.get("model", "demo")
        return ModelReply(
            text=say.text,
            uses=uses,
            end=end_of("", uses),
            model=model,
            id=fresh(self.prefix),
            fingerprint="fp_demo",
            usage={"input_tokens": read, "output_tokens": written},
            created=int(time.time()),
            in_pieces="tral" not in model,  # Mistral's SDK takes no tool call in pieces
        )


def _invoke_stream(reply: ModelReply, _body: dict[str, Any]) -> tuple[bytes, ...]:
    """The events of a Messages stream, each as base64 in a frame."""
    texts = (json.dumps(event).encode() for event in anthropic.events(reply))
    return tuple(bedrock.frame("chunk", {"bytes": base64.b64encode(text).decode()}) for text in texts)


_MODEL = r"/(?P<model>[^/]+)"
_CLAUDE: dict[str, Any] = {"prefix": "msg_", "call_prefix": "toolu_"}
_GEMINI: dict[str, Any] = {"messages": "contents", "call_prefix": ""}  # as often with Gemini, calls bear no id
_CONVERSE: dict[str, Any] = {"call_prefix": "tooluse_"}
_OLLAMA: dict[str, Any] = {"type": NDJSON, "streams": True}

# By the end of the path, so that any base URL does.
APIS: tuple[Api, ...] = (
    Api("/chat/completions", openai_chat_writing.whole, openai_chat_writing.streamed, prefix="chatcmpl-"),
    Api("/responses", openai_responses.whole, openai_responses.streamed, messages="input", prefix="resp_"),
    Api("/messages", anthropic.whole, anthropic.streamed, **_CLAUDE),
    Api(f"/models{_MODEL}:rawPredict", anthropic.whole, **_CLAUDE),
    Api(f"/models{_MODEL}:streamRawPredict", None, anthropic.streamed, **_CLAUDE),
    Api(f"/models{_MODEL}:generateContent", gemini.whole, **_GEMINI),
    Api(f"/models{_MODEL}:streamGenerateContent", None, gemini.streamed, **_GEMINI),
    Api(f"/models{_MODEL}:embedContent", look_up=vectors.embed_content),
    Api(f"/models{_MODEL}:batchEmbedContents", look_up=vectors.embed_batch),
    Api(f"/models{_MODEL}:predict", look_up=vectors.predict),
    Api(f"/model{_MODEL}/converse", bedrock.whole, **_CONVERSE),
    Api(f"/model{_MODEL}/converse-stream", None, bedrock.streamed, FRAMES, **_CONVERSE),
    Api(f"/model{_MODEL}/invoke", anthropic.whole, **_CLAUDE),
    Api(f"/model{_MODEL}/invoke-with-response-stream", None, _invoke_stream, FRAMES, **_CLAUDE),
    Api("/api/chat", ollama_cohere.chat, ollama_cohere.stream_chat, **_OLLAMA),
    Api("/api/generate", ollama_cohere.generate, ollama_cohere.stream_generate, messages="prompt", **_OLLAMA),
    Api("/api/embed", look_up=vectors.embed_input),
    Api("/v2/chat", ollama_cohere.cohere_chat, ollama_cohere.stream_cohere_chat),
    Api("/v2/embed", look_up=vectors.embed_texts),
    Api("/rerank", look_up=vectors.rerank),
    Api("/embeddings", look_up=vectors.embeddings),
)


def spoken(path: str, body: Any) -> tuple[Api, dict[str, Any]] | None:
    """The operation that `path` names, and the body with what the path says; None for what is no API of these."""
    path = path.partition("?")[0]
    for api in APIS:
        if isinstance(body, dict) and (match := re.search(f"{api.path}$", path)):
            return api, {**match.groupdict(), **body}
    return None
