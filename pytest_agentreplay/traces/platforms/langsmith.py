"""LangSmith: runs as they are listed, exported and ingested, traced by LangChain or by hand.

A file has a row each, nested in each other, in a list, or as the requests that made them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import arr, merge_later, obj, objects, rest, string
from pytest_agentreplay.providers.messages import langchain_fields, langchain_kind
from pytest_agentreplay.traces.formats import Format, group_by
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, PlatformSpan, make_run, root_of
from pytest_agentreplay.traces.trace import UNKNOWN, Source, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import ModelCall, Trace

# Fields: `langsmith.schemas.Run` of the SDK 0.14.17; the UI and the bulk export have the same.
_MARKS = ("dotted_order", "parent_run_id", "child_runs", "child_run_ids", "session_name", "session_id", "trace_id")
_LISTS = ("runs", "post", "patch", "data", "items")


def _runs_by_trace(rows: Iterable[Json]) -> dict[str, list[JsonObject]]:
    """The runs by the id of their trace; those of one id, from several requests, are one run."""
    merged: dict[str, JsonObject] = {}
    for number, run in enumerate(_flat(rows)):
        run_id = string(run.get("id")) or f"row {number + 1}"
        merged[run_id] = _merge_runs(merged[run_id], run) if run_id in merged else {**run, "id": run_id}
    runs = (run for run in merged.values() if string(run.get("run_type")))
    return group_by(runs, lambda run: _trace_id(run, merged))


def _trace_id(row: JsonObject, by_id: dict[str, JsonObject]) -> str:
    """The id of a run's trace: its own word, else the first of its dotted order, else the run it hangs from."""
    seen: set[str] = set()
    while True:
        trace_id = string(row.get("trace_id")) or string(row.get("dotted_order")).partition(".")[0][-36:]
        above = by_id.get(string(row.get("parent_run_id")))
        if trace_id or above is None or string(above.get("id")) in seen:
            return trace_id or string(row.get("id"))
        seen.add(string(above.get("id")))
        row = above


def _flat(rows: Iterable[Json]) -> list[JsonObject]:
    """Every run in the rows, children after parents; what was posted comes before what patched it."""
    posted: list[JsonObject] = []
    patched: list[JsonObject] = []
    waiting: list[tuple[Json, bool]] = [(row, False) for row in reversed([*rows])]
    while waiting:
        row, patch = waiting.pop()
        if isinstance(row, list):
            waiting += [(child, patch) for child in reversed(row)]
            continue
        fields = obj(row)
        if isinstance(fields.get("body"), dict | list) and "run_type" not in fields:
            waiting.append((fields["body"], string(fields.get("method")) == "PATCH"))
        elif "run_type" in fields or (patch and "id" in fields):
            children = objects(fields.get("child_runs"))
            (patched if patch else posted).append(rest(fields, "child_runs"))
            waiting += [(_child(child, fields), patch) for child in reversed(children)]
        else:
            names = [name for name in reversed(_LISTS) if isinstance(fields.get(name), list)]
            waiting += [(fields[name], patch or name == "patch") for name in names]
    return [*posted, *patched]


def _child(row: JsonObject, parent: JsonObject) -> JsonObject:
    defaults = {"parent_run_id": parent.get("id"), "trace_id": parent.get("trace_id") or parent.get("id")}
    return row | {name: value for name, value in defaults.items() if not row.get(name)}


def _merge_runs(before: JsonObject, later: JsonObject) -> JsonObject:
    """Return a run with what a later request says of it; what the later one leaves empty stays."""
    inner = {name: value for name, value in later.items() if name in {"extra", "metadata"} and isinstance(value, dict)}
    later = later | {name: _merge_runs(obj(before.get(name)), value) for name, value in inner.items()}
    return merge_later(before, later, empty=(None, {}, [], ""))


_HEADERS = "LangSmith keeps no headers, and of a stream only what it amounted to"
_USAGE = "LangSmith tells the usage in words of its own (`usage_metadata`); the reply's `usage` is made of them"
_PARSED = "LangChain keeps messages and parameters under names of its own: the request's JSON is not known"
_PARAMETERS = frozenset({"_type", "model", "model_name", "tools", "functions", "messages", "input"})
_ORDER = re.compile(r"^[0-9TZ.a-f-]+$")

_HIDDEN = "unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS (or `hide_inputs`, `hide_outputs` of the Client)"
_ELSEWHERE = (
    "inputs and outputs are kept elsewhere (`inputs_s3_urls`, `outputs_s3_urls`) and the links expire: "
    "export the runs with their inputs and outputs, as `Client.read_run` and `Client.list_runs` give them"
)


def _is_langsmith(opened: Opened) -> bool:
    runs = (run for run in _flat(opened.rows[:SNIFFED]) if string(run.get("run_type")))
    return any(name in run for run in runs for name in _MARKS)


def _read_runs(opened: Opened) -> Iterator[Trace]:
    for trace_id, runs in _runs_by_trace(opened.rows).items():
        runs.sort(key=_order)
        yield _read_run(trace_id, runs, opened.file)


def _order(run: JsonObject) -> tuple[str, int]:
    order = string(run.get("dotted_order"))
    return (order if _ORDER.match(order) else "", moment(run.get("start_time")) or 0)


def _read_run(trace_id: str, runs: list[JsonObject], file: str) -> Trace:
    root = root_of(runs, "id", "parent_run_id")
    is_elsewhere = any(obj(run.get(name)) for run in runs for name in ("inputs_s3_urls", "outputs_s3_urls", "s3_urls"))
    version = string(obj(obj(root.get("extra")).get("runtime")).get("sdk_version"))
    is_done = root.get("status") == "success" or root.get("end_time")
    return make_run(
        [_read_span(run) for run in runs],
        PlatformSpan(id=string(root.get("id"))),
        Source(format="langsmith-runs", version=version, file=file, id=trace_id),
        hint=_ELSEWHERE if is_elsewhere else _HIDDEN,
        name=string(root.get("name")),
        status="error" if root.get("status") == "error" or root.get("error") else "ok" if is_done else "",
        started=moment(root.get("start_time")),
        ended=moment(root.get("end_time")),
        tags=span_facts.texts(root.get("tags")),
        input=bodies.read_input(root.get("inputs")) or None,
        output=bodies.read_output(root.get("outputs")) or None,
        fault=span_facts.fault(root.get("error")),
        grades=obj(root.get("feedback_stats")),
        losses=_losses(runs),
        **span_facts.about(_metadata(root), *map(_metadata, runs)),
    )


def _losses(runs: list[JsonObject]) -> tuple[str, ...]:
    models = [run for run in runs if run.get("run_type") == "llm"]
    serialised = any(_of_langchain(run) for run in models)
    restored = any("usage_metadata" in obj(run.get("outputs")) for run in models)
    return (_HEADERS, *([_PARSED] if serialised else []), *([_USAGE] if restored else []))


def _metadata(run: JsonObject) -> JsonObject:
    return obj(obj(run.get("extra")).get("metadata"))


def _read_span(run: JsonObject) -> PlatformSpan:
    kind, failure = run.get("run_type"), span_facts.fault(run.get("error"))
    call = None
    if kind == "llm":
        call = _chained_call(run) if _of_langchain(run) else _wrapped_call(run)
    outputs = obj(run.get("outputs"))
    output = outputs.get("output") if set(outputs) == {"output"} else outputs
    is_unknown = not outputs or (output is None and failure)
    message = langchain_fields(output) if langchain_kind(output) else {}
    if failure is None and message.get("status") == "error":
        failure = span_facts.fault(message.get("content")) or TraceFault()
    return PlatformSpan(
        id=string(run.get("id")),
        parent=string(run.get("parent_run_id")),
        kind="tool" if kind == "tool" else "" if kind == "chain" else "other",
        name=string(message.get("name")) or string(run.get("name")),
        agent=string(_metadata(run).get("lc_agent_name")) if kind == "chain" else "",
        started=moment(run.get("start_time")),
        ended=moment(run.get("end_time")),
        fault=failure,
        call=call,
        call_id=string(message.get("tool_call_id")) or string(_metadata(run).get("tool_call_id")),
        arguments=_arguments(obj(run.get("inputs"))),
        result=UNKNOWN if is_unknown else bodies.read_result(output),
    )


def _of_langchain(run: JsonObject) -> bool:
    """Whether LangChain wrote a run, and not a wrapper around a client."""
    inputs, answer = obj(run.get("inputs")), obj(run.get("outputs"))
    batched = any(isinstance(first, list) for first in arr(inputs.get("messages"))[:1])
    return "generations" in answer or batched or "invocation_params" in obj(run.get("extra"))


def _wrapped_call(run: JsonObject) -> ModelCall:
    """A call as `wrap_openai` and its kind keep it: the arguments of the client's function, and its return value."""
    answer = obj(run.get("outputs"))
    counted = answer.get("usage_metadata", _metadata(run).get("usage_metadata"))
    inputs, reply = obj(run.get("inputs")), rest(answer, "usage_metadata")
    if "stop_reason" in reply and objects(reply.get("content")):
        inputs, reply = _of_anthropic(inputs), {"type": "message", **reply}
    return bodies.model_call(
        inputs,
        span_facts.restore_usage(reply, counted) if reply else None,
        keep_bodies=bodies.is_reply(answer),
        model=string(_metadata(run).get("ls_model_name")) if "model" not in obj(run.get("inputs")) else "",
        provider=string(_metadata(run).get("ls_provider")),
        usage=span_facts.usage(counted),
        **span_facts.call_fields(span_facts.fault(run.get("error"))),
    )


def _of_anthropic(inputs: JsonObject) -> JsonObject:
    """A request of `wrap_anthropic`, which puts the instructions among the messages; the API has them apart."""
    first, *others = arr(inputs.get("messages")) or [None]
    if obj(first).get("role") != "system" or "system" in inputs:
        return inputs
    return {**inputs, "system": obj(first).get("content"), "messages": others}


def _chained_call(run: JsonObject) -> ModelCall:
    """A call as LangChain keeps it: its own messages, and the parameters of its own class."""
    noted, params = _metadata(run), obj(obj(run.get("extra")).get("invocation_params"))
    inputs = {**obj(run.get("inputs")), "tools": params.get("tools") or params.get("functions") or []}
    return bodies.model_call(
        {name: value for name, value in inputs.items() if value},
        obj(run.get("outputs")) or None,
        provider=string(noted.get("ls_provider")),
        model=string(params.get("model")) or string(params.get("model_name")) or string(noted.get("ls_model_name")),
        parameters={name: value for name, value in params.items() if name not in _PARAMETERS and value is not None},
        stream=params.get("stream") is True,
        **span_facts.call_fields(span_facts.fault(run.get("error"))),
    )


def _arguments(inputs: JsonObject) -> Json:
    """The arguments of a tool; older versions of LangChain wrote them as one text."""
    alone = inputs.get("input") if set(inputs) == {"input"} else None
    read = bodies.parse_literal(alone) if isinstance(alone, str) else None
    return read if isinstance(read, dict) else inputs


LANGSMITH = Format("langsmith-runs", "runs of LangSmith", 8, _is_langsmith, _read_runs)
