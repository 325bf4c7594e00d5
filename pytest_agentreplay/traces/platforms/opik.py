"""Opik: what `opik export` writes, and the requests by which its SDK sends traces and spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.lenient import arr, merge_later, obj, objects, parse_text, rest, string
from pytest_agentreplay.traces.formats import Format, group_by
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, PlatformSpan, make_run
from pytest_agentreplay.traces.trace import UNKNOWN, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Fields: `opik.rest_api.types.TracePublic` and `SpanPublic`, and `opik.cli.exports`, of the SDK 2.2.122.
_LOST = (
    "Opik names no model but the one that answered",
    "Opik puts parameters and what the reply said besides its choices into one `metadata`; they are told apart by name",
)
_KINDS = frozenset({"llm", "tool", "general", "guardrail"})
_ANSWERED = ("id", "object", "created", "system_fingerprint", "service_tier")
_REPLY = (
    *(*_ANSWERED, "usage", "moderation", "type", "created_from", "model", "tools", "request_id", "finish_reason"),
    *("stop_reason", "stop_sequence", "role", "metadata", "base_url"),
)
_HOLDERS = (("spans", list, "spans"), ("traces", list, "traces"), ("trace", dict, "traces"))
_EMPTY: tuple[Json, ...] = (None, {}, [])
_HINT = (
    "export the spans with it (`opik export WORKSPACE PROJECT traces`), and trace the client (`track_openai`) and "
    'the tools (`@opik.track(type="tool")`) with capture_input and capture_output left on'
)


def _is_opik(opened: Opened) -> bool:
    traces, spans = _rows(opened.rows[:SNIFFED])
    return any(_is_span(span) for span in spans.values()) or (
        "downloaded_at" in obj(opened.rows[:1] and opened.rows[0]) and bool(traces)
    )


def _is_span(row: JsonObject) -> bool:
    return string(row.get("type")) in _KINDS and "trace_id" in row and ("start_time" in row or "project_name" in row)


def _rows(rows: Iterable[Json]) -> tuple[dict[str, JsonObject], dict[str, JsonObject]]:
    """Traces and spans by id, in whatever holds them; of two of one id the later fills in."""
    traces: dict[str, JsonObject] = {}
    spans: dict[str, JsonObject] = {}
    waiting: list[tuple[Json, str]] = [(row, "") for row in reversed([*rows])]
    while waiting:
        row, path = waiting.pop()
        fields = obj(row)
        if isinstance(row, list):
            waiting += [(item, path) for item in reversed(row)]
        elif isinstance(fields.get("body"), dict | list):
            path = string(fields.get("path")) or string(fields.get("url"))
            update = path.rpartition("/")[2] if fields.get("method") == "PATCH" else ""
            body = fields["body"]
            waiting.append((body | {"id": update} if update and isinstance(body, dict) else body, path))
        elif members := [(fields[name], kind) for name, form, kind in _HOLDERS if isinstance(fields.get(name), form)]:
            waiting += members
        elif string(fields.get("id")):
            is_trace = "trace" in path or "thread_id" in fields
            kept = spans if "trace_id" in fields or "span" in path else traces if is_trace else {}
            kept[string(fields["id"])] = merge_later(kept.get(string(fields["id"]), {}), fields, empty=_EMPTY)
    return traces, spans


def _read_runs(opened: Opened) -> Iterator[Trace]:
    traces, spans = _rows(opened.rows)
    runs = group_by(spans.values(), lambda span: string(span.get("trace_id")))
    for trace_id in dict.fromkeys((*traces, *runs)):
        rows = runs.get(trace_id, [])
        top = next((span for span in rows if not span.get("parent_span_id")), {})
        # The trace has an id of its own, which none of its spans has.
        root = merge_later(top, traces.get(trace_id, {}), empty=_EMPTY)
        yield make_run(
            [_read_span(span) for span in rows],
            _read_span(root),
            Source(format="opik", file=opened.file, id=trace_id),
            hint=_HINT,
            is_done=root.get("end_time"),
            tags=span_facts.texts(root.get("tags")),
            input=bodies.read_input(root.get("input")) or None,
            output=bodies.read_output(root.get("output")) or None,
            grades={string(score.get("name")): score.get("value") for score in objects(root.get("feedback_scores"))},
            losses=_LOST,
            **span_facts.about(
                *(obj(row.get("metadata")) for row in (root, *rows)), session=string(root.get("thread_id"))
            ),
        )


def _read_span(row: JsonObject) -> PlatformSpan:
    """A span; the request of a model stands in `input` and `metadata`, its reply in `output` and `metadata`."""
    metadata, output = obj(row.get("metadata")), row.get("output")
    result = obj(output)["output"] if set(obj(output)) == {"output"} else output
    failure = span_facts.fault(row.get("error_info"))
    call = None
    if row.get("type") == "llm":
        body = row["input"] if isinstance(row.get("input"), dict) else {"messages": row.get("input")}
        answered: JsonObject = {name: metadata[name] for name in _ANSWERED if name in metadata}
        is_chat = objects(obj(output).get("choices"))
        call = bodies.model_call(
            bodies.with_tools(body, metadata.get("tools")),
            answered | {"model": row.get("model")} | obj(output) if is_chat else output or None,
            provider=string(row.get("provider")),
            model=string(row.get("model")),
            response_model=string(metadata.get("model")) or string(row.get("model")),
            response_id=string(metadata.get("id")),
            parameters={
                name: value
                for name, value in metadata.items()
                if name not in _REPLY and not name.startswith("_") and isinstance(value, int | float | str | dict)
            },
            usage=span_facts.usage(row.get("usage"), metadata.get("usage")),
            **span_facts.call_fields(failure),
        )
    return PlatformSpan(
        id=string(row.get("id")),
        parent=string(row.get("parent_span_id")),
        kind="model" if call else "tool" if row.get("type") == "tool" else "",
        name=string(row.get("name")),
        started=moment(row.get("start_time")),
        ended=moment(row.get("end_time")),
        fault=failure,
        call=call,
        call_id=string(metadata.get("tool_call_id")),
        arguments=_arguments(parse_text(row.get("input"))),
        result=UNKNOWN if result is None else bodies.read_result(result),
    )


def _arguments(value: Json) -> Json:
    """The arguments of a tool, which a decorated function may have taken under one name (`**kwargs`)."""
    fields = obj(value)
    if isinstance(text := fields.get("input_str"), str):  # of LangChain: what Python shows of the arguments, and these
        arguments = rest(fields, "input_str")
        return arguments if arguments.keys() - {"input"} else bodies.parse_literal(text)
    for name in ("kw", "kwargs"):
        if (
            name in fields
            and isinstance(fields[name], dict)
            and not any(arr(other) for other in rest(fields, name).values())
        ):
            return {**rest(fields, name, "args"), **obj(fields[name])}
    return value


OPIK = Format("opik", "traces of Opik", 10, _is_opik, _read_runs)
