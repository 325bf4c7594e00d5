"""Models and retrievals that are no HTTP call: a Python function that is asked, read by the names of its arguments.

What the names leave open is read loosely: messages of LangChain and of OpenAI's shape, a prompt under any of its usual
names, replies that are a text, an OpenAI completion (llama.cpp gives these) or an object with a text in it. Vector
stores, retrievers and memories give documents of LangChain, nodes of llama-index, answers of Chroma, Qdrant, Pinecone
and Elasticsearch, pairs of document and score, the two matrices of faiss, lists of texts or objects.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.model.reading import CallReading, Chunk, ReplyReading, ToolUse
from pytest_agentreplay.providers import openai_chat
from pytest_agentreplay.providers.lenient import arr, counts, obj, objects, string, unique
from pytest_agentreplay.values.deserializer import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject, Outcome, ToolCall

PROVIDER = "in_process"
MESSAGES = ("messages", "conversation", "chat_history", "history")
PROMPTS = ("prompt", "prompts", "input", "inputs", "text", "texts", "question", "query", "message")
SYSTEM = ("system", "system_prompt", "system_message", "instructions")
TOOLS = ("tools", "functions")
TEXTS = ("text", "generated_text", "content", "response", "output", "answer", "completion")
ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}


def read_call(call: ToolCall) -> CallReading:
    """A call of a model function: the first argument with a name of MESSAGES or PROMPTS is what it is told."""
    arguments = obj(to_plain(dict(call.arguments)))
    prompt_name, system, tools = (_find_argument(arguments, names) for names in ((*MESSAGES, *PROMPTS), SYSTEM, TOOLS))
    prompt = arguments.get(prompt_name)
    messages = tuple(map(message, prompt)) if isinstance(prompt, list) else (message(prompt),) if prompt_name else ()
    declared = obj(call.facts.get("parameters"))
    return CallReading(
        kind="model",
        name=call.name,
        dialect=PROVIDER,
        provider=string(call.facts.get("provider")) or PROVIDER,
        operation="chat" if prompt_name in MESSAGES else "text_completion",
        model=call.name,
        parameters={
            **declared,
            **{name: v for name, v in arguments.items() if name not in (prompt_name, system, tools)},
        },
        system=(arguments[system],) if arguments.get(system) is not None else (),
        messages=messages,
        tools=tuple(arr(arguments.get(tools))),
        system_at=f"$.{system}" if system else "",
        messages_at=f"$.{prompt_name}" if prompt_name else "",
        tools_at=f"$.{tools}" if tools else "",
        stream=arguments.get("stream") is True,
    )


def message(value: Any) -> Json:
    """A message with its role where the others have it; anything else as it is."""
    fields: JsonObject = obj(value)
    role = ROLES.get(string(fields.get("type")), "")
    if "role" in fields or not role or "content" not in fields:
        return value  # type: ignore[no-any-return]
    uses: list[Json] = [
        {"id": use.get("id"), "function": {"name": use.get("name"), "arguments": use.get("args")}}
        for use in objects(fields.get("tool_calls"))
    ]
    rest = {key: fields[key] for key in ("content", "tool_call_id") if fields.get(key) is not None}
    return {"role": role, **rest, **({"tool_calls": uses} if uses else {})}


def read_reply(outcome: Outcome | None) -> ReplyReading:
    """What a model function gave; of a stream the whole that its items amount to."""
    if isinstance(outcome, Failure):
        return ReplyReading(error=f"{outcome.type}: {outcome.message}".rstrip(": "))
    if not isinstance(outcome, ToolReply):
        return ReplyReading()
    values = [to_plain(item) for item in outcome.items] if outcome.items is not None else [_result(outcome.value)]
    error = f"{outcome.failure.type}: {outcome.failure.message}".rstrip(": ") if outcome.failure else ""
    completion = _completion(values)
    if completion is not None:
        reading = openai_chat.read_reply(completion)
    else:
        uses = _uses(values)
        reply_text, ids = "".join(map(text, values)), unique(use.id for use in uses)
        reading = ReplyReading(text=reply_text, tool_uses=uses, usage=_usage(values), ids=ids)
    return replace(reading, error=error)


def text(value: Any) -> str:
    """The text in a result: a string, a list of such, or an object's field of one of the usual names."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "".join(map(text, value))
    fields = obj(value)
    inner = next((fields[name] for name in ("message", "choices", *TEXTS) if fields.get(name)), "")
    return text(inner)


def _result(value: Json) -> Any:
    """A plain result; what an awaited one of a plain function is wrapped in comes off."""
    result: Any = to_plain(value)
    return result["$awaited"] if isinstance(result, dict) and result.keys() == {"$awaited"} else result


class _Piece(NamedTuple):
    """A chunk of a completion, as `openai_chat.join` takes events."""

    value: JsonObject


def _completion(values: list[Any]) -> JsonObject | None:
    """OpenAI's completion, where that is what came, whole or in chunks."""
    completions = [value for value in values if isinstance(value, dict) and objects(value.get("choices"))]
    if not completions or len(completions) != len(values):
        return None
    if any("delta" in choice for choice in objects(completions[0]["choices"])):
        return openai_chat.join(map(_Piece, completions))  # type: ignore[arg-type]
    if len(completions) == 1 and any("message" in choice for choice in objects(completions[0]["choices"])):
        return completions[0]
    return None


def _uses(values: list[Any]) -> tuple[ToolUse, ...]:
    """The tool calls that LangChain's and OpenAI's messages carry."""
    return tuple(
        ToolUse(string(use.get("id")), string(use.get("name")), use.get("args"))
        if "args" in use
        else openai_chat.tool_use(use)
        for value in values
        for use in objects(obj(value).get("tool_calls"))
    )


def _usage(values: list[Any]) -> dict[str, int]:
    usage = next((obj(value)["usage_metadata"] for value in values if obj(obj(value).get("usage_metadata"))), {})
    return counts((name, obj(usage).get(name)) for name in ("input_tokens", "output_tokens"))


def _find_argument(arguments: JsonObject, names: tuple[str, ...]) -> str:
    return next((name for name in names if arguments.get(name) is not None), "")


QUERIES = ("query", "query_str", "query_text", "query_texts", "text", "question", "input", "q", "query_bundle")
IDS = ("id", "id_", "_id", "doc_id", "node_id", "chunk_id", "document_id", "key", "pk")
SCORES = ("score", "similarity", "distance", "_score", "_distance", "relevance_score", "similarity_score")
CONTENTS = ("page_content", "text", "content", "document", "chunk", "body", "memory", "value")
HOLDERS = ("matches", "points", "hits", "results", "documents", "nodes", "source_nodes", "chunks", "objects", "data")
INSIDE = ("node", "document", "doc", "entity", "payload", "_source", "properties", "metadata")


def read_retrieval(call: ToolCall) -> CallReading:
    """A retrieval: the query as its one message, everything else as parameters."""
    query_text = query(call.arguments)
    return CallReading(
        kind="retrieval",
        name=call.name,
        dialect="in_process",
        operation="retrieval",
        model=string(call.facts.get("embedding_model")),
        parameters=dict(call.arguments),
        messages=(query_text,) if query_text else (),
    )


def query(arguments: JsonObject) -> str:
    """The text that is looked for, "" where no argument shows it (a vector is no text)."""
    values = obj(to_plain(dict(arguments)))
    value = next((values[name] for name in QUERIES if values.get(name)), "")
    if isinstance(value, dict):
        value = value.get("query_str") or value.get("text") or ""
    if isinstance(value, list):
        value = ", ".join(part for part in value if isinstance(part, str))
    return string(value)


def read_chunks(outcome: Outcome | None) -> tuple[Chunk, ...]:
    """The chunks in the order in which they came."""
    if not isinstance(outcome, ToolReply):
        return ()
    return tuple(_chunks(_result(outcome.value if outcome.items is None else list(outcome.items))))


def _chunks(value: Any) -> Iterator[Chunk]:
    match value:
        case list() | tuple() if (neighbours := _matrices(value)) is not None:
            yield from (Chunk(str(identity), score) for score, identity in neighbours)
        case tuple() if (pair := _read_pair(value)) is not None:
            yield pair
        case list() | tuple():
            for item in value:
                chunk = _read_pair(item) if isinstance(item, list | tuple) else _chunk(item)
                yield from [chunk] if chunk is not None else _chunks(item) if isinstance(item, list | tuple) else []
        case dict() if isinstance(value.get("ids"), list):
            yield from _columns(value)
        case dict():
            inner = next((value[name] for name in HOLDERS if isinstance(value.get(name), list | dict)), None)
            single = _chunk(value)
            if inner is not None:
                yield from _chunks(inner)
            elif single is not None and (single.id or single.score is not None or single.content):
                yield single


def _chunk(value: Any, score: float | None = None) -> Chunk | None:
    """One chunk: an object with its parts at hand or one level in, or a bare text; None for what is neither."""
    if isinstance(value, str):
        return Chunk("", score, value)
    fields = obj(value)
    if not fields:
        return None
    places = [fields, *(obj(fields.get(name)) for name in INSIDE if obj(fields.get(name)))]
    places += [obj(inner) for place in places[1:] for name in ("metadata",) if (inner := place.get(name))]
    own = next((place[name] for place in places for name in SCORES if number(place.get(name)) is not None), score)
    content = next((place[name] for place in places for name in CONTENTS if isinstance(place.get(name), str)), "")
    identity = next((place[name] for place in places for name in (*IDS, "source") if is_id(place.get(name))), "")
    return Chunk(str(identity), number(own), string(content))


def _read_pair(value: Any) -> Chunk | None:
    """Return the chunk of a pair of document and score, either first."""
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
        columns = [_column_of_row(table.get(name), row) for name in ("distances", "scores", "documents")]
        for at, identity in enumerate(mine):
            distance, score, content = (column[at] if at < len(column) else None for column in columns)
            yield Chunk(str(identity), number(distance) if score is None else number(score), string(content))


def _column_of_row(column: Any, row: int) -> list[Any]:
    cells = column[row] if isinstance(column, list) and row < len(column) else None
    return cells if isinstance(cells, list) else []


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
    values = value.get("values") if isinstance(value, dict) and "dtype" in value else value
    if not isinstance(values, list) or not all(isinstance(row, list) for row in values):
        return []
    return values if all(number(cell) is not None for row in values for cell in row) else []


def number(value: Any) -> float | None:
    """`value` where it is a number, or a frozen number of numpy."""
    if isinstance(value, dict) and "dtype" in value:
        value = value.get("values")
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def is_id(value: Json) -> bool:
    """Return whether a value can be an id."""
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""
