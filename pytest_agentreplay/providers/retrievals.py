"""Retrievals: what a vector store, retriever or memory was asked and gave, read loosely from the shapes in use.

Documents of LangChain, nodes of llama-index, answers of Chroma, Qdrant, Pinecone and Elasticsearch, pairs of document
and score, the two matrices of faiss, lists of texts or objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import ToolReply
from pytest_agentreplay.model.reading import CallReading, Chunk
from pytest_agentreplay.providers.lenient import obj, string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject, Outcome, ToolCall

QUERIES = ("query", "query_str", "query_text", "query_texts", "text", "question", "input", "q", "query_bundle")
IDS = ("id", "id_", "_id", "doc_id", "node_id", "chunk_id", "document_id", "key", "pk")
SCORES = ("score", "similarity", "distance", "_score", "_distance", "relevance_score", "similarity_score")
CONTENTS = ("page_content", "text", "content", "document", "chunk", "body", "memory", "value")
HOLDERS = ("matches", "points", "hits", "results", "documents", "nodes", "source_nodes", "chunks", "objects", "data")
INSIDE = ("node", "document", "doc", "entity", "payload", "_source", "properties", "metadata")


def read_call(call: ToolCall) -> CallReading:
    """A retrieval: the query as its one message, everything else as parameters."""
    asked = query(call.arguments)
    return CallReading(
        kind="retrieval",
        name=call.name,
        dialect="in_process",
        operation="retrieval",
        model=string(call.facts.get("embedding_model")),
        parameters=dict(call.arguments),
        messages=(asked,) if asked else (),
    )


def query(arguments: JsonObject) -> str:
    """The text that is looked for, "" where no argument shows it (a vector is no text)."""
    from pytest_agentreplay.values.deserializer import plain

    found = obj(plain(dict(arguments)))
    said = next((found[name] for name in QUERIES if found.get(name)), "")
    if isinstance(said, dict):
        said = said.get("query_str") or said.get("text") or ""
    if isinstance(said, list):
        said = ", ".join(one for one in said if isinstance(one, str))
    return string(said)


def read_chunks(outcome: Outcome | None) -> tuple[Chunk, ...]:
    """The chunks in the order in which they came."""
    if not isinstance(outcome, ToolReply):
        return ()
    from pytest_agentreplay.values.deserializer import plain

    value: Any = plain(outcome.value if outcome.items is None else list(outcome.items))
    if isinstance(value, dict) and value.keys() == {"$awaited"}:
        value = value["$awaited"]
    return tuple(_chunks(value))


def _chunks(value: Any) -> Iterator[Chunk]:
    match value:
        case list() | tuple() if (neighbours := _matrices(value)) is not None:
            yield from (Chunk(str(identity), score) for score, identity in neighbours)
        case tuple() if (pair := _scored(value)) is not None:
            yield pair
        case list() | tuple():
            for one in value:
                found = _scored(one) if isinstance(one, list | tuple) else _chunk(one)
                yield from [found] if found is not None else _chunks(one) if isinstance(one, list | tuple) else []
        case dict() if isinstance(value.get("ids"), list):
            yield from _columns(value)
        case dict():
            held = next((value[name] for name in HOLDERS if isinstance(value.get(name), list | dict)), None)
            single = _chunk(value)
            if held is not None:
                yield from _chunks(held)
            elif single is not None and (single.id or single.score is not None or single.content):
                yield single


def _chunk(value: Any, score: float | None = None) -> Chunk | None:
    """One chunk: an object with its parts at hand or one level in, or a bare text; None for what is neither."""
    if isinstance(value, str):
        return Chunk("", score, value)
    found = obj(value)
    if not found:
        return None
    places = [found, *(obj(found.get(name)) for name in INSIDE if obj(found.get(name)))]
    places += [obj(inner) for place in places[1:] for name in ("metadata",) if (inner := place.get(name))]
    own = next((place[name] for place in places for name in SCORES if number(place.get(name)) is not None), score)
    content = next((place[name] for place in places for name in CONTENTS if isinstance(place.get(name), str)), "")
    identity = next((place[name] for place in places for name in (*IDS, "source") if named(place.get(name))), "")
    return Chunk(str(identity), number(own), string(content))


def _scored(value: Any) -> Chunk | None:
    """A pair of document and score, either first."""
    if len(value) != 2:
        return None
    first, second = value
    if number(second) is not None and not isinstance(first, list | tuple) and number(first) is None:
        return _chunk(first, number(second))
    if number(first) is not None and not isinstance(second, list | tuple) and number(second) is None:
        return _chunk(second, number(first))
    return None


def _columns(table: dict[str, Any]) -> Iterator[Chunk]:
    """Chroma's answer: a list for each column, within one list for each query where several could be asked."""
    ids = table["ids"]
    if not (ids and isinstance(ids[0], list)):
        table, ids = {name: [column] for name, column in table.items()}, [ids]
    for row, mine in enumerate(ids):
        columns = [_row(table.get(name), row) for name in ("distances", "scores", "documents")]
        for at, identity in enumerate(mine):
            distance, score, content = (column[at] if at < len(column) else None for column in columns)
            yield Chunk(str(identity), number(distance) if score is None else number(score), string(content))


def _row(column: Any, row: int) -> list[Any]:
    found = column[row] if isinstance(column, list) and row < len(column) else None
    return found if isinstance(found, list) else []


def _matrices(value: list[Any] | tuple[Any, ...]) -> list[tuple[float, int]] | None:
    """Faiss: distances and indexes, a row for each query; -1 is no neighbour. None for anything else."""
    if len(value) != 2:
        return None
    scores, indexes = (rows(side) for side in value)
    if not scores or len(scores) != len(indexes):
        return None
    return [
        (score, int(index))
        for pair in zip(scores, indexes, strict=True)
        for score, index in zip(*pair, strict=False)
        if index != -1
    ]


def rows(value: Any) -> list[list[float]]:
    """The rows of a matrix of numbers, also of a frozen array; [] for anything else."""
    held = value.get("values") if isinstance(value, dict) and "dtype" in value else value
    if not isinstance(held, list) or not all(isinstance(row, list) for row in held):
        return []
    return held if all(number(cell) is not None for row in held for cell in row) else []


def number(value: Any) -> float | None:
    """`value` where it is a number, or a frozen number of numpy."""
    if isinstance(value, dict) and "dtype" in value:
        value = value.get("values")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def named(value: Json) -> bool:
    """Whether a value can be an id."""
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""
