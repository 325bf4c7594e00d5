"""Logs of Inspect: `.json`, and `.eval`, an archive of a header and a file a sample. One sample and epoch is one run.

A log says each thing once: a request points into a table of messages, and a long text stands among the attachments. The
events of a sample are its calls of models, with the provider's own bodies, and of tools.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.providers.lenient import arr, counts, obj, objects, parse_text, rest, string
from pytest_agentreplay.providers.messages import join_neighbours, normalize_message, normalize_tools
from pytest_agentreplay.traces import wire
from pytest_agentreplay.traces.assembling import ending, fidelity, whole
from pytest_agentreplay.traces.formats import Format, document_of
from pytest_agentreplay.traces.logs.pairs import dialect_of, fault, read_field
from pytest_agentreplay.traces.logs.runs import LoggedMessage, steps_of
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.spans.attributes import normalize_provider
from pytest_agentreplay.traces.trace import UNKNOWN, ModelCall, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Step

# Fields: `inspect_ai.log.EvalLog` and the events of its samples, of inspect-ai 0.3.285.
_DEEPEST = 40


def steps(sample: JsonObject) -> list[Step]:
    """The steps of a sample in order of their start."""
    tables = obj(sample.get("events_data"))
    events = [event for event in _flat(sample.get("events"), 0) if string(event.get("event")) in {"model", "tool"}]
    listed = [_model(event, tables) if event["event"] == "model" else _tool(event) for event in events]
    if any(step.started is None for step in listed):
        return listed
    return sorted(listed, key=lambda step: step.started or 0)


def _model_names(value: Json) -> dict[str, Any]:
    """Provider and model, by Inspect's one name for both."""
    provider, _, model = string(value).partition("/")
    return {
        "provider": "gcp.gemini" if provider == "google" else normalize_provider(provider),
        "model": model or provider,
    }


def _mark_failure(message: JsonObject) -> JsonObject:
    """Return a message in the neutral form, the result of a tool that failed as one."""
    neutral = normalize_message(_chat_message(message))
    if not message.get("error"):
        return neutral
    return {**neutral, "parts": [{**part, "is_error": True} for part in objects(neutral["parts"])]}


def _flat(events: Json, depth: int) -> Iterator[JsonObject]:
    """The events, those within others after them; older logs nest what a tool did."""
    for event in objects(events):
        yield event
        if depth < _DEEPEST and isinstance(event.get("events"), list):
            yield from _flat(event["events"], depth + 1)


def _model(event: JsonObject, tables: JsonObject) -> ModelCall:
    call = obj(event.get("call"))
    request, reply = obj(call.get("request")), call.get("response")
    if (refs := call.get("call_refs")) is not None:
        request = request | {string(call.get("call_key")) or "messages": _resolve_references(refs, tables.get("calls"))}
    dialect = dialect_of(request, reply)
    call_of_event = _read_own_fields(event, tables)
    if not dialect or not request:
        return call_of_event
    where = wire.address(dialect, model=call_of_event.model)
    read = wire.json_call(where, request, reply or None, **_read_place(event))
    if not read.dialect:
        return call_of_event
    return replace(read, provider=call_of_event.provider or read.provider, fault=call_of_event.fault or read.fault)


def _read_own_fields(event: JsonObject, tables: JsonObject) -> ModelCall:
    """Return the call by Inspect's own fields, without the provider's bodies."""
    messages = arr(event.get("input")) or _resolve_references(event.get("input_refs"), tables.get("messages"))
    output = obj(event.get("output"))
    choice = next(iter(objects(output.get("choices"))), {})
    error = event.get("error") or output.get("error")
    answer = normalize_message(_chat_message(choice.get("message"))) if choice else None
    usage = obj(output.get("usage"))
    return ModelCall(
        **_model_names(event.get("model")),
        parameters=obj(event.get("config")) | {"tool_choice": event.get("tool_choice")},
        messages=join_neighbours(normalize_message(_chat_message(message)) for message in messages),
        tools=normalize_tools(arr(event.get("tools"))),
        reply=answer | {"finish_reason": string(choice.get("stop_reason"))} if answer else None,
        response_model=string(output.get("model")),
        response_id=string(output.get("response_id")),
        finish_reasons=tuple(filter(None, [string(choice.get("stop_reason"))])),
        usage=counts((name, usage.get(name)) for name in ("input_tokens", "output_tokens")),
        fault=fault(error) if error else None,
        **_read_place(event),
    )


def _read_place(event: JsonObject) -> dict[str, Any]:
    """Return the fields of a step that every event has."""
    return {
        "started": moment(event.get("timestamp")),
        "ended": moment(event.get("completed")),
        "id": string(event.get("uuid")),
        "parent": string(event.get("span_id")),
    }


def _chat_message(message: Json) -> Json:
    """A message of Inspect in the form of a chat: a tool call is named in another place there."""
    fields = obj(message)
    uses: list[Json] = [
        {"id": use.get("id"), "function": {"name": use.get("function"), "arguments": use.get("arguments")}}
        for use in objects(fields.get("tool_calls"))
    ]
    error = string(obj(fields.get("error")).get("message"))
    content: Json = error if fields.get("role") == "tool" and error else fields.get("content")
    return {**fields, "content": content, **({"tool_calls": uses} if uses else {})}


def _tool(event: JsonObject) -> ToolRun:
    error = event.get("error")
    result = parse_text(event.get("result"))
    broke = fault(error) if error else None
    return ToolRun(
        name=string(event.get("function")),
        call_id=string(event.get("id")),
        arguments=event.get("arguments"),
        result=UNKNOWN if (broke and not result) or event.get("pending") else result,
        fault=broke or (TraceFault("failed") if event.get("failed") is True else None),
        **_read_place(event),
        agent=string(event.get("agent")),
    )


def _resolve_references(refs: Json, table: Json) -> list[Json]:
    """Return the parts of a table that pairs of a beginning and an end name."""
    entries = arr(table)
    resolved: list[Json] = []
    for ref in arr(refs):
        match ref:
            case [int(start), int(end)] if 0 <= start <= end <= len(entries) and len(resolved) < len(entries) * 2:
                resolved += entries[start:end]
    return resolved


_ATTACHED = "attachment://"
_EVENTLESS = "the sample has no events of its model calls: tools, parameters and times of the requests are not known"
_HEADERS = ("header.json", "_journal/start.json")


def _fits_json(opened: Opened) -> bool:
    log = document_of(opened)
    return isinstance(log.get("eval"), dict) and isinstance(log.get("plan"), dict) and "status" in log


def _fits_archive(opened: Opened) -> bool:
    return opened.members is not None and any(name in opened.members for name in _HEADERS)


def _read_log(opened: Opened) -> list[Trace]:
    log, samples = _parts(opened)
    runs = [_sample(opened, log, sample) for sample in samples]
    if not runs:
        message = string(obj(log.get("error")).get("message"))
        msg = f"the evaluation ended with an error before a sample did: {message!r:.200}" if message else ""
        raise TraceIncomplete(msg or "holds no samples: leave out --no-log-samples", file=opened.file)
    return runs


def _parts(opened: Opened) -> tuple[JsonObject, list[JsonObject]]:
    """The header, and the samples."""
    if opened.members is None:
        log = obj(next(iter(opened.rows), None))
        return log, objects(log.get("samples"))
    header = next((name for name in _HEADERS if name in opened.members), "")
    if not header:
        raise TraceError("has no header.json: it is no log of Inspect", file=opened.file)
    samples = sorted(name for name in opened.members if name.startswith("samples/") and name.endswith(".json"))
    return _member(opened, header), [_member(opened, name) for name in samples]


def _member(opened: Opened, name: str) -> JsonObject:
    assert opened.members is not None
    try:
        return obj(json.loads(opened.members[name]))
    except (ValueError, RecursionError):
        raise TraceError("is no JSON", file=opened.file, place=name) from None


def _sample(opened: Opened, log: JsonObject, sample: JsonObject) -> Trace:
    attached = obj(sample.get("attachments"))
    lost: list[str] = []
    sample = obj(_resolve_attachments(rest(sample, "attachments"), attached, lost))
    about, metadata = obj(log.get("eval")), obj(sample.get("metadata"))
    sample_steps = steps(sample)
    calls = [step for step in sample_steps if isinstance(step, ModelCall)]
    eventless = not calls
    if eventless:
        messages = [LoggedMessage(message=_mark_failure(message)) for message in objects(sample.get("messages"))]
        sample_steps = steps_of(messages, **_model_names(about.get("model"))) or sample_steps
    source = Source(
        format="inspect",
        version=str(log.get("version") or ""),
        file=opened.file,
        id=string(sample.get("uuid")),
        fidelity=fidelity(calls),
    )
    losses = ["neither headers nor the bytes of the wire"]
    losses += [_EVENTLESS] if eventless else []
    losses += [f"{len(lost)} attachments are not in the log"] if lost else []
    sample_input, broke = sample.get("input"), sample.get("error") or log.get("error")
    limit = obj(sample.get("limit"))
    return whole(
        Trace(
            source=source,
            id=string(sample.get("uuid")) or f"{sample.get('id')}-{sample.get('epoch')}",
            name=string(about.get("task")),
            status="error" if sample.get("error") or log.get("status") == "error" else ending(log.get("status")),
            started=moment(sample.get("started_at")),
            ended=moment(sample.get("completed_at")),
            user=read_field(metadata, "user_id", "user"),
            session=read_field(metadata, "session_id", "conversation_id", "thread_id"),
            tenant=read_field(metadata, "tenant", "tenant_id"),
            tags=tuple(map(str, arr(log.get("tags")))),
            metadata={
                "sample": sample.get("id"),
                "epoch": sample.get("epoch"),
                "target": sample.get("target"),
                **metadata,
            },
            input=[normalize_message(item) for item in sample_input]
            if isinstance(sample_input, list)
            else sample_input,
            output=string(obj(sample.get("output")).get("completion")) or None,
            fault=replace(fault(broke), traceback=string(obj(broke).get("traceback"))) if broke else None,
            limits=f"{limit.get('type')} limit {limit.get('limit')}" if limit else "",
            grades={name: obj(score).get("value") for name, score in obj(sample.get("scores")).items()},
            steps=tuple(sample_steps),
            losses=tuple(losses),
            missing=() if any(isinstance(step, ModelCall) for step in sample_steps) else ("messages of model calls",),
        )
    )


def _resolve_attachments(value: Json, attachments: JsonObject, lost: list[str]) -> Json:
    """Return `value` with the texts that it only names."""
    if isinstance(value, str):
        if not value.startswith(_ATTACHED):
            return value
        text = attachments.get(value.removeprefix(_ATTACHED))
        if text is None:
            lost.append(value)
        return value if text is None else text
    if isinstance(value, list):
        return [_resolve_attachments(item, attachments, lost) for item in value]
    if isinstance(value, dict):
        return {name: _resolve_attachments(item, attachments, lost) for name, item in value.items()}
    return value


FORMATS = (
    Format("inspect-eval", "log of Inspect (.eval)", 1, _fits_archive, _read_log),
    Format("inspect", "log of Inspect (.json)", 21, _fits_json, _read_log),
)
