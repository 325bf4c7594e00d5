"""Look-ups of all APIs as the model server answers them: embeddings and ranks, new each time."""

from __future__ import annotations

import base64
import json
import os
import struct
from typing import Any

from pytest_agentreplay.cli.demo.script import fresh


def tokens(value: Any) -> int:
    """A count that grows with what is said; no tokenizer."""
    return max(1, len(json.dumps(value)) // 4)


def numbers(count: int) -> list[float]:
    """Numbers between -1 and 1 that never come twice, for a vector or scores."""
    return [(byte - 128) / 128 + int.from_bytes(os.urandom(3), "big") / 2**31 for byte in os.urandom(count)]


def embeddings(body: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's, which Mistral, Voyage and many more speak too: as numbers or, when asked for, as base64 of floats."""
    given = body.get("input", "")
    many = isinstance(given, list) and bool(given) and not isinstance(given[0], int)
    vectors: list[Any] = [numbers(body.get("dimensions") or 8) for _ in range(len(given) if many else 1)]
    if body.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in vectors]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(vectors)]
    usage = {"prompt_tokens": tokens(given), "total_tokens": tokens(given)}
    return {"id": fresh("embd-"), "object": "list", "data": data, "model": body.get("model", "demo"), "usage": usage}


def embed_content(_body: dict[str, Any]) -> dict[str, Any]:
    """Gemini's vector of one content."""
    return {"embedding": {"values": numbers(8)}}


def embed_batch(body: dict[str, Any]) -> dict[str, Any]:
    """Gemini's vector for each request of a batch."""
    return {"embeddings": [{"values": numbers(8)} for _ in body.get("requests", ())]}


def predict(body: dict[str, Any]) -> dict[str, Any]:
    """A vector for each instance, as Vertex gives them."""
    counts = [{"token_count": tokens(instance), "truncated": False} for instance in body.get("instances", ())]
    return {"predictions": [{"embeddings": {"values": numbers(8), "statistics": count}} for count in counts]}


def embed_input(body: dict[str, Any]) -> dict[str, Any]:
    """Ollama's vector for each input."""
    given = body.get("input", "")
    vectors = [numbers(8) for _ in range(len(given) if isinstance(given, list) else 1)]
    return {"model": body.get("model", "demo"), "embeddings": vectors, "prompt_eval_count": tokens(given)}


def embed_texts(body: dict[str, Any]) -> dict[str, Any]:
    """Cohere's vector for each text, by type of number."""
    texts = body.get("texts") or []
    vectors = [numbers(8) for _ in texts or body.get("inputs") or body.get("images") or ()]
    meta = {"api_version": {"version": "2"}, "billed_units": {"input_tokens": tokens(texts)}}
    return {"id": fresh(""), "embeddings": {"float": vectors}, "texts": texts, "meta": meta}


def rerank(body: dict[str, Any]) -> dict[str, Any]:
    """The documents by their scores."""
    scores = [abs(score) for score in numbers(len(body.get("documents", ())))]
    ranked = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[: body.get("top_n")]
    results = [{"index": index, "relevance_score": scores[index]} for index in ranked]
    return {"id": fresh(""), "results": results, "meta": {"billed_units": {"search_units": 1}}}
