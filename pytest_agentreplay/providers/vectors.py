"""Embeddings and rerankers of all providers: no turn begins with them, they are look-ups that the agent makes.

Their inputs stand for messages, so that people are shown what was embedded or ranked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading
from pytest_agentreplay.providers import gemini, openai_chat
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import counts, obj, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading
    from pytest_agentreplay.providers.streams import ServerSentEvent

_INPUTS = ("input", "inputs", "texts", "images", "prompt", "content", "requests", "instances")
_DOCUMENTS = ("documents", "texts")


def embeds(body: JsonObject) -> bool:
    """Whether a body has the shape of a request for embeddings."""
    return any(name in body for name in _INPUTS)


def read_embeddings(body: JsonObject, url: Url) -> CallReading:
    """Read a request; the path names the model where the body does not."""
    name = next(name for name in _INPUTS if name in body)
    model = string(body.get("model")) or gemini.model_of(url) or openai_chat.deployment_of(url)
    return read_request(
        body,
        model=model.removeprefix("models/"),
        messages_in=name,
        tools_in="",
        kind="embeddings",
        provider=gemini.provider_of(url),
        operation="embeddings",
        stream=False,
    )


def predicts(body: JsonObject) -> bool:
    """Whether a prediction of Vertex is one of embeddings: each instance is a content."""
    instances = objects(body.get("instances"))
    return bool(instances) and all("content" in instance for instance in instances)


def read_vectors(body: JsonObject) -> ReplyReading:
    """Read a whole reply: how many vectors, and of how many numbers."""
    usage, meta = obj(body.get("usage")), obj(obj(body.get("meta")).get("billed_units"))
    spent = [usage.get("prompt_tokens"), usage.get("total_tokens"), meta.get("input_tokens")]
    spent.append(body.get("prompt_eval_count"))
    return ReplyReading(
        text=_shape(_vectors(body)),
        usage=counts([("input_tokens", next((count for count in spent if isinstance(count, int)), None))]),
        response_id=string(body.get("id")),
        model=string(body.get("model")),
    )


def _vectors(body: JsonObject) -> list[Json]:
    """The vectors, wherever the provider puts them."""
    items = body.get("embeddings", body.get("data", body.get("predictions")))
    if isinstance(items, dict):
        items = next((value for value in items.values() if isinstance(value, list)), None)
    if isinstance(items, list):
        return [_vector(item) for item in items]
    return [_vector(body["embedding"])] if "embedding" in body else []


def _vector(value: Json) -> Json:
    while isinstance(value, dict):
        value = next((value[name] for name in ("embedding", "embeddings", "values") if name in value), None)
    return value


def _shape(vectors: list[Json]) -> str:
    if not vectors:
        return ""
    count = f"{len(vectors)} vector{'s' * (len(vectors) != 1)}"
    return f"{count} of {len(first)} numbers" if isinstance(first := vectors[0], list) else count


def ranks(body: JsonObject) -> bool:
    """Whether a body has the shape of a request for ranks."""
    return "query" in body and any(isinstance(body.get(name), list) for name in _DOCUMENTS)


def read_rerank(body: JsonObject, _url: Url) -> CallReading:
    """Read a request for ranks: the documents stand for messages, the query is a parameter."""
    name = next(name for name in _DOCUMENTS if isinstance(body.get(name), list))
    return read_request(body, messages_in=name, tools_in="", kind="rerank", operation="rerank", stream=False)


def read_ranks(body: JsonObject) -> ReplyReading:
    """Read a whole reply: the places of the documents, best first, with their scores."""
    results = objects(body.get("results")) or objects(body.get("data"))
    ranked = (f"{result.get('index')} ({result.get('relevance_score', result.get('score'))})" for result in results)
    usage = obj(body.get("usage"))
    return ReplyReading(
        text=", ".join(ranked),
        usage=counts([("input_tokens", usage.get("total_tokens"))]),
        response_id=string(body.get("id")),
        model=string(body.get("model")),
    )


def join(events: Iterable[ServerSentEvent]) -> JsonObject:
    """The last event: none of these APIs streams."""
    return next((event.value for event in reversed(list(events)) if event.value), {})


def _embeddings(name: str, path: str, provider: str) -> Dialect:
    return Dialect(name, path, provider, embeds, read_embeddings, join, read_vectors)


DIALECTS = (
    _embeddings("openai_embeddings", "(?<!/api)/embeddings", "openai"),
    _embeddings("gemini_embeddings", r":(?:embedContent|batchEmbedContents)", "gcp.gemini"),
    Dialect("vertex_embeddings", ":predict", "gcp.vertex_ai", predicts, read_embeddings, join, read_vectors),
    _embeddings("ollama_embeddings", "/api/(?:embed|embeddings)", "ollama"),
    _embeddings("cohere_embeddings", r"/v\d/embed", "cohere"),
    Dialect("rerank", "/rerank", "cohere", ranks, read_rerank, join, read_ranks),
)
"""The rows of all these APIs."""
