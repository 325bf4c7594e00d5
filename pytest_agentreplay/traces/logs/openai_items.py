"""Items of OpenAI: what `to_input_list()` gives, a session keeps, `/input_items` lists; chat messages alone; Codex.

Also what only looks whole: a list of stored completions and a Responses object hold replies without what was asked.

A session of the Codex CLI is two logs in one, what the model said and was told, and what the program showed of it. A
row is `{timestamp, type, payload}`. A "response_item" is an item of the Responses API and stands for what went over the
wire; "event_msg" tells of tokens, errors and ends of turns; "turn_context" names the model; from "compacted" on the
model saw a summary. Before there were such rows the items themselves were the lines, behind one that names the session.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers.lenient import arr, obj, objects, parse_text, rest, string
from pytest_agentreplay.providers.messages import normalize_message, read_item
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.assembling import whole
from pytest_agentreplay.traces.chains import tool_calls
from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.logs import runs
from pytest_agentreplay.traces.logs.runs import LoggedMessage, LogRow, holds_row, objects_of, rows_of_calls, steps_of
from pytest_agentreplay.traces.moments import extent, moment
from pytest_agentreplay.traces.platforms.span_facts import usage
from pytest_agentreplay.traces.trace import ModelCall, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Step

# Fields: https://platform.openai.com/docs/api-reference/responses/input-items
_LOSSES = ("neither instructions, tools nor parameters of the requests", "neither times nor what each call cost")
_REQUESTED = ("model", "temperature", "top_p", "seed", "tools", "tool_choice", "response_format", "max_tokens")
_ASKED = ("instructions", "tools", "temperature", "top_p", "max_output_tokens", "tool_choice", "text", "model")


def _only(opened: Opened) -> Json:
    return opened.rows[0] if len(opened.rows) == 1 else list(opened.rows)


def _list_rows(opened: Opened) -> list[JsonObject]:
    only = _only(opened)
    return objects(only if isinstance(only, list) else [only] if _is_item(only) else obj(only).get("data"))


def _is_item(value: Json) -> bool:
    item = obj(value)
    kind = string(item.get("type"))
    is_message = isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item)
    return is_message or kind.endswith(("_call", "_call_output")) or (kind == "reasoning" and "summary" in item)


def _sessions(opened: Opened) -> dict[str, list[Json]]:
    """The items by session: those of one list, or the rows of a session's table."""
    sessions: dict[str, list[Json]] = {}
    for row in _list_rows(opened):
        kept = parse_text(row.get("message_data", row.get("item")))
        if isinstance(kept, dict):
            sessions.setdefault(string(row.get("session_id")), []).append(kept)
        else:
            sessions.setdefault("", []).append(row)
    return {session: _forward(items) for session, items in sessions.items()}


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
    runs = [_session(file, name, items) for file in (opened, *beside) for name, items in _sessions(file).items()]
    return [trace for traces in runs for trace in traces]


def _session(opened: Opened, name: str, items: list[Json]) -> list[Trace]:
    messages = [message for item in items if (message := _read_message(obj(item))) is not None]
    if messages and all(message.by_model for message in messages):
        msg = "holds what one reply put out, and nothing that was asked; keep result.to_input_list() instead"
        raise TraceIncomplete(msg, file=opened.file)
    steps = steps_of(messages, provider="openai")
    left = len(items) - len(messages)
    losses = [*_LOSSES, *([f"{left} items are no messages and no calls of tools, and are left out"] if left else [])]
    if messages and not messages[-1].by_model:
        losses.append("ends before the model's last reply")
    source = Source(format="openai-items", file=opened.file, id=name)
    rows = [LogRow(step=step, run=name, session=name) for step in steps]
    return runs.traces(rows, source, *losses, together=True)


def _read_message(item: JsonObject) -> LoggedMessage | None:
    message = normalize_message(item)
    if not _is_item(item) or not arr(message["parts"]):
        return None
    data = obj(item.get("provider_data"))
    facts: JsonObject = {"model": string(data.get("model")), "response_id": string(data.get("response_id"))}
    return LoggedMessage(
        message=message, reply=string(data.get("response_id")), facts={k: v for k, v in facts.items() if v}
    )


def _outputs(opened: Opened) -> list[JsonObject]:
    """The completions or responses in a file: a list of them, or one."""
    return _list_rows(opened) or objects([_only(opened)])


def _are(kind: str) -> Callable[[Opened], bool]:
    return lambda opened: {row.get("object") == kind for row in _outputs(opened)} == {True}


def _messages(row: JsonObject) -> list[JsonObject]:
    kept = row.get("messages")
    return objects(kept if isinstance(kept, list) else obj(kept).get("data"))


def _read_completion(row: JsonObject) -> LogRow | None:
    if not _messages(row):
        return None
    parameters: JsonObject = {name: row[name] for name in _REQUESTED if row.get(name) is not None}
    body: JsonObject = {**parameters, "messages": [rest(message, "id", "content_parts") for message in _messages(row)]}
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
    inputs = [items for other in beside for items in _sessions(other).values() if _fits_items(other)]
    if len(responses) != 1 or len(inputs) != 1:
        msg = (
            "holds what a response put out, and not what was asked: call GET /v1/responses/{id}/input_items, and give"
            " what it gives as a file beside this one"
        )
        raise TraceIncomplete(msg, file=opened.file)
    response = responses[0]
    body: JsonObject = {name: response[name] for name in _ASKED if response.get(name) is not None}
    call = wire.json_call("openai_responses", {**body, "input": inputs[0]}, response, id=string(response.get("id")))
    before = steps_of(
        [message for item in inputs[0] if (message := _read_message(obj(item))) is not None], provider="openai"
    )
    source = Source(format="openai-response", file=opened.file, fidelity="body-json" if not before else "semantic")
    rows = [LogRow(step=step, run=string(response.get("id"))) for step in (*before, call)]
    losses = ("of the calls before the last only what was said",) if before else ()
    return runs.traces(rows, source, *losses)


# Rows: `RolloutItem` in codex-rs/protocol/src/protocol.rs of github.com/openai/codex.
_META, _ITEM, _EVENT, _TURN, _COMPACTED = "session_meta", "response_item", "event_msg", "turn_context", "compacted"
_KINDS = frozenset({_META, _ITEM, _EVENT, _TURN, _COMPACTED})
_ENDS = frozenset({"task_complete", "turn_complete", "error", "turn_aborted"})
_ITEMS = ("message", "reasoning", "function_call", "local_shell_call", "custom_tool_call", "function_call_output")
_CODE = re.compile(r"\A(?:Exit code: |Process exited with code )(-?\d+)$", re.MULTILINE)
_CODEX_LOSSES = (
    "neither tools nor parameters of the requests, and the ids of the responses",
    "what one reply put out is told by what stands between two results",
)


def _codex_rows(opened: Opened) -> list[JsonObject]:
    """The rows as they are written today."""
    rows = objects_of(opened)
    return rows if any(map(_is_row, rows)) else [_today(row) for row in rows if "record_type" not in row]


def _is_row(row: JsonObject) -> bool:
    return string(row.get("type")) in _KINDS and isinstance(row.get("payload"), dict)


def _is_old(opened: Opened) -> bool:
    """Whether it is a session of before: the line that names it, and items."""
    first, *others = objects_of(opened)[:50] or [{}]
    is_named = {"id", "timestamp"} <= first.keys() and {"instructions", "git"} & first.keys() and "type" not in first
    return bool(is_named) and any(string(row.get("type")) in _ITEMS for row in others)


def _today(row: JsonObject) -> JsonObject:
    return {"type": _ITEM if "type" in row else _META, "timestamp": row.get("timestamp"), "payload": row}


def _fits_codex(opened: Opened) -> bool:
    return holds_row(_is_row)(opened) or _is_old(opened)


def _read_codex(opened: Opened) -> list[Trace]:
    rows = _codex_rows(opened)
    kept = [row for row in rows if _is_row(row)]
    junk = opened.junk + len(rows) - len(kept)
    losses = (*_CODEX_LOSSES, *((f"{junk} rows are of no kind that is known and left out",) if junk else ()))
    sessions = [session for session in _split_sessions(kept) if any(row["type"] == _ITEM for row in session)]
    if not sessions:
        raise TraceIncomplete("holds no response_item: give the file under ~/.codex/sessions whole", file=opened.file)
    return [_codex_session(opened.file, session, losses) for session in sessions]


def _split_sessions(rows: list[JsonObject]) -> list[list[JsonObject]]:
    """The rows by session. One that went on from another tells that one again, behind its own name."""
    sessions: list[list[JsonObject]] = [[]]
    session_ids: set[str] = set()
    for row in rows:
        payload = obj(row["payload"])
        name = string(payload.get("id"))
        if row["type"] == _META and name not in session_ids:
            if session_ids:
                sessions.append([])
            session_ids |= {name, string(payload.get("forked_from_id"))}
        sessions[-1].append(row)
    return sessions


def _codex_session(file: str, rows: list[JsonObject], losses: tuple[str, ...]) -> Trace:
    about = _about(rows)
    events = [(row, obj(row["payload"])) for row in rows if row["type"] == _EVENT]
    ended = next((event for _, event in reversed(events) if string(event.get("type")) in _ENDS), {})
    broke = string(ended.get("type")) if ended.get("type") in {"error", "turn_aborted"} else ""
    user_messages = [
        event["message"] for _, event in events if event.get("type") == "user_message" and event.get("message")
    ]
    undone = sum(event.get("type") == "thread_rolled_back" for _, event in events)
    text = string(obj(about.get("base_instructions")).get("text")) or string(about.get("instructions"))
    system = [LoggedMessage(message=normalize_message({"role": "system", "content": text}))] if text else []
    session_id = string(about.get("id"))
    return whole(
        Trace(
            source=Source(format="codex", version=string(about.get("cli_version")), file=file, id=session_id),
            id=session_id,
            status="error" if broke else "ok" if ended else "",
            session=session_id,
            metadata=_metadata(about),
            input=user_messages[0] if user_messages else None,
            fault=TraceFault(broke, string(ended.get("message")) or string(ended.get("reason"))) if broke else None,
            steps=tuple(_steps(rows, system)),
            losses=(*losses, *(("turns that were rolled back stand among what was said",) if undone else ())),
            **extent(rows),
        )
    )


def _about(rows: list[JsonObject]) -> JsonObject:
    """What is said of the session, first of all by itself, then by the one that it went on from."""
    fields: JsonObject = {}
    for row in reversed([row for row in rows if row["type"] == _META]):
        fields |= {name: value for name, value in obj(row["payload"]).items() if value is not None}
    return fields


def _metadata(about: JsonObject) -> JsonObject:
    fields: JsonObject = {"cwd": about.get("cwd"), "gitBranch": obj(about.get("git")).get("branch")}
    fields |= {name: about.get(name) for name in ("originator", "forked_from_id", "agent_role")}
    return {name: value for name, value in fields.items() if isinstance(value, str) and value}


def _steps(rows: list[JsonObject], instructions: list[LoggedMessage]) -> list[Step]:
    """The calls of the model in order, each with the tools that it asked for."""
    conversations: list[list[LoggedMessage]] = [[*instructions]]
    facts: JsonObject = {}
    for row in rows:
        payload, at = obj(row["payload"]), moment(row.get("timestamp"))
        if row["type"] == _TURN:
            effort = string(payload.get("effort"))
            facts |= {
                "model": string(payload.get("model")),
                "parameters": {"reasoning": {"effort": effort}} if effort else {},
            }
        elif row["type"] == _COMPACTED:
            conversations.append([*instructions, *_summary(payload)])
        elif row["type"] == _ITEM:
            message = normalize_message(payload)
            if message["role"] != "assistant":
                facts["started"] = at
            conversations[-1].append(LoggedMessage(message=message, facts={**facts, "ended": at}))
        elif payload.get("type") == "token_count":
            counted = usage(obj(payload.get("info")).get("last_token_usage"))
            last = next((message for message in reversed(conversations[-1]) if message.by_model), None)
            if last is not None and counted:
                last.facts["usage"] = {**counted}
    runs = _runs(rows)
    calls = [
        step
        for conversation in conversations
        for step in steps_of(conversation, provider="openai", dialect="openai_responses")
        if isinstance(step, ModelCall)
    ]
    steps: list[Step] = []
    for call in calls:
        asked_ids = [string(part.get("id")) for part in tool_calls(call)]
        steps += [call, *(runs.pop(call_id) for call_id in asked_ids if call_id in runs)]
    return steps


def _summary(payload: JsonObject) -> list[LoggedMessage]:
    """What the model saw from here on."""
    kept = payload.get("replacement_history")
    items = kept if isinstance(kept, list) else [{"role": "user", "content": payload.get("message")}]
    return [LoggedMessage(message=normalize_message(item)) for item in items]


def _runs(rows: list[JsonObject]) -> dict[str, ToolRun]:
    """The tools that ran, by the ids of their calls."""
    runs: dict[str, ToolRun] = {}
    for row in rows:
        payload, at = obj(row["payload"]), moment(row.get("timestamp"))
        call_id = string(payload.get("call_id"))
        if row["type"] != _ITEM:
            continue
        if (use := read_item(payload)) is not None:
            runs[call_id] = ToolRun(
                name=use.name, call_id=call_id, arguments=parse_text(use.arguments), executed=False, started=at
            )
        elif call_id in runs and string(payload.get("type")).endswith("_call_output"):
            seen = objects(normalize_message(payload)["parts"])[0]["response"]
            runs[call_id] = replace(runs[call_id], seen=seen, fault=_failure(seen), executed=True, ended=at)
    return runs


def _failure(seen: Json) -> TraceFault | None:
    """The code with which a command ended, unless it is 0."""
    text = seen if isinstance(seen, str) else string(obj(seen).get("output"))
    match = _CODE.match(text)
    code = int(match[1]) if match else obj(obj(seen).get("metadata")).get("exit_code")
    return TraceFault(f"exit code {code}", text) if code not in (0, None) else None


_STORED = rows_of_calls(
    "openai-stored",
    "stored chat completions of OpenAI",
    25,
    bool,
    _read_completion,
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
    Format("codex", "session of the Codex CLI", 23.3, _fits_codex, _read_codex),
)
