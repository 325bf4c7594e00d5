"""Braintrust: project logs as they are fetched and exported, and the rows by which its SDK sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.genai import parsed
from pytest_agentreplay.providers.lenient import arr, merge_later, obj, string
from pytest_agentreplay.traces.formats import Format, find_rows, grouped
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, TreeSpan, root_of, run
from pytest_agentreplay.traces.trace import UNKNOWN, Source, ToolRun, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import ModelCall

_LOST = (
    "Braintrust keeps of a reply its choices and its usage: the model that answered, the response id and the "
    "fingerprint are lost"
)
_NOT_SENT = frozenset({"model", "provider", "tools", "tool_call_id", "span_origin", "instrumentation"})
_LISTS = ("events", "rows", "data", "body")
_COLUMNS = frozenset({"metadata", "metrics", "span_attributes", "span_parents", "tags", "scores"})
_HINT = (
    "fetch whole rows (POST /v1/project_logs/{id}/fetch, or BTQL `select: *`), of every span and not of the roots "
    'alone, and wrap the client (`wrap_openai`) and the tools (`@traced(type="tool")`)'
)


def _fits(opened: Opened) -> bool:
    return bool(_rows(opened.rows[:SNIFFED]))


def _rows(rows: Iterable[Json]) -> list[JsonObject]:
    """The rows of spans in whatever holds them; those of one id are one row, each filling the one before it."""
    merged: dict[str, JsonObject] = {}
    held = find_rows(rows, lambda told: "span_id" in told and "root_span_id" in told, _LISTS)
    for told in sorted(held, key=lambda told: bool(told.get("_is_merge"))):
        known = string(told.get("id")) or string(told.get("span_id"))
        merged[known] = _merged(merged.get(known, {}), _decoded(told))
    return [row for row in merged.values() if "span_attributes" in row]


def _decoded(told: JsonObject) -> JsonObject:
    """A row; tables have what is no text as JSON text in their columns."""
    return {name: parsed(value) if name in _COLUMNS else value for name, value in told.items()}


def _merged(known: JsonObject, later: JsonObject) -> JsonObject:
    columns = {name: value for name, value in later.items() if name in _COLUMNS and isinstance(value, dict)}
    return merge_later(known, later | {name: {**obj(known.get(name)), **value} for name, value in columns.items()})


def _read(opened: Opened) -> Iterator[Trace]:
    for known, held in grouped(_rows(opened.rows), lambda row: string(row.get("root_span_id"))).items():
        held.sort(key=_order)
        yield _trace(known, held, opened.file)


def _order(row: JsonObject) -> tuple[int, int]:
    counter = obj(row.get("span_attributes")).get("exec_counter")
    return (_time(row, "start") or 0, counter if isinstance(counter, int) else 0)


def _trace(known: str, rows: list[JsonObject], file: str) -> Trace:
    root = root_of(rows, "span_id", _parent)
    failed = span_facts.fault(root.get("error"))
    trace = Trace(
        source=Source(format="braintrust", version=_version(root), file=file, id=known),
        id=known,
        name=string(obj(root.get("span_attributes")).get("name")),
        status="error" if failed else "ok" if _time(root, "end") else "",
        started=_time(root, "start"),
        ended=_time(root, "end"),
        tags=span_facts.texts(root.get("tags")),
        input=bodies.given(root.get("input")),
        output=bodies.final(root.get("output")),
        fault=failed,
        grades={name: value for name, value in obj(root.get("scores")).items() if value is not None},
        losses=(_LOST,),
        **span_facts.about(obj(root.get("metadata")), *(obj(row.get("metadata")) for row in rows)),
    )
    return run(trace, [_span(row) for row in rows], hint=_HINT, root=string(root.get("span_id")))


def _version(root: JsonObject) -> str:
    return string(obj(obj(root.get("context")).get("span_origin")).get("version"))


def _parent(row: JsonObject) -> str:
    return next((string(one) for one in arr(row.get("span_parents")) if string(one)), "")


def _time(row: JsonObject, which: str) -> int | None:
    return moment(obj(row.get("metrics")).get(which)) or (moment(row.get("created")) if which == "start" else None)


def _span(row: JsonObject) -> TreeSpan:
    kind, run_of_tool = obj(row.get("span_attributes")).get("type"), _tool_run(row)
    return TreeSpan(
        id=string(row.get("span_id")),
        parent=_parent(row),
        started=_time(row, "start"),
        ended=_time(row, "end"),
        step=_model_call(row) if kind == "llm" else run_of_tool if kind == "tool" else None,
        tool=run_of_tool,
    )


def _model_call(row: JsonObject) -> ModelCall:
    noted, asked = obj(row.get("metadata")), row.get("input")
    body = asked if isinstance(asked, dict) else {"messages": asked} if isinstance(asked, list) else asked
    tools = {"tools": noted["tools"]} if arr(noted.get("tools")) else {}
    return bodies.model_call(
        {**body, **tools} if isinstance(body, dict) else body,
        row.get("output"),
        provider=string(noted.get("provider")),
        model=string(noted.get("model")),
        parameters={name: value for name, value in noted.items() if name not in _NOT_SENT and value is not None},
        usage=span_facts.usage(row.get("metrics")),
        **span_facts.call_fields(span_facts.fault(row.get("error"))),
    )


def _tool_run(row: JsonObject) -> ToolRun:
    given = row.get("output")
    return ToolRun(
        name=string(obj(row.get("span_attributes")).get("name")),
        call_id=string(obj(row.get("metadata")).get("tool_call_id")),
        arguments=parsed(row.get("input")),
        result=UNKNOWN if given is None else bodies.told(given),
        fault=span_facts.fault(row.get("error")),
    )


BRAINTRUST = Format("braintrust", "project logs of Braintrust", 11, _fits, _read)
