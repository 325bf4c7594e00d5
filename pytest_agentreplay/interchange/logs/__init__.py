"""Requests and replies as they were logged, sessions of agents, results of evaluations; one module per format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.interchange.logs import (
    batches,
    bedrock,
    blueprints,
    claude_code,
    codex,
    copilot,
    har,
    helicone,
    inspect_logs,
    items,
    pairs,
    promptlayer,
    replaykit,
    vcr,
    vertex,
    waza,
)

if TYPE_CHECKING:
    from pytest_agentreplay.interchange.formats import Format

FORMATS: tuple[Format, ...] = (
    *(*helicone.FORMATS, *promptlayer.FORMATS, *blueprints.FORMATS, *bedrock.FORMATS, *vertex.FORMATS),
    *(*har.FORMATS, *vcr.FORMATS),
    *(*inspect_logs.FORMATS, *waza.FORMATS, *claude_code.FORMATS, *codex.FORMATS, *copilot.FORMATS, *replaykit.FORMATS),
    *(*batches.FORMATS, *pairs.FORMATS, *items.FORMATS),
)
"""The formats of this package."""
