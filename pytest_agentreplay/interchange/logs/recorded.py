"""HTTP as somebody recorded it: which of it a model was asked, and whether the bytes are still those of the wire."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pytest_agentreplay.core.content_coding import is_coded
from pytest_agentreplay.core.matching.address import decoded, header, split
from pytest_agentreplay.core.model import HttpReply
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.interchange import wire
from pytest_agentreplay.interchange.logs.runs import LogRow
from pytest_agentreplay.interchange.trace import UNKNOWN, ModelCall, ToolRun, TraceFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.model import Failure, Headers, HttpCall
    from pytest_agentreplay.interchange.trace import Step

_JSON_STARTS = (b"{", b"[", b"data:", b"event:")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCalls:
    """One request and what came back. `exact` says that both bodies are the bytes that were on the wire.

    `unread` says why a body of it cannot be read.
    """

    request: HttpCall
    response: HttpReply | Failure | None
    exact: bool = True
    unread: tuple[str, ...] = ()
    started: int | None = None
    ended: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """What recorded HTTP amounts to: the rows of a run, the sentences on what is left out, and how near it is.

    `missing` are requests to a model that cannot be read, `unread` counts the bodies that cannot.
    """

    rows: tuple[LogRow, ...]
    losses: tuple[str, ...]
    fidelity: Literal["bytes", "body-json"]
    missing: tuple[str, ...] = ()
    unread: int = 0


def heard(recorded: Iterable[RecordedCalls]) -> RecordedReply:
    """The calls of models, and of tools over MCP; everything else is counted."""
    rows: list[LogRow] = []
    others: Counter[str] = Counter()
    exact, packed = True, 0
    unread: Counter[str] = Counter()
    missing: list[str] = []
    for one in recorded:
        kind = READER.read_call(one.request).kind
        unread.update(one.unread)
        if one.unread and kind == "http" and one.request.method == "POST":
            missing.append(f"the request to {split(one.request.url).host}")
        if kind not in wire.MODEL_KINDS | {"tool"}:
            others[f"{one.request.method} {split(one.request.url).host}"] += kind != "mcp"
            continue
        plain = _plain(one)
        exact &= plain.exact
        readable = _readable(plain.response)
        packed += not readable
        rows.append(LogRow(step=(step := _step(plain, kind))))
        if readable and isinstance(step, ModelCall) and step.response and not (step.reply or step.fault):
            unread["neither JSON nor a stream of events"] += 1
    losses = [f"{packed} replies are packed in a way that is not read: they are kept, not understood"] if packed else []
    losses += [f"bodies that cannot be read, because they are {why}: {number}" for why, number in unread.items()]
    if said := ", ".join(f"{number} x {where}" for where, number in others.items() if number):
        losses.append(f"other HTTP is left out: {said}")
    return RecordedReply(
        tuple(rows), tuple(losses), "bytes" if exact else "body-json", tuple(missing), packed + unread.total()
    )


def _step(one: RecordedCalls, kind: str) -> Step:
    if kind in wire.MODEL_KINDS:
        return wire.model_call(one.request, one.response, started=one.started, ended=one.ended)
    asked, told = READER.read_call(one.request), READER.read_reply(one.request, one.response)
    return ToolRun(
        name=asked.name,
        arguments=asked.parameters,
        result=UNKNOWN if one.response is None or (told.error and told.result is None) else told.result,
        fault=TraceFault(message=told.error) if told.error else None,
        started=one.started,
        ended=one.ended,
    )


def _plain(one: RecordedCalls) -> RecordedCalls:
    """The same with headers that are true of the bodies: recorders unpack a body and leave its headers alone."""
    request_headers, asked = _true_of(one.request.headers, one.request.body.data)
    request = replace(one.request, headers=request_headers)
    if not isinstance(one.response, HttpReply):
        return replace(one, request=request, exact=one.exact and asked)
    headers, told = _true_of(one.response.headers, one.response.body.data)
    if not headers:  # a hook took them all; a client needs to know what it is given
        headers = _typed(one.response.body.data)
        told = told and not headers
    return replace(
        one, request=request, response=replace(one.response, headers=headers), exact=one.exact and asked and told
    )


def _true_of(headers: Headers, data: bytes) -> tuple[Headers, bool]:
    """The headers without what the body contradicts, and whether it contradicted nothing."""
    coding, length = header(headers, "content-encoding"), header(headers, "content-length")
    false: set[str] = set()
    if is_coded(coding) and not _coded(data, coding):
        false |= {"content-encoding", "content-length"}
    if length.isdecimal() and len(length) < 16 and int(length) != len(data):
        false.add("content-length")
    return tuple((name, value) for name, value in headers if name.lower() not in false), not false


def _typed(data: bytes) -> Headers:
    start = data.lstrip()
    if start.startswith((b"data:", b"event:")):
        return (("content-type", "text/event-stream"),)
    return (("content-type", "application/json"),) if start.startswith((b"{", b"[")) else ()


def _coded(data: bytes, coding: str) -> bool:
    if "gzip" in coding.lower():
        return data.startswith(_GZIP)
    return not data.lstrip().startswith(_JSON_STARTS)


def _readable(response: HttpReply | Failure | None) -> bool:
    if not isinstance(response, HttpReply):
        return True
    return decoded(response.body.data, header(response.headers, "content-encoding"))[1]
