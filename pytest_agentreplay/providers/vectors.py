"""Embeddings and rerankers of all providers: no turn begins with them, they are look-ups that the agent makes.

Their inputs stand for messages, so that people are shown what was embedded or ranked. The APIs differ in names alone:
https://platform.openai.com/docs/api-reference/embeddings (Mistral, Voyage and Jina speak it too),
https://ai.google.dev/api/embeddings, https://docs.cohere.com/reference/embed and .../reference/rerank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.reading import ReplyReading
from pytest_agentreplay.providers import gemini, openai_chat
from pytest_agentreplay.providers.dialect import Dialect, read_request
from pytest_agentreplay.providers.lenient import counts, first, obj, objects, string

if TYPE_CHECKING:
    from pytest_agentreplay.compare.matching.address import Url
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.model.reading import CallReading

_INPUTS = ("input", "inputs", "texts", "images", "prompt", "content", "requests", "instances")
_DOCUMENTS = ("documents", "texts")


def is_embedding(body: JsonObject) -> bool:
    """Return whether a body has the shape of a request for embeddings."""
    return bool(first(body, _INPUTS))


def is_prediction(body: JsonObject) -> bool:
    """Return whether a prediction of Vertex is one of embeddings: each instance is a content."""
    instances = objects(body.get("instances"))
    return bool(instances) and all("content" in instance for instance in instances)


def read_embeddings(body: JsonObject, url: Url) -> CallReading:
    """Read a request; the path names the model if the body does not."""
    model = string(body.get("model")) or gemini.model_of(url) or openai_chat.deployment_of(url)
    return read_request(
        body,
        model=model.removeprefix("models/"),
        messages_in=first(body, _INPUTS),
        tools_in="",
        kind="embeddings",
        provider=gemini.provider_of(url),
        operation="embeddings",
        stream=False,
    )


def read_vectors(body: JsonObject) -> ReplyReading:
    """Read a whole reply: how many vectors, and of how many numbers."""
    usage, meta = obj(body.get("usage")), obj(obj(body.get("meta")).get("billed_units"))
    spent = [usage.get("prompt_tokens"), usage.get("total_tokens"), meta.get("input_tokens")]
    tokens = next((count for count in [*spent, body.get("prompt_eval_count")] if isinstance(count, int)), None)
    return _make_reading(body, _describe_shape(_list_vectors(body)), tokens)


def _make_reading(body: JsonObject, text: str, tokens: Json) -> ReplyReading:
    usage = counts([("input_tokens", tokens)])
    return ReplyReading(text=text, usage=usage, response_id=string(body.get("id")), model=string(body.get("model")))


def _list_vectors(body: JsonObject) -> list[Json]:
    """The vectors, wherever the provider puts them."""
    items = body.get("embeddings", body.get("data", body.get("predictions")))
    if isinstance(items, dict):
        # Cohere gives a list for each type of number that was asked for.
        items = next((value for value in items.values() if isinstance(value, list)), None)
    if not isinstance(items, list):
        items = [body["embedding"]] if "embedding" in body else []
    return [_unwrap_vector(item) for item in items]


def _unwrap_vector(value: Json) -> Json:
    while isinstance(value, dict):
        value = value.get(first(value, ("embedding", "embeddings", "values")))
    return value


def _describe_shape(vectors: list[Json]) -> str:
    if not vectors:
        return ""
    count = f"{len(vectors)} vector{'s' * (len(vectors) != 1)}"
    return f"{count} of {len(vector)} numbers" if isinstance(vector := vectors[0], list) else count


def is_ranking(body: JsonObject) -> bool:
    """Return whether a body has the shape of a request for ranks."""
    return "query" in body and bool(_find_documents(body))


def _find_documents(body: JsonObject) -> str:
    return next((name for name in _DOCUMENTS if isinstance(body.get(name), list)), "")


def read_ranking(body: JsonObject, _url: Url) -> CallReading:
    """Read a request for ranks: the documents stand for messages, the query is a parameter."""
    name = _find_documents(body)
    return read_request(body, messages_in=name, tools_in="", kind="rerank", operation="rerank", stream=False)


def read_ranks(body: JsonObject) -> ReplyReading:
    """Read a whole reply: the places of the documents, best first, with their scores."""
    results = objects(body.get("results")) or objects(body.get("data"))
    ranked = (f"{result.get('index')} ({result.get('relevance_score', result.get('score'))})" for result in results)
    return _make_reading(body, ", ".join(ranked), obj(body.get("usage")).get("total_tokens"))


_FUNCTIONS = (is_embedding, read_embeddings, read_vectors)
DIALECTS = (
    Dialect("openai_embeddings", "(?<!/api)/embeddings", "openai", *_FUNCTIONS),
    Dialect("gemini_embeddings", ":(?:embedContent|batchEmbedContents)", "gcp.gemini", *_FUNCTIONS),
    Dialect("vertex_embeddings", ":predict", "gcp.vertex_ai", is_prediction, read_embeddings, read_vectors),
    Dialect("ollama_embeddings", "/api/(?:embed|embeddings)", "ollama", *_FUNCTIONS),
    Dialect("cohere_embeddings", r"/v\d/embed", "cohere", *_FUNCTIONS),
    Dialect("rerank", "/rerank", "cohere", is_ranking, read_ranking, read_ranks),
)
