"""Items of OpenAI: what `to_input_list()` gives, a session keeps, `/input_items` lists; chat messages alone, too.

Also what only looks whole: a list of stored completions and a Responses object hold replies without what was asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, rest, string
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.logs import runs
from pytest_agentreplay.traces.logs.runs import LoggedMessage, LogRow, rows_of_calls, steps_of
from pytest_agentreplay.traces.trace import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

_LOSSES = ("neither instructions, tools nor parameters of the requests", "neither times nor what each call cost")
_REQUESTED = ("model", "temperature", "top_p", "seed", "tools", "tool_choice", "response_format", "max_tokens")
_ASKED = ("instructions", "tools", "temperature", "top_p", "max_output_tokens", "tool_choice", "text", "model")


def _only(opened: Opened) -> Json:
    return opened.rows[0] if len(opened.rows) == 1 else list(opened.rows)


def _listed(opened: Opened) -> list[JsonObject]:
    only = _only(opened)
    return objects(only if isinstance(only, list) else [only] if _is_item(only) else obj(only).get("data"))


def _is_item(value: Json) -> bool:
    found = obj(value)
    kind = string(found.get("type"))
    said = isinstance(found.get("role"), str) and ("content" in found or "tool_calls" in found)
    return said or kind.endswith(("_call", "_call_output")) or (kind == "reasoning" and "summary" in found)


def _sessions(opened: Opened) -> dict[str, list[Json]]:
    """The items by session: those of one list, or the rows of a session's table."""
    found: dict[str, list[Json]] = {}
    for row in _listed(opened):
        kept = genai.parsed(row.get("message_data", row.get("item")))
        if isinstance(kept, dict):
            found.setdefault(string(row.get("session_id")), []).append(kept)
        else:
            found.setdefault("", []).append(row)
    return {session: _forward(items) for session, items in found.items()}


def _forward(items: list[Json]) -> list[Json]:
    """The items oldest first: the API lists them the other way round unless it is asked not to."""
    seen: set[str] = set()
    for item in objects(items):
        call_id, kind = string(item.get("call_id")), string(item.get("type"))
        if kind.endswith("_call_output") and call_id not in seen:
            return items[::-1]
        seen.add(call_id)
    return items


def _fits_items(opened: Opened) -> bool:
    sessions = _sessions(opened)
    return bool(sessions) and all(
        sum(map(_is_item, items)) * 2 > len(items) and _is_item(items[0]) for items in sessions.values()
    )


def _read_items(opened: Opened, beside: Iterable[Opened] = ()) -> list[Trace]:
    found = [_session(held, name, items) for held in (opened, *beside) for name, items in _sessions(held).items()]
    return [trace for traces in found for trace in traces]


def _session(opened: Opened, name: str, items: list[Json]) -> list[Trace]:
    said = [one for item in items if (one := _said(obj(item))) is not None]
    if said and all(one.by_model for one in said):
        msg = "holds what one reply put out, and nothing that was asked; keep result.to_input_list() instead"
        raise TraceIncomplete(msg, file=opened.file)
    steps = steps_of(said, provider="openai")
    left = len(items) - len(said)
    losses = [*_LOSSES, *([f"{left} items are no messages and no calls of tools, and are left out"] if left else [])]
    if said and not said[-1].by_model:
        losses.append("ends before the model's last reply")
    source = Source(format="openai-items", file=opened.file, id=name)
    rows = [LogRow(step=step, run=name, session=name) for step in steps]
    return runs.traces(rows, source, *losses, together=True)


def _said(item: JsonObject) -> LoggedMessage | None:
    message = genai.message(item)
    if not _is_item(item) or not arr(message["parts"]):
        return None
    data = obj(item.get("provider_data"))
    facts: JsonObject = {"model": string(data.get("model")), "response_id": string(data.get("response_id"))}
    return LoggedMessage(
        message=message, reply=string(data.get("response_id")), facts={k: v for k, v in facts.items() if v}
    )


def _outputs(opened: Opened) -> list[JsonObject]:
    """The completions or responses in a file: a list of them, or one."""
    return _listed(opened) or objects([_only(opened)])


def _are(kind: str) -> Callable[[Opened], bool]:
    return lambda opened: {row.get("object") == kind for row in _outputs(opened)} == {True}


def _messages(row: JsonObject) -> list[JsonObject]:
    kept = row.get("messages")
    return objects(kept if isinstance(kept, list) else obj(kept).get("data"))


def _stored(row: JsonObject) -> LogRow | None:
    if not _messages(row):
        return None
    asked: JsonObject = {name: row[name] for name in _REQUESTED if row.get(name) is not None}
    body: JsonObject = {**asked, "messages": [rest(one, "id", "content_parts") for one in _messages(row)]}
    metadata = obj(row.get("metadata"))
    created = row.get("created")
    return LogRow(
        step=wire.json_call(
            "openai_chat",
            body,
            rest(row, "messages", "request_id", "metadata", "input_user", *_REQUESTED[1:]),
            started=created * 10**9 if isinstance(created, int) and 0 < created < 10**10 else None,
            id=string(row.get("id")),
        ),
        user=string(metadata.get("user_id")) or string(row.get("input_user")),
        session=string(metadata.get("session_id")) or string(metadata.get("conversation_id")),
        metadata=metadata,
    )


def _read_response(opened: Opened, beside: Iterable[Opened] = ()) -> list[Trace]:
    responses = _outputs(opened)
    given = [items for other in beside for items in _sessions(other).values() if _fits_items(other)]
    if len(responses) != 1 or len(given) != 1:
        msg = (
            "holds what a response put out, and not what was asked: call GET /v1/responses/{id}/input_items, and give"
            " what it gives as a file beside this one"
        )
        raise TraceIncomplete(msg, file=opened.file)
    told = responses[0]
    body: JsonObject = {name: told[name] for name in _ASKED if told.get(name) is not None}
    call = wire.json_call("openai_responses", {**body, "input": given[0]}, told, id=string(told.get("id")))
    before = steps_of([one for item in given[0] if (one := _said(obj(item))) is not None], provider="openai")
    source = Source(format="openai-response", file=opened.file, fidelity="body-json" if not before else "semantic")
    rows = [LogRow(step=step, run=string(told.get("id"))) for step in (*before, call)]
    losses = ("of the calls before the last only what was said",) if before else ()
    return runs.traces(rows, source, *losses)


_STORED = rows_of_calls(
    "openai-stored",
    "stored chat completions of OpenAI",
    25,
    bool,
    _stored,
    "no tool has a record of its own",
    refusal="holds replies without what was asked: call GET /v1/chat/completions/{id}/messages for each, and put"
    ' what it gives into the completion as "messages"',
    left_out="completions have no messages and are left out",
    rows=_outputs,
)
_BESIDE = "openai-items"
"""The word for files that belong together: a response, and the items that it was asked."""

FORMATS = (
    replace(_STORED, fits=_are("chat.completion")),
    Format("openai-response", "Responses object of OpenAI", 25, _are("response"), _read_response, together=_BESIDE),
    Format("openai-items", "items or messages of OpenAI", 25.5, _fits_items, _read_items, together=_BESIDE),
)
