"""The files of a batch API: requests in one, replies in others, joined by `custom_id` (OpenAI, Anthropic).

The replies alone do not say what was asked: the file of requests is given beside them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.dialects.lenient import obj, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import runs, tables
from pytest_agentreplay.interchange.logs.pairs import Pair, call
from pytest_agentreplay.interchange.logs.runs import LogRow
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import Json, JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

_LOSSES = ("no tool has a record of its own", "neither headers nor times of single calls")


class _Reply(NamedTuple):
    body: Json
    status: int
    error: Json


def _fits(opened: Opened) -> bool:
    rows = tables.rows(opened)[:50]
    return any(string(row.get("custom_id")) and (_asked(row) or _told(row)) for row in rows)


def _read(opened: Opened, beside: Iterable[Opened] = ()) -> list[Trace]:
    files = (opened, *beside)
    rows = [row for file in files for row in tables.rows(file)]
    asked = {string(row.get("custom_id")): body for row in rows if (body := _asked(row))}
    told = {string(row.get("custom_id")): reply for row in rows if (reply := _told(row)) is not None}
    joined = [_row(name, asked[name], reply) for name, reply in told.items() if name in asked]
    if not joined:
        there, lacking = ("requests", "replies (output_file_id)") if asked else ("replies", "requests (input_file_id)")
        raise TraceIncomplete(
            f"holds the {there} of a batch alone: give the file of its {lacking} beside it", file=opened.file
        )
    losses = [*_LOSSES]
    if left := len(told) - len(joined):
        losses.append(f"{left} replies are to requests that are in no file, and left out")
    if left := len(asked) - len(joined):
        losses.append(f"{left} requests have no reply in any file, and are left out")
    return runs.traces(joined, Source(format="batch", file=opened.file, fidelity="body-json"), *losses)


def _asked(row: JsonObject) -> JsonObject:
    """The body of a request; none where the row is a reply."""
    return obj(row.get("body")) or obj(row.get("params"))


def _told(row: JsonObject) -> _Reply | None:
    """What came back, as OpenAI tells it under "response" and "error", and Anthropic under "result"."""
    if "response" in row or ("error" in row and not _asked(row)):
        found = obj(row.get("response"))
        status = found.get("status_code")
        return _Reply(found.get("body"), status if isinstance(status, int) else 0, row.get("error"))
    result = obj(row.get("result"))
    if not string(result.get("type")):
        return None
    error = obj(result.get("error"))
    failed = result.get("type") != "succeeded"
    return _Reply(result.get("message"), 0, (obj(error.get("error")) or error or result) if failed else None)


def _row(name: str, asked: JsonObject, told: _Reply) -> LogRow:
    found = Pair({}, "", asked, told.body or None, told.status, told.error)
    return LogRow(step=call(found, started=moment(obj(told.body).get("created")), id=name), run=name)


FORMATS = (Format("batch", "files of a batch API (OpenAI, Anthropic)", 23.9, _fits, _read, together="batch"),)
