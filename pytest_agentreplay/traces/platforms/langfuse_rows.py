"""The traces in a file of Langfuse, with their observations, however they were got; and how their values are written.

The page's download has `{trace, observations}`, the API a trace with its observations in it, or observations alone; the
old ingestion has events that make and change them; the export to a bucket has rows with names in snake case, the traces
in one file and the observations in another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.providers.lenient import arr, merge_later, obj, objects, parse_text, string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

# Fields: fern/apis/server/definition/{trace,observations,commons}.yml of github.com/langfuse/langfuse.
_TYPES = frozenset(
    ["GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"]
)
_IN_BUCKETS = (
    {"project_id", "trace_id", "parent_observation_id"},
    {"project_id", "timestamp", "user_id", "session_id", "bookmarked"},
)
_HOLDERS = ("trace", "batch", "data", "body")
_EVENTS = ("-create", "-update")


def holds_observations(rows: Iterable[Json]) -> bool:
    """Return whether the rows hold observations, or a trace that names its own."""
    traces, observations = read_rows(rows)
    return bool(observations) or any(isinstance(trace.get("observations"), list) for trace in traces.values())


def read_rows(rows: Iterable[Json]) -> tuple[dict[str, JsonObject], dict[str, JsonObject]]:
    """Return traces and observations by their ids."""
    traces: dict[str, JsonObject] = {}
    observations: dict[str, JsonObject] = {}
    waiting = [*rows][::-1]
    while waiting:
        row = waiting.pop()
        fields = _camel(obj(row))
        if isinstance(row, list):
            waiting += row[::-1]
        elif _is_observation(fields):
            observation_id = string(fields["id"])
            observations[observation_id] = merge_later(observations.get(observation_id, {}), fields)
        elif string(fields.get("type")).endswith(_EVENTS) and isinstance(fields.get("body"), dict):
            _keep_event(fields, traces, observations)
        elif isinstance(fields.get("observations"), list):
            trace = obj(fields.get("trace")) or fields
            traces.setdefault(string(trace.get("id")), trace)
            waiting += arr(fields["observations"])[::-1]
        else:
            waiting += [fields[name] for name in _HOLDERS if isinstance(fields.get(name), list | dict)]
    return traces, observations


def _camel(row: JsonObject) -> JsonObject:
    """A row of the export to a bucket under the API's names; any other as it is."""
    if not any(marks <= row.keys() for marks in _IN_BUCKETS):
        return row
    renamed = {re.sub("_([a-z])", lambda match: match[1].upper(), name): value for name, value in row.items()}
    model = row.get("provided_model_name")
    return {"model": model, **renamed} if "trace_id" in row else {"observations": [], **renamed}


def _is_observation(row: JsonObject) -> bool:
    is_typed = string(row.get("type")) in _TYPES and string(row.get("id")) != ""
    return is_typed and ("traceId" in row or "startTime" in row)


def _keep_event(event: JsonObject, traces: dict[str, JsonObject], observations: dict[str, JsonObject]) -> None:
    """Keep what an event of the old ingestion says of a trace or an observation."""
    kind, body = string(event["type"]).rpartition("-")[0], obj(event["body"])
    event_id = string(body.get("id"))
    if kind == "trace":
        traces[event_id] = merge_later(traces.get(event_id, {}), {**body, "observations": []})
    elif kind.upper() in _TYPES or kind == "observation":
        observation = body if kind == "observation" else {**body, "type": kind.upper()}
        observations[event_id] = merge_later(observations.get(event_id, {}), observation)


def are_decoded(observations: Iterable[JsonObject]) -> bool:
    """Return whether values are in the file as JSON, and not as JSON texts: then a text is only a text."""
    return any(
        isinstance(observation.get(name), dict | list) for observation in observations for name in ("input", "output")
    )


def decode_sides(row: JsonObject) -> JsonObject:
    """Return an observation with its input and output parsed from their JSON texts."""
    return row | {name: _value(row.get(name)) for name in ("input", "output")}


def decode_sides_twice(trace: JsonObject) -> JsonObject:
    """Return the same of a trace, whose values the page's download has as the JSON text of a JSON text."""
    once = decode_sides(trace)
    texts = {name: once[name] for name in ("input", "output") if once[name] is not trace.get(name)}
    return once | {name: _value(text) for name, text in texts.items() if string(text).startswith(("{", "["))}


def _value(value: Json) -> Json:
    """A JSON text of an object, a list or a text as what it says, once; all else as it is."""
    return parse_text(value) if string(value).startswith(("{", "[", '"')) else value


def table(row: JsonObject, name: str) -> JsonObject:
    """A field that is always an object (metadata, parameters), written as one or as its text."""
    value = row.get(name)
    for _ in range(2):
        tree = parse(value) if isinstance(value, str) else value
        if isinstance(tree, NotJson):
            return {}
        value = tree
    return obj(value)


def scores(trace: JsonObject) -> JsonObject:
    """What people and judges said of the run, by name."""
    return {
        string(score.get("name")): score.get("stringValue") if score.get("value") is None else score.get("value")
        for score in objects(trace.get("scores"))
        if string(score.get("name"))
    }
