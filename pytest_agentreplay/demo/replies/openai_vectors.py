"""OpenAI's embeddings, which Mistral, Voyage and many more speak too."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.demo.replies.words import numbers, tokens
from pytest_agentreplay.demo.script import fresh

if TYPE_CHECKING:
    from pytest_agentreplay.demo.script import Say


def embeddings(body: dict[str, Any], _say: Say) -> dict[str, Any]:
    """A vector for each input, as numbers or, when asked for, as the base64 of floats."""
    given = body.get("input", "")
    many = isinstance(given, list) and bool(given) and not isinstance(given[0], int)
    data = [
        {"object": "embedding", "index": index, "embedding": vector(body)} for index in range(len(given) if many else 1)
    ]
    count = tokens(given)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return {"id": fresh("embd-"), "object": "list", "data": data, "model": body.get("model", "demo"), "usage": usage}


def vector(body: dict[str, Any]) -> list[float] | str:
    """One vector in the encoding that the request asks for."""
    values = numbers(body.get("dimensions") or 8)
    if body.get("encoding_format") != "base64":
        return values
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
