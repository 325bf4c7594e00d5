"""What all APIs say with: a text in pieces, a stream in frames, counts and numbers."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.core.reading import ToolUse
from pytest_agentreplay.demo.script import fresh
from pytest_agentreplay.dialects.encode import model_reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.demo.script import Say

Event: TypeAlias = "tuple[str, dict[str, Any]]"


def reply_of(
    say: Say, body: dict[str, Any], read: str, *, name: str = "", call: str = "call_"
) -> model_reply.ModelReply:
    """A reply under fresh ids that begin with `name` and `call`; the field `read` of the request is what it took in."""
    uses = tuple(ToolUse(fresh(call), ask.name, ask.arguments) for ask in say.asks)
    usage = {"input_tokens": tokens(body.get(read)), "output_tokens": tokens([say.text, len(say.asks)])}
    model, end = body.get("model", "demo"), model_reply.end_of("", uses)
    return model_reply.ModelReply(say.text, uses, end, model, fresh(name), "fp_demo", usage)


def sse(events: Iterator[Event], *, named: bool, done: bool = False) -> Iterator[bytes]:
    """Events as server-sent events, one item each; `named` writes the event line, `done` ends with `[DONE]`."""
    for name, data in events:
        head = f"event: {name}\n" if named else ""
        yield f"{head}data: {json.dumps(data, separators=(',', ':'), ensure_ascii=False)}\n\n".encode()
    if done:
        yield b"data: [DONE]\n\n"


def pieces(text: str) -> list[str]:
    """A text in the pieces in which a model would stream it: word by word, nothing lost."""
    return re.findall(r"\s*\S+|\s+$", text)


def tokens(value: Any) -> int:
    """A count that grows with what is said; no tokenizer."""
    return max(1, len(json.dumps(value)) // 4)


def halves(text: str) -> tuple[str, str]:
    """A text cut in the middle, as models cut tool arguments."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def ndjson(values: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Values as lines of JSON, one item each."""
    for value in values:
        yield json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def numbers(count: int) -> list[float]:
    """Numbers between -1 and 1 that never come twice, for a vector or scores."""
    return [(byte - 128) / 128 + int.from_bytes(os.urandom(3), "big") / 2**31 for byte in os.urandom(count)]
