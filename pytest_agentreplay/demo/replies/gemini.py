"""Gemini's generateContent and its embeddings, on its own host and on Vertex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import numbers, pieces, sse, tokens
from pytest_agentreplay.demo.script import fresh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.script import Say


def generate(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A response in one piece. Function calls bear no id, as often with Gemini."""
    parts: list[dict[str, Any]] = [{"text": say.text}] if say.text else []
    parts += [{"functionCall": {"name": ask.name, "args": ask.arguments}} for ask in say.asks]
    return {"candidates": [candidate(parts, "STOP")], **about(body), "usageMetadata": usage(body, say)}


def generate_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A response as chunks that are responses themselves: a piece of text each, each function call whole."""
    texts: list[dict[str, Any]] = [{"text": piece} for piece in pieces(say.text)]
    calls = [{"functionCall": {"name": ask.name, "args": ask.arguments}} for ask in say.asks]
    marks = about(body)

    def events() -> Iterator[tuple[str, dict[str, Any]]]:
        for part in [*texts, *calls]:
            yield "", {"candidates": [candidate([part])], **marks}
        last = candidate([{"text": ""}], "STOP")
        yield "", {"candidates": [last], **marks, "usageMetadata": usage(body, say)}

    return sse(events(), named=False)


def candidate(parts: list[dict[str, Any]], finish: str = "") -> dict[str, Any]:
    """The one answer."""
    found: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    return {**found, "finishReason": finish} if finish else found


def about(body: dict[str, Any]) -> dict[str, Any]:
    """What every chunk says of the response."""
    return {"modelVersion": f"{body.get('model', 'demo')}-001", "responseId": fresh("")}


def usage(body: dict[str, Any], say: Say) -> dict[str, int]:
    """The token counts."""
    given, made = tokens(body.get("contents")), tokens([say.text, len(say.asks)])
    return {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made}


def embed(_body: dict[str, Any], _say: Say) -> dict[str, Any]:
    """The vector of one content."""
    return {"embedding": {"values": numbers(8)}}


def embed_batch(body: dict[str, Any], _say: Say) -> dict[str, Any]:
    """A vector for each request of a batch."""
    return {"embeddings": [{"values": numbers(8)} for _ in body.get("requests", ())]}


def predict(body: dict[str, Any], _say: Say) -> dict[str, Any]:
    """A vector for each instance, as Vertex gives them."""
    return {
        "predictions": [
            {"embeddings": {"values": numbers(8), "statistics": {"token_count": tokens(one), "truncated": False}}}
            for one in body.get("instances", ())
        ]
    }
