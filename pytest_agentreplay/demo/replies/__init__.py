"""What the model server says: one reply in the words of each API, whole or as a stream.

Pure functions of the request, the reply and fresh ids; a file each family of APIs. The shapes are those that the
official SDKs parse; a whole reply is written by `dialects.encode` where that speaks the API.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.demo.replies import (
    anthropic,
    bedrock,
    cohere,
    gemini,
    ollama,
    openai_chat,
    openai_responses,
    openai_vectors,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.demo.script import Say

Whole: TypeAlias = "Callable[[dict[str, Any], Say], dict[str, Any]]"
Streamed: TypeAlias = "Callable[[dict[str, Any], Say], Iterator[bytes]]"

SSE = "text/event-stream; charset=utf-8"
NDJSON = "application/x-ndjson"
FRAMES = "application/vnd.amazon.eventstream"


@dataclass(frozen=True, slots=True)
class Api:
    """One operation of an API: the end of its path, its reply in one piece, its reply as a stream.

    An operation that has both streams when the body's `stream` says so, and `streams` where the body says nothing.
    What the path names as `model` stands in for the body's.
    """

    path: str
    whole: Whole | None = None
    stream: Streamed | None = None
    type: str = SSE
    streams: bool = False

    def asked_to_stream(self, body: dict[str, Any]) -> bool:
        """Whether the request wants a stream."""
        return self.whole is None or (self.stream is not None and bool(body.get("stream", self.streams)))


_MODEL = r"/(?P<model>[^/]+)"

# By the end of the path, so that any base URL does.
APIS: tuple[Api, ...] = (
    Api(r"/chat/completions", openai_chat.chat, openai_chat.chat_stream),
    Api(r"/responses", openai_responses.responses, openai_responses.responses_stream),
    Api(r"/messages", anthropic.messages, anthropic.messages_stream),
    Api(rf"/models{_MODEL}:rawPredict", anthropic.messages),
    Api(rf"/models{_MODEL}:streamRawPredict", stream=anthropic.messages_stream),
    Api(rf"/models{_MODEL}:generateContent", gemini.generate),
    Api(rf"/models{_MODEL}:streamGenerateContent", stream=gemini.generate_stream),
    Api(rf"/models{_MODEL}:embedContent", gemini.embed),
    Api(rf"/models{_MODEL}:batchEmbedContents", gemini.embed_batch),
    Api(rf"/models{_MODEL}:predict", gemini.predict),
    Api(rf"/model{_MODEL}/converse", bedrock.converse),
    Api(rf"/model{_MODEL}/converse-stream", stream=bedrock.converse_stream, type=FRAMES),
    Api(rf"/model{_MODEL}/invoke", anthropic.messages),
    Api(rf"/model{_MODEL}/invoke-with-response-stream", stream=bedrock.invoke_stream, type=FRAMES),
    Api(r"/api/chat", ollama.chat, ollama.chat_stream, NDJSON, streams=True),
    Api(r"/api/generate", ollama.generate, ollama.generate_stream, NDJSON, streams=True),
    Api(r"/api/embed", ollama.embed),
    Api(r"/v2/chat", cohere.chat, cohere.chat_stream),
    Api(r"/v2/embed", cohere.embed),
    Api(r"/rerank", cohere.rerank),
    Api(r"/embeddings", openai_vectors.embeddings),
)


def spoken(path: str, body: Any) -> tuple[Api, dict[str, Any]] | None:
    """The operation that `path` names, and the body with what the path says; None for what is no API of these."""
    path = path.partition("?")[0]
    for api in APIS:
        if isinstance(body, dict) and (found := re.search(f"{api.path}$", path)):
            return api, {**found.groupdict(), **body}
    return None
