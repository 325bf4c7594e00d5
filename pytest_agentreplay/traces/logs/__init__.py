"""Requests and replies as they were logged, sessions of agents, results of evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.traces.logs import (
    claude_code,
    codex,
    copilot,
    gateways,
    inspect_logs,
    items,
    pairs,
    provider_logs,
    recorded,
    replaykit,
)

if TYPE_CHECKING:
    from pytest_agentreplay.traces.formats import Format

FORMATS: tuple[Format, ...] = (
    *(*gateways.FORMATS, *provider_logs.FORMATS, *recorded.FORMATS, *inspect_logs.FORMATS, *copilot.FORMATS),
    *(*claude_code.FORMATS, *codex.FORMATS, *replaykit.FORMATS, *pairs.FORMATS, *items.FORMATS),
)
"""The formats of this package."""
