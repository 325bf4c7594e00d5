"""Type-checked, never run: what is raw in a captured run cannot be stored before it is redacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.model.exchanges import Exchange, Header, ToolReply

if TYPE_CHECKING:
    from pytest_agentreplay.backends.backend import Moment, RecordBackend
    from pytest_agentreplay.model.exchanges import RawCall, RawOutcome, ToolCall
    from pytest_agentreplay.runs.capture.ended_capture import EndedCapture


def an_exchange_takes_nothing_raw(ended: EndedCapture, raw: RawCall, outcome: RawOutcome, call: ToolCall) -> None:
    """mypy says so itself where one of these is no error any more: an ignore is then unused."""
    Exchange(call, ToolReply(), 1, 2)
    Exchange(raw, None, 1, None)  # type: ignore[arg-type]
    Exchange(call, outcome, 1, 2)  # type: ignore[arg-type]
    Exchange(ended.calls[1], None, 1, None)  # type: ignore[arg-type]
    Exchange(call, ended.outcomes[1], 1, 2)  # type: ignore[arg-type]
    Header("test", kit={"input": ended.input})  # type: ignore[dict-item]


def a_backend_takes_nothing_raw(backend: RecordBackend, raw: RawCall, outcome: RawOutcome, moment: Moment) -> None:
    """Neither does what records."""
    backend.decide(raw, moment)  # type: ignore[arg-type]
    backend.begin(raw, moment)  # type: ignore[arg-type]
    backend.settle(1, outcome, at=0, first=None, suspended=False)  # type: ignore[arg-type]
