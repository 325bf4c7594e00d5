"""Ollama's chat, generate and embed; streams are lines of JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import ndjson, numbers, pieces, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.demo.script import Say


def chat(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """A chat reply in one piece. Tool calls bear no id."""
    message: dict[str, Any] = {"role": "assistant", "content": say.text}
    if say.asks:
        message["tool_calls"] = calls(say)
    return {**line(body), "message": message, **ended(body.get("messages"), say)}


def chat_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """A chat reply in lines: a piece of text each, then the tool calls, then the counts."""

    def lines() -> Iterator[dict[str, Any]]:
        for piece in pieces(say.text):
            yield {**line(body), "message": {"role": "assistant", "content": piece}, "done": False}
        if say.asks:
            message = {"role": "assistant", "content": "", "tool_calls": calls(say)}
            yield {**line(body), "message": message, "done": False}
        last = {"role": "assistant", "content": ""}
        yield {**line(body), "message": last, **ended(body.get("messages"), say)}

    return ndjson(lines())


def generate(body: dict[str, Any], say: Say) -> dict[str, Any]:
    """The completion of a prompt in one piece."""
    return {**line(body), "response": say.text, **ended(body.get("prompt"), say)}


def generate_stream(body: dict[str, Any], say: Say) -> Iterator[bytes]:
    """The completion of a prompt in lines."""

    def lines() -> Iterator[dict[str, Any]]:
        for piece in pieces(say.text):
            yield {**line(body), "response": piece, "done": False}
        yield {**line(body), "response": "", **ended(body.get("prompt"), say)}

    return ndjson(lines())


def embed(body: dict[str, Any], _say: Say) -> dict[str, Any]:
    """A vector for each input."""
    given = body.get("input", "")
    count = len(given) if isinstance(given, list) else 1
    vectors = [numbers(8) for _ in range(count)]
    return {"model": body.get("model", "demo"), "embeddings": vectors, "prompt_eval_count": tokens(given)}


def calls(say: Say) -> list[dict[str, Any]]:
    """The tool calls of a message."""
    return [{"function": {"name": ask.name, "arguments": ask.arguments}} for ask in say.asks]


def line(body: dict[str, Any]) -> dict[str, Any]:
    """What every line says."""
    return {"model": body.get("model", "demo"), "created_at": datetime.now(UTC).isoformat()}


def ended(given: Any, say: Say) -> dict[str, Any]:
    """What the last line says besides."""
    counted = {"prompt_eval_count": tokens(given), "eval_count": tokens([say.text, len(say.asks)])}
    return {"done": True, "done_reason": "stop", "total_duration": 5_000_000, "load_duration": 1_000_000, **counted}
