"""MLflow: a trace as `Trace.to_json`, `Trace.to_dict` and `search_traces` give it, of schema 2 and 3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import obj, objects, parse_text, string
from pytest_agentreplay.traces.formats import Format
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, PlatformSpan, make_run
from pytest_agentreplay.traces.trace import UNKNOWN, Source, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Fields: `mlflow.entities.Trace`, and the attributes in mlflow/tracing/constant.py, of MLflow 3.17.0.
_LOST = "MLflow keeps no headers and no status of HTTP; a request is the arguments of the client's function"
_MODELS = frozenset({"CHAT_MODEL", "LLM"})
_STATES = {"OK": "ok", "ERROR": "error"}
_HINT = (
    "its spans are not in the file. Get the trace whole with mlflow.get_trace(ID).to_json() or "
    "mlflow.search_traces(include_spans=True), after mlflow.flush_trace_async_logging(), with mlflow.LIBRARY.autolog()"
)


def _is_mlflow(opened: Opened) -> bool:
    return any(_is_trace(trace) for row in opened.rows[:SNIFFED] for trace in _traces(row))


def _is_trace(trace: JsonObject) -> bool:
    info = obj(trace.get("info"))
    trace_id = string(info.get("trace_id")) or string(info.get("request_id"))
    marked = trace_id.startswith("tr-") or any(name.startswith("mlflow.") for name in _notes(info))
    return marked and isinstance(trace.get("data"), dict)


def _notes(info: JsonObject) -> JsonObject:
    """What is noted of a trace, under any of the names that versions give to it."""
    tags = info.get("tags")
    listed = {string(tag.get("key")): tag.get("value") for tag in objects(tags)}
    return {**obj(tags), **listed, **obj(info.get("request_metadata")), **obj(info.get("trace_metadata"))}


def _traces(row: Json) -> list[JsonObject]:
    """The traces in a row: itself, one in a list, or the row of a table, which has the trace as text or in columns."""
    if isinstance(row, list):
        return [trace for item in row for trace in _traces(item)] if len(row) < 100_000 else []
    fields = obj(row)
    if isinstance(listed := fields.get("traces"), list):
        return [trace for item in objects(listed) for trace in _traces(item)]
    inner = parse_text(fields.get("trace"))
    if isinstance(inner, dict):
        return [inner]
    if "info" in fields:
        return [fields]
    if "spans" in fields and ("trace_metadata" in fields or "request_metadata" in fields or "trace_id" in fields):
        return [{"info": fields, "data": {"spans": parse_text(fields["spans"])}}]
    return []


def _read_runs(opened: Opened) -> Iterator[Trace]:
    seen: set[str] = set()
    for trace in (trace for row in opened.rows for trace in _traces(row) if _is_trace(trace)):
        info = obj(trace["info"])
        trace_id = string(info.get("trace_id")) or string(info.get("request_id"))
        if trace_id not in seen:
            seen.add(trace_id)
            yield _read_run(trace_id, info, objects(obj(trace["data"]).get("spans")), opened.file)


def _read_run(trace_id: str, info: JsonObject, spans: list[JsonObject], file: str) -> Trace:
    notes = _notes(info)
    root = next((span for span in spans if not _parent(span)), {})
    attributes = _attributes(root)
    state = string(info.get("state")) or string(info.get("status"))
    requested = moment(info.get("request_time")) or moment(info.get("timestamp_ms"))
    version = string(notes.get("mlflow.trace_schema.version"))
    return make_run(
        [_read_span(span) for span in spans],
        _read_span(root),
        Source(format="mlflow", version=version, file=file, id=trace_id),
        hint=_HINT,
        name=string(notes.get("mlflow.traceName")) or string(root.get("name")),
        status=_STATES.get(state.rpartition("_")[2].rpartition(".")[2].upper(), ""),
        started=_time(root, "start") or requested,
        input=bodies.read_input(attributes.get("mlflow.spanInputs")),
        output=bodies.read_output(attributes.get("mlflow.spanOutputs")),
        grades=_grades(info),
        losses=(_LOST,),
        **span_facts.about(
            {name: value for name, value in notes.items() if not name.startswith("mlflow.")},
            user=string(notes.get("mlflow.trace.user")),
            session=string(notes.get("mlflow.trace.session")),
        ),
    )


def _grades(info: JsonObject) -> JsonObject:
    """The assessments of a trace, by their names."""
    grades: JsonObject = {}
    for assessment in objects(info.get("assessments")):
        name = string(assessment.get("assessment_name")) or string(assessment.get("name"))
        feedback = obj(assessment.get("feedback")) or obj(assessment.get("expectation"))
        grades |= {name: feedback.get("value")} if name else {}
    return grades


def _attributes(span: JsonObject) -> JsonObject:
    """The attributes of a span, whose values are JSON texts; older versions wrote some of them plainly."""
    return {name: parse_text(value) for name, value in obj(span.get("attributes")).items()}


def _id(span: JsonObject) -> str:
    return string(span.get("span_id")) or string(obj(span.get("context")).get("span_id"))


def _parent(span: JsonObject) -> str:
    return string(span.get("parent_span_id")) or string(span.get("parent_id"))


def _time(span: JsonObject, which: str) -> int | None:
    return moment(span.get(f"{which}_time_unix_nano")) or moment(span.get(f"{which}_time"))


def _read_span(row: JsonObject) -> PlatformSpan:
    attributes, failure = _attributes(row), _fault(row)
    kind = string(attributes.get("mlflow.spanType")) or string(row.get("span_type"))
    inputs, output = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs", UNKNOWN)
    call = None
    if kind in _MODELS:
        answer = attributes.get("mlflow.spanOutputs")
        call = bodies.model_call(
            inputs if "tools" in obj(inputs) else bodies.with_tools(inputs, attributes.get("mlflow.chat.tools")),
            answer,
            keep_bodies=bodies.is_reply(answer),
            model="" if string(obj(inputs).get("model")) else string(attributes.get("model")),
            provider=string(attributes.get("mlflow.llm.provider")),
            usage=span_facts.usage(attributes.get("mlflow.chat.tokenUsage")),
            **span_facts.call_fields(failure),
        )
    return PlatformSpan(
        id=_id(row),
        parent=_parent(row),
        kind="model" if call else "tool" if kind == "TOOL" else "",
        name=string(row.get("name")),
        agent=string(row.get("name")) if kind == "AGENT" else "",
        started=_time(row, "start"),
        ended=_time(row, "end"),
        fault=failure,
        call=call,
        call_id=string(attributes.get("tool_call_id")) or string(obj(inputs).get("tool_call_id")),
        arguments=obj(inputs),
        result=UNKNOWN if output is None and failure else bodies.read_result(output),
    )


def _fault(row: JsonObject) -> TraceFault | None:
    """The exception of a span, from the event that tells it, else from its status."""
    for event in objects(row.get("events")):
        noted = obj(event.get("attributes"))
        if event.get("name") == "exception":
            kind = string(noted.get("exception.type")).rpartition(".")[2]
            return TraceFault(kind, string(noted.get("exception.message")), string(noted.get("exception.stacktrace")))
    status = obj(row.get("status"))
    code = string(status.get("code")) or string(row.get("status_code"))
    if not code.endswith("ERROR"):
        return None
    return span_facts.fault(status.get("message", row.get("status_message"))) or TraceFault()


MLFLOW = Format("mlflow", "traces of MLflow", 13, _is_mlflow, _read_runs)
