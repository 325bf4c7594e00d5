"""Vertex's request-response log: rows of a BigQuery table, whose JSON columns come as text when they are exported.

Calls of tools have no ids there: results are joined by name and order. Where only a sample of the requests is logged,
turns are missing in the middle.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import arr, obj, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import runs, tables
from pytest_agentreplay.interchange.logs.pairs import Pair, call, known
from pytest_agentreplay.interchange.logs.runs import LogRow
from pytest_agentreplay.interchange.moments import after, moment
from pytest_agentreplay.interchange.trace import Source

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

_HOST = "https://aiplatform.googleapis.com/v1/"
_MODEL = re.compile(r"[\w./@:-]{1,300}")


def _fits(opened: Opened) -> bool:
    return tables.any_with(opened, "logging_time", "api_method", "model")


def _read(opened: Opened) -> list[Trace]:
    rows = tables.rows(opened)
    whole = [row for row in rows if _request(row)]
    if not whole:
        msg = "holds no full_request: set request_response_logging with a BigQuery table of schema v2"
        raise TraceIncomplete(msg, file=opened.file)
    losses = ["calls of tools have no ids: results are joined by name and order"]
    losses.append("rows over 10 MB and those that sampling_rate leaves out are not in the table")
    if left := len(rows) - len(whole) + opened.junk:
        losses.append(f"{left} rows have no request and are left out")
    source = Source(format="vertex-request-response", file=opened.file, fidelity="body-json")
    return runs.traces(map(_row, whole), source, *losses)


def _request(row: JsonObject) -> JsonObject:
    return obj(genai.parsed(row.get("full_request"))) or _payload(row.get("request_payload"))


def _payload(value: Json) -> JsonObject:
    """The older columns: a list of texts that hold JSON."""
    return obj(genai.parsed(next(iter(arr(value)), None)))


def _row(row: JsonObject) -> LogRow:
    request = _request(row)
    reply = genai.parsed(row.get("full_response")) or _payload(row.get("response_payload"))
    labels = obj(request.get("labels"))
    started = moment(row.get("logging_time"))
    metadata = obj(genai.parsed(row.get("metadata")))
    model, method = string(row.get("model")), string(row.get("api_method")) or "generateContent"
    path = model if _MODEL.fullmatch(model) else "publishers/google/models/unknown"
    found = Pair(row, "", request, reply or None, 0, None)
    return LogRow(
        step=call(
            found,
            f"{_HOST}{path.lstrip('/')}:{method if method.isalnum() else 'generateContent'}",
            started=started,
            ended=after(started, metadata.get("request_latency")),
            id=known(row, "request_id"),
        ),
        user=known(labels, "user", "user_id"),
        session=known(labels, "session", "session_id", "conversation"),
        tenant=known(labels, "tenant"),
        metadata=labels,
    )


FORMATS = (Format("vertex-request-response", "request-response log of Vertex AI", 18, _fits, _read),)
