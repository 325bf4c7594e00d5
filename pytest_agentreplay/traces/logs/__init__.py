"""Requests and replies as they were logged, sessions of agents, results of evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.traces.logs import (
    claude_code,
    inspect_logs,
    openai_items,
    pairs,
    provider_logs,
    recorded,
    tool_events,
)

if TYPE_CHECKING:
    from pytest_agentreplay.traces.formats import Format

FORMATS: tuple[Format, ...] = (
    *(*provider_logs.FORMATS, *recorded.FORMATS, *inspect_logs.FORMATS, *tool_events.FORMATS),
    *(*claude_code.FORMATS, *pairs.FORMATS, *openai_items.FORMATS),
)
"""The formats of this package."""
