"""Helicone's export: one row a request, with bodies only where they were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.dialects import genai
from pytest_agentreplay.dialects.lenient import obj, string
from pytest_agentreplay.errors import TraceIncomplete
from pytest_agentreplay.interchange.formats import Format
from pytest_agentreplay.interchange.logs import runs, tables
from pytest_agentreplay.interchange.logs.pairs import Pair, call
from pytest_agentreplay.interchange.logs.runs import LogRow
from pytest_agentreplay.interchange.moments import after, moment
from pytest_agentreplay.interchange.trace import Source

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.interchange.formats import Opened
    from pytest_agentreplay.interchange.trace import Trace

_SESSION, _PATH, _NAME = "Helicone-Session-Id", "Helicone-Session-Path", "Helicone-Session-Name"
_HOSTS = {"OPENAI": "api.openai.com", "ANTHROPIC": "api.anthropic.com", "GROQ": "api.groq.com"}


def _fits(opened: Opened) -> bool:
    return tables.any_with(opened, "request_path", "request_id", "request_created_at")


def _read(opened: Opened) -> list[Trace]:
    rows = tables.rows(opened)
    whole = [row for row in rows if isinstance(genai.parsed(row.get("request_body")), dict)]
    if not whole:
        msg = "holds no bodies: export again with --include-body (a signed_body_url is not followed)"
        raise TraceIncomplete(msg, file=opened.file)
    losses = ["no tool has a record of its own", "a stream is kept as the whole that it amounts to"]
    if left := len(rows) - len(whole) + opened.junk:
        losses.append(f"{left} rows have no body and are left out")
    source = Source(format="helicone", file=opened.file, fidelity="body-json")
    return runs.traces(map(_row, whole), source, *losses)


def _row(row: JsonObject) -> LogRow:
    properties = obj(row.get("request_properties"))
    session = string(properties.get(_SESSION))
    started = moment(row.get("request_created_at"))
    status = row.get("response_status")
    request, reply = obj(genai.parsed(row.get("request_body"))), genai.parsed(row.get("response_body"))
    found = Pair(row, "", request, reply or None, status if isinstance(status, int) and status > 0 else 0, None)
    path = string(row.get("request_path"))
    host = _HOSTS.get(string(row.get("provider")).upper(), "")
    url = path if "://" in path else f"https://{host}{path}" if host and path.startswith("/") else ""
    return LogRow(
        step=call(
            found,
            url,
            started=started,
            ended=moment(row.get("response_created_at")) if _later(row) else after(started, row.get("delay_ms")),
            id=string(row.get("request_id")),
        ),
        run=f"{session} {string(properties.get(_PATH))}".strip() if session else "",
        name=string(properties.get(_NAME)),
        user=string(row.get("request_user_id")),
        session=session,
        tenant=string(properties.get("tenant")),
        metadata={name: value for name, value in properties.items() if name not in {_SESSION, _PATH, _NAME, "tenant"}},
    )


def _later(row: JsonObject) -> bool:
    started, ended = moment(row.get("request_created_at")), moment(row.get("response_created_at"))
    return started is not None and ended is not None and ended > started


FORMATS = (Format("helicone", "export of Helicone", 14, _fits, _read),)
