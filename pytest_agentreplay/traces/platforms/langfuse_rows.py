"""The traces in a file of Langfuse, with their observations, however they were got; and how their values are written.

The page's download has `{trace, observations}`, the API a trace with its observations in it, or observations alone; the
old ingestion has events that make and change them; the export to a bucket has rows with names in snake case, the traces
in one file and the observations in another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.providers.genai import parsed
from pytest_agentreplay.providers.lenient import arr, merge_later, obj, objects, string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json, JsonObject

_TYPES = frozenset(
    ["GENERATION", "SPAN", "EVENT", "TOOL", "AGENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"]
)
_IN_BUCKETS = (
    {"project_id", "trace_id", "parent_observation_id"},
    {"project_id", "timestamp", "user_id", "session_id", "bookmarked"},
)
_HOLDERS = ("trace", "batch", "data", "body")
_EVENTS = ("-create", "-update")


def fits(rows: Iterable[Json]) -> bool:
    """Return whether the rows hold observations, or a trace that names its own."""
    traces, observations = read(rows)
    return bool(observations) or any(isinstance(one.get("observations"), list) for one in traces.values())


def read(rows: Iterable[Json]) -> tuple[dict[str, JsonObject], dict[str, JsonObject]]:
    """Return traces and observations by their ids."""
    traces: dict[str, JsonObject] = {}
    observations: dict[str, JsonObject] = {}
    waiting = [*rows][::-1]
    while waiting:
        row = waiting.pop()
        told = _camel(obj(row))
        if isinstance(row, list):
            waiting += row[::-1]
        elif _is_observation(told):
            known = string(told["id"])
            observations[known] = merge_later(observations.get(known, {}), told)
        elif string(told.get("type")).endswith(_EVENTS) and isinstance(told.get("body"), dict):
            _keep_event(told, traces, observations)
        elif isinstance(told.get("observations"), list):
            trace = obj(told.get("trace")) or told
            traces.setdefault(string(trace.get("id")), trace)
            waiting += arr(told["observations"])[::-1]
        else:
            waiting += [told[name] for name in _HOLDERS if isinstance(told.get(name), list | dict)]
    return traces, observations


def _camel(row: JsonObject) -> JsonObject:
    """A row of the export to a bucket under the API's names; any other as it is."""
    if not any(marks <= row.keys() for marks in _IN_BUCKETS):
        return row
    named = {re.sub("_([a-z])", lambda match: match[1].upper(), name): value for name, value in row.items()}
    model = row.get("provided_model_name")
    return {"model": model, **named} if "trace_id" in row else {"observations": [], **named}


def _is_observation(told: JsonObject) -> bool:
    named = string(told.get("type")) in _TYPES and string(told.get("id")) != ""
    return named and ("traceId" in told or "startTime" in told)


def _keep_event(event: JsonObject, traces: dict[str, JsonObject], observations: dict[str, JsonObject]) -> None:
    """Keep what an event of the old ingestion says of a trace or an observation."""
    kind, body = string(event["type"]).rpartition("-")[0], obj(event["body"])
    known = string(body.get("id"))
    if kind == "trace":
        traces[known] = merge_later(traces.get(known, {}), {**body, "observations": []})
    elif kind.upper() in _TYPES or kind == "observation":
        named = body if kind == "observation" else {**body, "type": kind.upper()}
        observations[known] = merge_later(observations.get(known, {}), named)


def plain(observations: Iterable[JsonObject]) -> bool:
    """Return whether values are in the file as JSON, and not as JSON texts: then a text is only a text."""
    return any(isinstance(one.get(name), dict | list) for one in observations for name in ("input", "output"))


def decoded(told: JsonObject) -> JsonObject:
    """Return an observation with its input and output parsed from their JSON texts."""
    return told | {name: _value(told.get(name)) for name in ("input", "output")}


def decoded_twice(trace: JsonObject) -> JsonObject:
    """Return the same of a trace, whose values the page's download has as the JSON text of a JSON text."""
    once = decoded(trace)
    texts = {name: once[name] for name in ("input", "output") if once[name] is not trace.get(name)}
    return once | {name: _value(text) for name, text in texts.items() if string(text).startswith(("{", "["))}


def _value(held: Json) -> Json:
    """A JSON text of an object, a list or a text as what it says, once; all else as it is."""
    return parsed(held) if string(held).startswith(("{", "[", '"')) else held


def table(told: JsonObject, name: str) -> JsonObject:
    """A field that is always an object (metadata, parameters), written as one or as its text."""
    held = told.get(name)
    for _ in range(2):
        tree = parse(held) if isinstance(held, str) else held
        if isinstance(tree, NotJson):
            return {}
        held = tree
    return obj(held)


def scores(trace: JsonObject) -> JsonObject:
    """What people and judges said of the run, by name."""
    return {
        string(one.get("name")): one.get("stringValue") if one.get("value") is None else one.get("value")
        for one in objects(trace.get("scores"))
        if string(one.get("name"))
    }
