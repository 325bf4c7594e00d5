"""What PromptLayer's SDK sends: the arguments of a call and its whole reply. The body's own key ends here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import obj, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import runs, tables
from pytest_agentreplay.interchange.logs.pairs import Pair, call, known
from pytest_agentreplay.interchange.logs.runs import LogRow
from pytest_agentreplay.interchange.moments import moment
from pytest_agentreplay.interchange.trace import Source

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace


def _fits(opened: Opened) -> bool:
    return tables.any_with(opened, "function_name", "provider_type", "kwargs", "request_response")


def _read(opened: Opened) -> list[Trace]:
    rows = tables.rows(opened)
    whole = [row for row in rows if isinstance(genai.parsed(row.get("kwargs")), dict)]
    if not whole:
        raise TraceIncomplete("holds no arguments of calls: log them with kwargs", file=opened.file)
    losses = ["no tool has a record of its own", "neither headers nor the bytes of the wire"]
    if left := len(rows) - len(whole) + opened.junk:
        losses.append(f"{left} rows are no calls of a model and left out")
    source = Source(format="promptlayer", file=opened.file, fidelity="body-json")
    return runs.traces(map(_row, whole), source, *losses)


def _row(row: JsonObject) -> LogRow:
    metadata = obj(row.get("metadata"))
    found = Pair(row, "", obj(genai.parsed(row["kwargs"])), genai.parsed(row.get("request_response")), 0, None)
    return LogRow(
        step=call(
            found,
            started=moment(row.get("request_start_time")),
            ended=moment(row.get("request_end_time")),
            id=string(row.get("span_id")),
        ),
        user=known(metadata, "user_id", "user"),
        session=known(metadata, "session_id", "conversation_id", "thread_id"),
        tenant=known(metadata, "tenant"),
        tags=tables.texts(row.get("tags")),
        metadata=metadata,
    )


FORMATS = (Format("promptlayer", "requests as PromptLayer's SDK sends them", 15, _fits, _read),)
