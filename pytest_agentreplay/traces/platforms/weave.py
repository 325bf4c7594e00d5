"""Weave: calls as its server lists them, and as its SDK sends them when they are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.providers.lenient import merge_later, obj, rest, string
from pytest_agentreplay.traces.formats import Format, find_rows, group_by
from pytest_agentreplay.traces.moments import moment
from pytest_agentreplay.traces.platforms import bodies, span_facts
from pytest_agentreplay.traces.platforms.tree import PlatformSpan, holds_any, make_run, root_of
from pytest_agentreplay.traces.trace import UNKNOWN, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.traces.formats import Opened
    from pytest_agentreplay.traces.trace import Trace

# Fields: POST /calls/stream_query of its server, and what the SDK 0.54.0 sends to /calls/complete.
_LOST = (
    "Weave leaves out what is null in a reply",
    "Weave keeps no headers; a request is what the client's function was called with",
)
_MARKS = ("weave:///", "weave-trace-internal:///")
_CHAINS = ("langchain.Llm.", "langchain.ChatModel.", "litellm.", "google.genai.", "vertexai.", "bedrock")
_CLIENTS = (*_CHAINS, "openai.", "anthropic.", "mistralai.", "groq.", "cohere.", "cerebras.")
_ENDS = ("completions.create", "completions.parse", "messages.create", "responses.create", "responses.parse", ".chat")
_BATCHES = ("batch", "calls", "body", "req", "start", "end", "complete", "call", "data")
_HINT = (
    "trace the client (weave.init() before it is made) and the tools (@weave.op), with content capture on; "
    "export the calls with /calls/stream_query and their inputs and outputs"
)
_REFERENCES = (
    "values of the run stand behind references (weave:///...). Export the calls with expand_columns: "
    '["inputs", "output"] and return_expanded_column_values: true'
)


def _calls(rows: Iterable[Json]) -> list[JsonObject]:
    """The calls in whatever holds them; a start and its end, sent apart, are one call."""
    merged: dict[str, JsonObject] = {}
    for row in find_rows(
        rows, lambda candidate: "op_name" in candidate or ("ended_at" in candidate and "id" in candidate), _BATCHES
    ):
        call_id = string(row.get("id"))
        merged[call_id] = merge_later(merged.get(call_id, {}), row)
    return [call for call in merged.values() if string(call.get("op_name")).startswith(_MARKS)]


def _read_runs(opened: Opened) -> Iterator[Trace]:
    for trace_id, calls in group_by(_calls(opened.rows), lambda call: string(call.get("trace_id"))).items():
        calls.sort(key=lambda call: moment(call.get("started_at")) or 0)
        root = root_of(calls, "id", "parent_id")
        if any(_refers(call.get(side)) for call in calls if _of_model(call) for side in ("inputs", "output")):
            raise TraceIncomplete(_REFERENCES, file=opened.file, place=f"run {trace_id}")
        version = string(_weave(root).get("client_version"))
        yield make_run(
            [_read_span(call) for call in calls],
            _read_span(root),
            Source(format="weave", version=version, file=opened.file, id=trace_id),
            hint=_HINT,
            is_done=root.get("ended_at"),
            input=bodies.read_input(_arguments(root)) or None,
            output=bodies.read_output(root.get("output")),
            losses=_LOST,
            **span_facts.about(
                *(obj(call.get("attributes")) for call in (root, *calls)),
                {"user": string(root.get("wb_user_id"))},
                session=string(root.get("thread_id")),
            ),
        )


def _weave(call: JsonObject) -> JsonObject:
    return obj(obj(call.get("attributes")).get("weave"))


def _name(call: JsonObject) -> str:
    """The name of an operation, without where it is kept and its version."""
    return string(call.get("op_name")).rpartition("/")[2].rpartition(":")[0] or string(call.get("op_name"))


def _of_model(call: JsonObject) -> bool:
    name = _name(call)
    client = name.startswith(_CLIENTS) and (name.endswith(_ENDS) or name.startswith(_CHAINS))
    return client or (_weave(call).get("kind") == "llm" and "messages" in obj(call.get("inputs")))


def _arguments(call: JsonObject) -> JsonObject:
    """What an operation was called with, without the object whose method it is."""
    return rest(obj(call.get("inputs")), "self")


def _read_span(call: JsonObject) -> PlatformSpan:
    kind, name, output = string(_weave(call).get("kind")), _name(call), call.get("output")
    is_model, failure = _of_model(call), span_facts.fault(call.get("exception"))
    is_unknown = (output is None and failure is not None) or _refers(output)
    model_call = None
    if is_model:
        model_call = bodies.model_call(
            _arguments(call),
            rest(obj(output), "request_id") or output,
            keep_bodies=bodies.is_reply(output),
            usage=span_facts.usage(next(iter(obj(obj(call.get("summary")).get("usage")).values()), None)),
            **span_facts.call_fields(failure),
        )
    return PlatformSpan(
        id=string(call.get("id")),
        parent=string(call.get("parent_id")),
        kind="model" if is_model else "tool" if kind == "tool" else "",
        name=name,
        agent=name if kind == "agent" else "",
        started=moment(call.get("started_at")),
        ended=moment(call.get("ended_at")),
        fault=failure,
        call=model_call,
        call_id=string(obj(call.get("attributes")).get("tool_call_id")),
        arguments=_arguments(call),
        result=UNKNOWN if is_unknown else bodies.read_result(output),
    )


def _refers(value: Json) -> bool:
    """Whether a value, or anything in it, stands elsewhere and was not fetched."""
    waiting = [rest(value, "self") if isinstance(value, dict) else value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str) and part.startswith(_MARKS):
            return True
        if isinstance(part, dict) and part.get("_type") == "CustomWeaveType":
            return True
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return False


WEAVE = Format("weave", "calls of Weave", 12, holds_any(_calls), _read_runs)
