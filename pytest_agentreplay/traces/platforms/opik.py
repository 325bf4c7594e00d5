"""Opik: what `opik export` writes, and the requests by which its SDK sends traces and spans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.providers.genai import parsed
from pytest_agentreplay.providers.lenient import arr, merge_later, obj, objects, rest, string
from pytest_agentreplay.traces.formats import Format, grouped
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import SNIFFED, TreeSpan, run
from pytest_agentreplay.traces.trace import UNKNOWN, Source, ToolRun, Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import ModelCall

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
_EMPTY: tuple[Json, ...] = (None, {}, [])
_HINT = (
    "export the spans with it (`opik export WORKSPACE PROJECT traces`), and trace the client (`track_openai`) and "
    'the tools (`@opik.track(type="tool")`) with capture_input and capture_output left on'
)


def _fits(opened: Opened) -> bool:
    traces, spans = _rows(opened.rows[:SNIFFED])
    return any(_is_span(one) for one in spans.values()) or (
        "downloaded_at" in obj(opened.rows[:1] and opened.rows[0]) and bool(traces)
    )


def _is_span(told: JsonObject) -> bool:
    return (
        string(told.get("type")) in _KINDS and "trace_id" in told and ("start_time" in told or "project_name" in told)
    )


def _rows(rows: Iterable[Json]) -> tuple[dict[str, JsonObject], dict[str, JsonObject]]:
    """Traces and spans by id, in whatever holds them; of two of one id the later fills in."""
    traces: dict[str, JsonObject] = {}
    spans: dict[str, JsonObject] = {}
    waiting: list[tuple[Json, str]] = [(row, "") for row in reversed([*rows])]
    while waiting:
        row, path = waiting.pop()
        told = obj(row)
        if isinstance(row, list):
            waiting += [(one, path) for one in reversed(row)]
        elif isinstance(told.get("body"), dict | list):
            path = string(told.get("path")) or string(told.get("url"))
            update = path.rpartition("/")[2] if told.get("method") == "PATCH" else ""
            body = obj(told["body"]) | {"id": update} if update and isinstance(told["body"], dict) else told["body"]
            waiting.append((body, path))
        elif (
            isinstance(told.get("trace"), dict)
            or isinstance(told.get("spans"), list)
            or isinstance(told.get("traces"), list)
        ):
            waiting += [(one, "spans") for one in reversed(arr(told.get("spans")))]
            waiting += [(one, "traces") for one in reversed(arr(told.get("traces")))]
            waiting += [(told["trace"], "traces")] if isinstance(told.get("trace"), dict) else []
        elif string(told.get("id")):
            is_trace = "trace" in path or "thread_id" in told
            kept = spans if "trace_id" in told or "span" in path else traces if is_trace else {}
            kept[string(told["id"])] = merge_later(kept.get(string(told["id"]), {}), told, empty=_EMPTY)
    return traces, spans


def _read(opened: Opened) -> Iterator[Trace]:
    traces, spans = _rows(opened.rows)
    runs = grouped(spans.values(), lambda span: string(span.get("trace_id")))
    for known in dict.fromkeys((*traces, *runs)):
        yield _trace(known, traces.get(known, {}), runs.get(known, []), opened.file)


def _trace(known: str, told: JsonObject, spans: list[JsonObject], file: str) -> Trace:
    root = next((one for one in spans if not one.get("parent_span_id")), {})
    taken = "" if told else string(root.get("id"))
    told = merge_later(root, told, empty=_EMPTY)
    failed = span_facts.fault(told.get("error_info"))
    scores = {string(one.get("name")): one.get("value") for one in objects(told.get("feedback_scores"))}
    trace = Trace(
        source=Source(format="opik", file=file, id=known),
        id=known,
        name=string(told.get("name")),
        status="error" if failed else "ok" if told.get("end_time") else "",
        started=moment(told.get("start_time")),
        ended=moment(told.get("end_time")),
        tags=span_facts.texts(told.get("tags")),
        input=bodies.given(told.get("input")) or None,
        output=bodies.final(told.get("output")) or None,
        fault=failed,
        grades=scores,
        losses=_LOST,
        **span_facts.about(
            *(obj(one.get("metadata")) for one in (told, *spans)), session=string(told.get("thread_id"))
        ),
    )
    return run(trace, [_span(one) for one in spans], hint=_HINT, root=taken)


def _span(told: JsonObject) -> TreeSpan:
    kind, run_of_tool = told.get("type"), _tool_run(told)
    return TreeSpan(
        id=string(told.get("id")),
        parent=string(told.get("parent_span_id")),
        started=moment(told.get("start_time")),
        ended=moment(told.get("end_time")),
        step=_model_call(told) if kind == "llm" else run_of_tool if kind == "tool" else None,
        tool=run_of_tool,
    )


def _model_call(told: JsonObject) -> ModelCall:
    """A call whose request stands in `input` and `metadata`, and whose reply in `output` and `metadata`."""
    noted, asked, answer = obj(told.get("metadata")), told.get("input"), told.get("output")
    body = asked if isinstance(asked, dict) else {"messages": asked}
    known: JsonObject = {name: noted[name] for name in _ANSWERED if name in noted}
    chat = objects(obj(answer).get("choices"))
    return bodies.model_call(
        {**body, **({"tools": noted["tools"]} if arr(noted.get("tools")) else {})},
        known | {"model": told.get("model")} | obj(answer) if chat else answer or None,
        provider=string(told.get("provider")),
        model=string(told.get("model")),
        response_model=string(noted.get("model")) or string(told.get("model")),
        response_id=string(noted.get("id")),
        parameters={
            name: value
            for name, value in noted.items()
            if name not in _REPLY and not name.startswith("_") and isinstance(value, int | float | str | dict)
        },
        usage=span_facts.usage(told.get("usage"), noted.get("usage")),
        **span_facts.call_fields(span_facts.fault(told.get("error_info"))),
    )


def _tool_run(told: JsonObject) -> ToolRun:
    given = told.get("output")
    alone = obj(given)["output"] if set(obj(given)) == {"output"} else given
    return ToolRun(
        name=string(told.get("name")),
        call_id=string(obj(told.get("metadata")).get("tool_call_id")),
        arguments=_arguments(parsed(told.get("input"))),
        result=UNKNOWN if alone is None else bodies.told(alone),
        fault=span_facts.fault(told.get("error_info")),
    )


def _arguments(given: Json) -> Json:
    """The arguments of a tool, which a decorated function may have taken under one name (`**kwargs`)."""
    told = obj(given)
    if isinstance(text := told.get("input_str"), str):  # of LangChain: what Python shows of the arguments, and these
        named = rest(told, "input_str")
        return named if named.keys() - {"input"} else bodies.literal(text)
    for name in ("kw", "kwargs"):
        if name in told and isinstance(told[name], dict) and not any(arr(one) for one in rest(told, name).values()):
            return {**rest(told, name, "args"), **obj(told[name])}
    return given


OPIK = Format("opik", "traces of Opik", 10, _fits, _read)
