"""Models and retrievals that are no HTTP call: a Python function that is called, read by the names of its arguments.

What the names leave open is read loosely: messages of LangChain and of OpenAI's shape, a prompt under any of its usual
names, replies that are a text, an OpenAI completion (llama.cpp gives these) or an object with a text in it. Vector
stores, retrievers and memories give documents of LangChain, nodes of llama-index, answers of Chroma, Qdrant, Pinecone
and Elasticsearch, pairs of document and score, the two matrices of faiss, lists of texts or objects.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.model.reading import CallReading, Chunk, ReplyReading
from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.lenient import arr, counts, obj, objects, string, unique
from pytest_agentreplay.providers.messages import chat_message, langchain_kind
from pytest_agentreplay.values.deserializer import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject, Outcome, ToolCall

PROVIDER = "in_process"
# Names of arguments and fields, in the order in which they are looked for; collected from the libraries above.
MESSAGES = ("messages", "conversation", "chat_history", "history")
PROMPTS = ("prompt", "prompts", "input", "inputs", "text", "texts", "question", "query", "message")
SYSTEM = ("system", "system_prompt", "system_message", "instructions")
TOOLS = ("tools", "functions")
TEXTS = ("text", "generated_text", "content", "response", "output", "answer", "completion")


def read_call(call: ToolCall) -> CallReading:
    """Read a call of a model function: the first argument with a name of MESSAGES or PROMPTS is what it is asked."""
    arguments = obj(to_plain(dict(call.arguments)))
    prompt_name, system, tools = (_find_name(arguments, names) for names in ((*MESSAGES, *PROMPTS), SYSTEM, TOOLS))
    prompt = arguments.get(prompt_name)
    items = prompt if isinstance(prompt, list) else [prompt] if prompt_name else []
    others: JsonObject = {name: v for name, v in arguments.items() if name not in {prompt_name, system, tools}}
    return CallReading(
        kind="model",
        name=call.name,
        dialect=PROVIDER,
        provider=string(call.facts.get("provider")) or PROVIDER,
        operation="chat" if prompt_name in MESSAGES else "text_completion",
        model=call.name,
        parameters={**obj(call.facts.get("parameters")), **others},
        system=(arguments[system],) if arguments.get(system) is not None else (),
        messages=tuple(map(read_message, items)),
        tools=tuple(arr(arguments.get(tools))),
        system_at=f"$.{system}" if system else "",
        messages_at=f"$.{prompt_name}" if prompt_name else "",
        tools_at=f"$.{tools}" if tools else "",
        stream=arguments.get("stream") is True,
    )


def read_message(value: Json) -> Json:
    """Return a message of LangChain as one of a chat API; anything else, and what has a role already, as it is."""
    return value if "role" in obj(value) or not langchain_kind(value) else chat_message(value)


def read_reply(outcome: Outcome | None) -> ReplyReading:
    """Read what a model function returned; of a stream the whole that its items amount to."""
    if isinstance(outcome, Failure):
        return ReplyReading(error=_describe(outcome))
    if not isinstance(outcome, ToolReply):
        return ReplyReading()
    values = [to_plain(item) for item in outcome.items] if outcome.items is not None else [_unwrap(outcome.value)]
    error = _describe(outcome.failure) if outcome.failure else ""
    completion = _find_completion(values)
    if completion is not None:
        return replace(openai_chat.read_reply(completion), error=error)
    uses = tuple(openai_chat.read_tool_call(use) for value in values for use in objects(obj(value).get("tool_calls")))
    usage = next((obj(value)["usage_metadata"] for value in values if obj(obj(value).get("usage_metadata"))), {})
    return ReplyReading(
        text="".join(map(find_text, values)),
        tool_uses=uses,
        usage=counts((name, obj(usage).get(name)) for name in ("input_tokens", "output_tokens")),
        ids=unique(use.id for use in uses),
        error=error,
    )


def find_text(value: Any) -> str:
    """Return the text in a result: a string, a list of such, or an object's field of one of the usual names."""
    if isinstance(value, list | tuple):
        return "".join(map(find_text, value))
    fields = obj(value)
    inner = next((fields[name] for name in ("message", "choices", *TEXTS) if fields.get(name)), None)
    return string(value) if inner is None else find_text(inner)


def _describe(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}".rstrip(": ")


def _unwrap(value: Json) -> Any:
    """A plain result; what an awaited one of a plain function is wrapped in comes off."""
    result: Any = to_plain(value)
    return result["$awaited"] if isinstance(result, dict) and result.keys() == {"$awaited"} else result


class _Chunk(NamedTuple):
    """A chunk of a completion, as `openai_chat.join` takes events."""

    value: JsonObject


def _find_completion(values: list[Any]) -> JsonObject | None:
    """OpenAI's completion, where that is what came, whole or in chunks."""
    completions = [value for value in values if isinstance(value, dict) and objects(value.get("choices"))]
    if not completions or len(completions) != len(values):
        return None
    if any("delta" in choice for choice in objects(completions[0]["choices"])):
        return openai_chat.join(map(_Chunk, completions))  # type: ignore[arg-type]
    if len(completions) == 1 and any("message" in choice for choice in objects(completions[0]["choices"])):
        return completions[0]
    return None


def _find_name(arguments: JsonObject, names: tuple[str, ...]) -> str:
    return next((name for name in names if arguments.get(name) is not None), "")


QUERIES = ("query", "query_str", "query_text", "query_texts", "text", "question", "input", "q", "query_bundle")
IDS = ("id", "id_", "_id", "doc_id", "node_id", "chunk_id", "document_id", "key", "pk", "source")
SCORES = ("score", "similarity", "distance", "_score", "_distance", "relevance_score", "similarity_score")
CONTENTS = ("page_content", "text", "content", "document", "chunk", "body", "memory", "value")
HOLDERS = ("matches", "points", "hits", "results", "documents", "nodes", "source_nodes", "chunks", "objects", "data")
INSIDE = ("node", "document", "doc", "entity", "payload", "_source", "properties", "metadata")


def read_retrieval(call: ToolCall) -> CallReading:
    """Read a retrieval: the query as its one message, everything else as parameters."""
    query_text = find_query(call.arguments)
    return CallReading(
        kind="retrieval",
        name=call.name,
        dialect=PROVIDER,
        operation="retrieval",
        model=string(call.facts.get("embedding_model")),
        parameters=dict(call.arguments),
        messages=(query_text,) if query_text else (),
    )


def find_query(arguments: JsonObject) -> str:
    """Return the text that is looked for, "" if no argument shows it (a vector is no text)."""
    values = obj(to_plain(dict(arguments)))
    value = next((values[name] for name in QUERIES if values.get(name)), "")
    if isinstance(value, dict):
        value = value.get("query_str") or value.get("text") or ""
    if isinstance(value, list):
        value = ", ".join(part for part in value if isinstance(part, str))
    return string(value)


def read_chunks(outcome: Outcome | None) -> tuple[Chunk, ...]:
    """Return the chunks in the order in which they came."""
    if not isinstance(outcome, ToolReply):
        return ()
    return tuple(_list_chunks(_unwrap(outcome.value if outcome.items is None else list(outcome.items))))


def _list_chunks(value: Any) -> Iterator[Chunk]:
    match value:
        case list() | tuple() if (neighbours := _read_matrices(value)) is not None:
            yield from (Chunk(str(identity), score) for score, identity in neighbours)
        case tuple() if (pair := _read_pair(value)) is not None:
            yield pair
        case list() | tuple():
            for item in value:
                is_list = isinstance(item, list | tuple)
                chunk = _read_pair(item) if is_list else _read_chunk(item)
                yield from [chunk] if chunk is not None else _list_chunks(item) if is_list else []
        case dict() if isinstance(value.get("ids"), list):
            yield from _read_columns(value)
        case dict():
            inner = next((value[name] for name in HOLDERS if isinstance(value.get(name), list | dict)), None)
            if inner is not None:
                yield from _list_chunks(inner)
            elif (single := _read_chunk(value)) is not None and single != Chunk():
                yield single


# Where the parts of a chunk stand: at hand, one level in, and in the metadata there (LangChain's documents in a node).
def _read_chunk(value: Any, score: float | None = None) -> Chunk | None:
    """One chunk: an object with its parts at hand or one level in, or a bare text; None for what is neither."""
    if isinstance(value, str):
        return Chunk("", score, value)
    fields = obj(value)
    if not fields:
        return None
    inner = [obj(fields.get(name)) for name in INSIDE]
    places = [place for place in (fields, *inner, *(obj(place.get("metadata")) for place in inner)) if place]
    own = next((place[name] for place in places for name in SCORES if read_number(place.get(name)) is not None), score)
    content = next((place[name] for place in places for name in CONTENTS if isinstance(place.get(name), str)), "")
    identity = next((place[name] for place in places for name in IDS if is_id(place.get(name))), "")
    return Chunk(str(identity), read_number(own), string(content))


def _read_pair(pair: Any) -> Chunk | None:
    """Return the chunk of a pair of document and score, either first."""
    for document, score in (pair, pair[::-1]) if len(pair) == 2 else ():
        is_document = not isinstance(document, list | tuple) and read_number(document) is None
        if is_document and read_number(score) is not None:
            return _read_chunk(document, read_number(score))
    return None


def _read_columns(table: dict[str, Any]) -> Iterator[Chunk]:
    """Chroma's answer: a list for each column, within one list for each query where several could be asked."""
    # https://docs.trychroma.com/docs/querying-collections: `query` gives a list for each query, `get` one for all.
    names = ("ids", "scores" if table.get("scores") else "distances", "documents")
    columns = [arr(table.get(name)) for name in names]
    if columns[0] and isinstance(columns[0][0], list):
        columns = [list(chain.from_iterable(map(arr, column))) for column in columns]
    for identity, score, content in islice(zip_longest(*columns), len(columns[0])):
        yield Chunk(str(identity), read_number(score), string(content))


def _read_matrices(value: list[Any] | tuple[Any, ...]) -> list[tuple[float, int]] | None:
    """Faiss: distances and indexes, a row for each query; -1 is no neighbour. None for anything else."""
    matrices = [read_rows(part) for part in value] if len(value) == 2 else []
    if not matrices or not matrices[0] or len(matrices[0]) != len(matrices[1]):
        return None
    cells = (cell for pair in zip(*matrices, strict=True) for cell in zip(*pair, strict=False))
    # Where faiss has fewer neighbours than are asked for, it fills the row with -1.
    return [(score, int(index)) for score, index in cells if index != -1]


def read_rows(value: Any) -> list[list[float]]:
    """Return the rows of a matrix of numbers, also of a frozen array; [] for anything else."""
    values = value.get("values") if isinstance(value, dict) and "dtype" in value else value
    if not isinstance(values, list) or not all(isinstance(row, list) for row in values):
        return []
    return values if all(read_number(cell) is not None for row in values for cell in row) else []


def read_number(value: Any) -> float | None:
    """Return `value` if it is a number, or a frozen number of numpy; else None."""
    if isinstance(value, dict) and "dtype" in value:
        value = value.get("values")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_id(value: Json) -> bool:
    """Return whether a value can be an id."""
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""
