"""Galileo: a trace as a tree of spans, by the schema of `galileo_core.schemas.logging`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers import genai
from pytest_agentreplay.providers.lenient import arr, obj, objects, string
from pytest_agentreplay.traces.formats import Format, find_rows
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, TreeSpan, run
from pytest_agentreplay.traces.trace import UNKNOWN, Source, ToolRun, Trace, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import ModelCall

_LOST = (
    "Galileo keeps no parameter but the temperature, no response id and no fingerprint",
    "Galileo names one model of a call: the one that answered",
    "Galileo keeps of a tool's error its status code and its output",
)
_KINDS = frozenset({"llm", "tool", "agent", "workflow", "retriever", "control"})
_LISTS = ("traces", "records", "data", "body")
_HINT = (
    "log the spans with their input and output (GalileoLogger.add_llm_span, add_tool_span), and export the whole trace"
)


def _fits(opened: Opened) -> bool:
    return any(True for _ in _traces(opened.rows[:SNIFFED]))


def _traces(rows: Iterable[Json]) -> Iterator[JsonObject]:
    for told in find_rows(rows, lambda row: row.get("type") == "trace" and isinstance(row.get("spans"), list), _LISTS):
        spans = objects(told["spans"])
        if not spans or any(string(one.get("type")) in _KINDS for one in spans):
            yield told


def _read(opened: Opened) -> Iterator[Trace]:
    for number, told in enumerate(_traces(opened.rows), 1):
        yield _trace(told, string(told.get("id")) or f"trace {number}", opened.file)


def _trace(told: JsonObject, known: str, file: str) -> Trace:
    failed = _fault(told)
    trace = Trace(
        source=Source(format="galileo", file=file, id=string(told.get("id"))),
        id=known,
        name=string(told.get("name")),
        status="error" if failed else "ok" if told.get("status_code") else "",
        started=moment(told.get("created_at")),
        ended=moment(told.get("created_at")),
        tags=span_facts.texts(told.get("tags")),
        input=bodies.given(_told(told, "input")),
        output=bodies.final(_told(told, "output")),
        fault=failed,
        losses=_LOST,
        **span_facts.about(
            obj(told.get("user_metadata")) | obj(told.get("metadata")), session=string(told.get("session_id"))
        ),
    )
    return run(trace, [*_spans(told)], hint=_HINT)


def _told(told: JsonObject, side: str) -> Json:
    """What went in or came out; redacted, where that is all that was kept."""
    given = told.get(side)
    return given if given not in (None, "", []) else told.get(f"redacted_{side}")


def _spans(root: JsonObject) -> Iterator[TreeSpan]:
    """The spans of a tree, parents first. Ids are optional in it: where there is none, the place is one."""
    waiting = [(one, f"{at}", "") for at, one in reversed([*enumerate(objects(root.get("spans")), 1)])]
    while waiting:
        told, place, parent = waiting.pop()
        known = string(told.get("id")) or f"span {place}"
        yield _span(told, known, parent)
        children = reversed([*enumerate(objects(told.get("spans")), 1)])
        waiting += [(one, f"{place}.{at}", known) for at, one in children]


def _span(told: JsonObject, known: str, parent: str) -> TreeSpan:
    kind = told.get("type")
    return TreeSpan(
        id=known,
        parent=parent,
        agent=string(told.get("name")) if kind == "agent" else "",
        started=None,  # `created_at` is when the span was logged, which is after its end: the tree has the order
        ended=moment(told.get("created_at")),
        step=_model_call(told) if kind == "llm" else _tool_run(told) if kind == "tool" else None,
    )


def _model_call(told: JsonObject) -> ModelCall:
    temperature: JsonObject = {"temperature": told["temperature"]} if told.get("temperature") is not None else {}
    asked = _told(told, "input")
    answer = obj(_told(told, "output"))
    return bodies.model_call(
        {"messages": arr(asked) or [asked], **({"tools": told["tools"]} if arr(told.get("tools")) else {})},
        {**answer, "finish_reason": told.get("finish_reason")} if answer else _told(told, "output"),
        model=string(told.get("model")),
        response_model=string(told.get("model")),
        parameters=temperature,
        usage=span_facts.usage(told.get("metrics")),
        **span_facts.call_fields(_fault(told)),
    )


def _tool_run(told: JsonObject) -> ToolRun:
    failed, given = _fault(told), _told(told, "output")
    return ToolRun(
        name=string(told.get("name")),
        call_id=string(told.get("tool_call_id")),
        arguments=genai.parsed(_told(told, "input")),
        result=UNKNOWN if given is None or failed else genai.parsed(given),
        fault=failed,
    )


def _fault(told: JsonObject) -> TraceFault | None:
    """The error of a span: its output, where the status code says that it failed."""
    code = told.get("status_code")
    if not isinstance(code, int) or code < 400:
        return None
    return span_facts.fault(_told(told, "output")) or TraceFault(f"status {code}")


GALILEO = Format("galileo", "traces of Galileo", 16, _fits, _read)
