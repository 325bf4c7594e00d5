"""Braintrust: project logs as they are fetched and exported, and the rows by which its SDK sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import arr, merge_later, obj, parse_text, string
from pytest_agentreplay.traces.formats import Format, find_rows, group_by
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import PlatformSpan, holds_any, make_run, root_of
from pytest_agentreplay.traces.trace import UNKNOWN, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.platforms.tree import Kind
    from pytest_agentreplay.traces.trace import Trace

# Fields: POST /v1/project_logs/{id}/fetch of its API, and `braintrust.logger` of the SDK 0.47.0.
_LOST = (
    "Braintrust keeps of a reply its choices and its usage: the model that answered, the response id and the "
    "fingerprint are lost"
)
_NOT_SENT = frozenset({"model", "provider", "tools", "tool_call_id", "span_origin", "instrumentation"})
_KINDS: dict[str, Kind] = {"llm": "model", "tool": "tool"}
_LISTS = ("events", "rows", "data", "body")
_COLUMNS = frozenset({"metadata", "metrics", "span_attributes", "span_parents", "tags", "scores"})
_HINT = (
    "fetch whole rows (POST /v1/project_logs/{id}/fetch, or BTQL `select: *`), of every span and not of the roots "
    'alone, and wrap the client (`wrap_openai`) and the tools (`@traced(type="tool")`)'
)


def _rows(rows: Iterable[Json]) -> list[JsonObject]:
    """The rows of spans in whatever holds them; those of one id are one row, each filling the one before it."""
    merged: dict[str, JsonObject] = {}
    spans = find_rows(rows, lambda row: "span_id" in row and "root_span_id" in row, _LISTS)
    for row in sorted(spans, key=lambda row: bool(row.get("_is_merge"))):
        # Tables have what is no text as JSON text in their columns.
        later = {name: parse_text(value) if name in _COLUMNS else value for name, value in row.items()}
        before = merged.get(row_id := string(row.get("id")) or string(row.get("span_id")), {})
        columns = {name: value for name, value in later.items() if name in _COLUMNS and isinstance(value, dict)}
        later |= {name: {**obj(before.get(name)), **value} for name, value in columns.items()}
        merged[row_id] = merge_later(before, later)
    return [row for row in merged.values() if "span_attributes" in row]


def _read_runs(opened: Opened) -> Iterator[Trace]:
    for trace_id, rows in group_by(_rows(opened.rows), lambda row: string(row.get("root_span_id"))).items():
        rows.sort(key=_order)
        root = root_of(rows, "span_id", _parent)
        version = string(obj(obj(root.get("context")).get("span_origin")).get("version"))
        yield make_run(
            [_read_span(row) for row in rows],
            _read_span(root),
            Source(format="braintrust", version=version, file=opened.file, id=trace_id),
            hint=_HINT,
            is_done=_time(root, "end"),
            tags=span_facts.texts(root.get("tags")),
            input=bodies.read_input(root.get("input")),
            output=bodies.read_output(root.get("output")),
            grades={name: value for name, value in obj(root.get("scores")).items() if value is not None},
            losses=(_LOST,),
            **span_facts.about(obj(root.get("metadata")), *(obj(row.get("metadata")) for row in rows)),
        )


def _order(row: JsonObject) -> tuple[int, int]:
    counter = obj(row.get("span_attributes")).get("exec_counter")
    return (_time(row, "start") or 0, counter if isinstance(counter, int) else 0)


def _parent(row: JsonObject) -> str:
    return next(filter(None, map(string, arr(row.get("span_parents")))), "")


def _time(row: JsonObject, which: str) -> int | None:
    return moment(obj(row.get("metrics")).get(which)) or (moment(row.get("created")) if which == "start" else None)


def _read_span(row: JsonObject) -> PlatformSpan:
    attributes, metadata, output = obj(row.get("span_attributes")), obj(row.get("metadata")), row.get("output")
    failure = span_facts.fault(row.get("error"))
    kind = _KINDS.get(string(attributes.get("type")), "")
    call = None
    if kind == "model":
        body = {"messages": row["input"]} if isinstance(row.get("input"), list) else row.get("input")
        call = bodies.model_call(
            bodies.with_tools(body, metadata.get("tools")),
            output,
            provider=string(metadata.get("provider")),
            model=string(metadata.get("model")),
            parameters={name: value for name, value in metadata.items() if name not in _NOT_SENT and value is not None},
            usage=span_facts.usage(row.get("metrics")),
            **span_facts.call_fields(failure),
        )
    return PlatformSpan(
        id=string(row.get("span_id")),
        parent=_parent(row),
        kind=kind,
        name=string(attributes.get("name")),
        started=_time(row, "start"),
        ended=_time(row, "end"),
        fault=failure,
        call=call,
        call_id=string(metadata.get("tool_call_id")),
        arguments=parse_text(row.get("input")),
        result=UNKNOWN if output is None else bodies.read_result(output),
    )


BRAINTRUST = Format("braintrust", "project logs of Braintrust", 11, holds_any(_rows), _read_runs)
