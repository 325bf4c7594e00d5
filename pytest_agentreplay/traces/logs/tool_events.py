"""Logs that tell which tools ran: events of Copilot, results of waza, traces of ReplayKit.

Copilot's stream tells what the user and the assistant said, too. waza grades what Copilot's agent did, and keeps the
calls of tools and no request to a model. A trace of ReplayKit is one object with a run's id, its status, and what
happened in order, of tools and not of calls of models: a replay returns what the tools gave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import obj, objects, parse_text, rest, string
from pytest_agentreplay.providers.messages import add_message, normalize_message
from pytest_agentreplay.traces.assembling import ending, whole
from pytest_agentreplay.traces.formats import Format, document_of
from pytest_agentreplay.traces.logs.pairs import read_field
from pytest_agentreplay.traces.logs.runs import holds_row, objects_of
from pytest_agentreplay.traces.moments import extent, in_time, moment
from pytest_agentreplay.traces.platforms.span_facts import fault, texts
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Step

# Fields: the results and the transcripts that github.com/microsoft/waza keeps in its repository (commit 091a1f9).
_BEGAN = frozenset({"toolexecutionstart", "tool.execution_start"})
_ENDED = frozenset({"toolexecutioncomplete", "tool.execution_complete"})


def tool_runs(events: Iterable[JsonObject]) -> list[ToolRun]:
    """The executions in order of their beginning. Fields are named in two ways, and may stand under "data"."""
    began: dict[str, JsonObject] = {}
    ended: dict[str, JsonObject] = {}
    for number, event in enumerate(events):
        kind = string(event.get("type")).lower()
        if kind in _BEGAN | _ENDED:
            fields = _fields(event)
            call_id = string(fields.get("tool_call_id")) or string(fields.get("toolCallId")) or f"#{number}"
            (began if kind in _BEGAN else ended).setdefault(call_id, event)
    return [_tool_run(call_id, event, ended.get(call_id, {})) for call_id, event in began.items()]


def _tool_run(call_id: str, began: JsonObject, ended: JsonObject) -> ToolRun:
    request, reply = _fields(began), _fields(ended)
    result = reply.get("tool_result", reply.get("result"))
    seen = parse_text(obj(result).get("content", result)) if result is not None else UNKNOWN
    failed = reply.get("success") is False or bool(reply.get("error"))
    error = reply.get("error")
    message = string(error) or string(obj(error).get("message")) or (seen if isinstance(seen, str) else "")
    return ToolRun(
        name=string(request.get("tool_name")) or string(request.get("toolName")),
        call_id="" if call_id.startswith("#") else call_id,
        arguments=request.get("arguments"),
        seen=seen,
        fault=TraceFault(message="" if message == UNKNOWN else message) if failed else None,
        executed=bool(ended),
        started=moment(began.get("timestamp")),
        ended=moment(ended.get("timestamp")),
        id=string(began.get("id")),
    )


def _fields(event: JsonObject) -> JsonObject:
    data: Json = event.get("data")
    return data if isinstance(data, dict) else event


_SIGNS = frozenset({"user.message", "assistant.message", "tool.execution_start"})
_LOSSES = ("neither instructions, tools nor parameters of the requests", "no usage of single calls")


def _is_copilot(row: JsonObject) -> bool:
    return string(row.get("type")) in _SIGNS and isinstance(row.get("data"), dict)


def _read_copilot(opened: Opened) -> list[Trace]:
    events = in_time(objects_of(opened))
    if not events:
        return []
    begun = next((obj(event["data"]) for event in events if event.get("type") == "session.start"), {})
    errors = [obj(event.get("data")) for event in events if event.get("type") == "session.error"]
    broke = TraceFault(string(errors[-1].get("errorType")), string(errors[-1].get("message"))) if errors else None
    user_texts = (obj(event.get("data")).get("content") for event in events if event.get("type") == "user.message")
    session = string(begun.get("sessionId"))
    run_id = session or string(events[0].get("id"))
    return [
        whole(
            Trace(
                source=Source(format="copilot-events", file=opened.file, id=run_id),
                id=run_id,
                status="error" if errors else "",
                session=session,
                # What the user wrote first, without what the program puts around it.
                input=next(user_texts, None),
                fault=broke,
                steps=tuple(_steps(events, string(begun.get("selectedModel")))),
                losses=(*_LOSSES, *((f"{opened.junk} lines are no events",) if opened.junk else ())),
                **extent(events),
            )
        )
    ]


def _steps(events: list[JsonObject], model: str) -> list[Step]:
    """What was said and done in order; a call of the model is what the assistant said after all before it."""
    runs = {run.id: run for run in tool_runs(events)}
    by_call_id = {run.call_id: run for run in runs.values()}
    before: list[JsonObject] = []
    steps: list[Step] = []
    for event in events:
        data, kind = obj(event.get("data")), event.get("type")
        if kind == "user.message":
            text = string(data.get("transformedContent") or data.get("content"))
            add_message(before, {"role": "user", "parts": [{"type": "text", "content": text}]})
        elif kind == "session.model_change":
            model = string(data.get("newModel")) or model
        elif kind == "assistant.message" and (reply := _reply(data))["parts"]:
            at, message_id = moment(event.get("timestamp")), string(data.get("messageId"))
            steps.append(ModelCall(model=model, messages=tuple(before), reply=reply, started=at, id=message_id))
            add_message(before, reply)
        elif kind == "tool.execution_start" and (run := runs.get(string(event.get("id")))):
            steps.append(run)
        elif kind == "tool.execution_complete" and (run := by_call_id.get(string(data.get("toolCallId")))):
            add_message(before, _response(run))
    return steps


def _reply(data: JsonObject) -> JsonObject:
    texts = (("thinking", string(data.get("reasoningText"))), ("text", string(data.get("content"))))
    calls: list[Json] = [
        {"id": call.get("toolCallId"), "function": {"name": call.get("name"), "arguments": call.get("arguments")}}
        for call in objects(data.get("toolRequests"))
    ]
    blocks: list[Json] = [{kind: text} for kind, text in texts if text]
    return normalize_message({"role": "assistant", "content": blocks, "tool_calls": calls})


def _response(run: ToolRun) -> JsonObject:
    answer: Json = "" if run.seen == UNKNOWN else run.seen
    part: JsonObject = {"type": "tool_call_response", "id": run.call_id, "response": answer}
    return {"role": "tool", "parts": [part | ({"is_error": True} if run.fault else {})]}


def _fits_waza(opened: Opened) -> bool:
    results = document_of(opened)
    return "eval_id" in results and isinstance(results.get("tasks"), list) and isinstance(results.get("summary"), dict)


def _read_waza(opened: Opened) -> list[Trace]:
    results = document_of(opened)
    return [
        _graded_run(opened, results, task, run, number)
        for task in objects(results.get("tasks"))
        for number, run in enumerate(objects(task.get("runs")), 1)
    ]


def _graded_run(opened: Opened, results: JsonObject, task: JsonObject, run: JsonObject, number: int) -> Trace:
    name, digest = read_field(task, "test_id", "display_name"), obj(run.get("session_digest"))
    here = f"{read_field(results, 'eval_id')}/{name}/{run.get('run_number', number)}"
    error = string(run.get("error_msg"))
    steps = tool_runs(objects(run.get("transcript"))) or [
        _listed_tool(event) for event in objects(run.get("tool_events"))
    ]
    counted = digest.get("tool_call_count")
    untold = counted - len(steps) if isinstance(counted, int) else 0
    missing = ["requests to the model, and its replies"]
    missing += [f"{untold} calls of tools that the transcript does not tell"] if untold > 0 else []
    broke = TraceFault(message=error) if error else None
    return whole(
        Trace(
            source=Source(format="waza", file=opened.file, id=here),
            id=here,
            name=name,
            status="error" if error or run.get("status") == "error" else "ok" if run.get("status") == "passed" else "",
            started=moment(results.get("timestamp")),
            session=string(digest.get("session_id")),
            tags=tuple(filter(None, (string(task.get("group")),))),
            metadata={
                "skill": results.get("skill"),
                "model": obj(results.get("config")).get("model_id"),
                "task": task.get("display_name"),
                "duration_ms": run.get("duration_ms"),
            },
            output=run.get("final_output") or None,
            fault=broke,
            # The run's own verdict, and the score of each check.
            grades={"status": run.get("status")}
            | {name: obj(check).get("score") for name, check in obj(run.get("validations")).items()},
            steps=tuple(steps),
            losses=("calls of tools only: waza keeps no request to a model", "no times of single calls"),
            missing=tuple(missing),
        )
    )


def _listed_tool(event: JsonObject) -> ToolRun:
    """An execution as newer results list it."""
    failed = event.get("success") is False
    return ToolRun(
        name=string(event.get("tool_name")),
        call_id=string(event.get("tool_call_id")),
        arguments=event.get("args"),
        seen=parse_text(event["result"]) if "result" in event else UNKNOWN,
        fault=TraceFault(message=string(event.get("error")) or string(event.get("result"))) if failed else None,
    )


_INPUTS = frozenset({"input_message", "user_message", "input"})
_OUTPUTS = frozenset({"output_message", "final_output", "assistant_message", "output"})
_KNOWN = _INPUTS | _OUTPUTS | {"tool_call", "tool_result", "error"}
_ABOUT = ("run_id", "id", "status", "events", "name", "user_id", "session_id", "tenant_id", "tags", "error")


def _is_replaykit(row: JsonObject) -> bool:
    events = objects(row.get("events"))
    if row.get("events") == []:
        return {"run_id", "status"} <= row.keys()
    return ("run_id" in row or "status" in row) and any(string(event.get("type")) in _KNOWN for event in events)


def _read_replaykit(opened: Opened) -> list[Trace]:
    return [_replaykit_run(opened, row) for row in objects_of(opened) if _is_replaykit(row) and row["events"]]


def _replaykit_run(opened: Opened, row: JsonObject) -> Trace:
    events = objects(row.get("events"))
    errors = [event.get("error", rest(event, "type")) for event in events if event.get("type") == "error"]
    errors += [row["error"]] if row.get("error") else []
    broke = (fault(errors[-1]) or TraceFault()) if errors else None
    outputs = [_event_content(event) for event in events if string(event.get("type")) in _OUTPUTS]
    return whole(
        Trace(
            source=Source(format="replaykit", file=opened.file, id=read_field(row, "run_id", "id")),
            id=read_field(row, "run_id", "id"),
            name=string(row.get("name")),
            status=ending(row.get("status")),
            user=read_field(row, "user_id"),
            session=read_field(row, "session_id"),
            tenant=read_field(row, "tenant_id"),
            tags=texts(row.get("tags")),
            metadata=rest(row, *_ABOUT),
            input=_join_input([_event_content(event) for event in events if string(event.get("type")) in _INPUTS]),
            output=outputs[-1] if outputs else None,
            fault=broke,
            steps=tuple(_list_tool_runs(events)),
            losses=("no call of a model is in the file: only what the tools returned can be replayed",),
            **extent(events),
        )
    )


def _list_tool_runs(events: Iterable[JsonObject]) -> list[ToolRun]:
    """The calls of tools, each with its result: by id, else by name, else in order."""
    runs: list[ToolRun] = []
    for event in events:
        if event.get("type") == "tool_call":
            runs.append(_start_tool_run(event))
        elif event.get("type") == "tool_result":
            at = _find_open_run(event, runs)
            if at is not None:
                runs[at] = _finish_tool_run(runs[at], event)
    return runs


def _start_tool_run(event: JsonObject) -> ToolRun:
    return ToolRun(
        name=read_field(event, "tool_name", "name", "tool"),
        call_id=read_field(event, "call_id", "tool_call_id", "id"),
        arguments=parse_text(event.get("tool_args", event.get("arguments", event.get("args", {})))),
        started=moment(event.get("timestamp")),
    )


def _find_open_run(event: JsonObject, runs: list[ToolRun]) -> int | None:
    call_id, name = read_field(event, "call_id", "tool_call_id", "id"), read_field(event, "tool_name", "name", "tool")
    free = [at for at, run in enumerate(runs) if run.result == UNKNOWN and run.fault is None]
    fitting = [at for at in free if call_id and runs[at].call_id == call_id]
    fitting = fitting or [at for at in free if name and runs[at].name == name]
    fitting = fitting or (free if not name else [])
    return fitting[0] if fitting else None


def _finish_tool_run(run: ToolRun, event: JsonObject) -> ToolRun:
    error = event.get("error")
    result = next((event[name] for name in ("output", "result", "content") if name in event), UNKNOWN)
    failed = bool(error) or event.get("is_error") is True
    return replace(
        run,
        result=parse_text(result),
        fault=(fault(error) or TraceFault(message=string(result))) if failed else None,
        ended=moment(event.get("timestamp")),
    )


def _event_content(event: JsonObject) -> Json:
    return next((event[name] for name in ("content", "text", "message", "output") if name in event), None)


def _join_input(messages: list[Json]) -> Json:
    """What the agent was asked: the text where it is one, else the user's messages."""
    if len(messages) == 1:
        return messages[0]
    return [normalize_message({"role": "user", "content": text}) for text in messages] or None


FORMATS = (
    Format("waza", "results of waza", 22, _fits_waza, _read_waza),
    Format("copilot-events", "events of a Copilot session", 23.1, holds_row(_is_copilot), _read_copilot),
    Format("replaykit", "trace of ReplayKit", 23.2, holds_row(_is_replaykit), _read_replaykit),
)
