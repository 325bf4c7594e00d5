"""Requests and replies as they were logged, sessions of agents, results of evaluations; one module per format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.interchange.logs import bedrock, har, helicone, items, pairs, promptlayer, vcr, vertex

if TYPE_CHECKING:
    from pytest_agentreplay.interchange.formats import Format

FORMATS: tuple[Format, ...] = (
    *(*helicone.FORMATS, *promptlayer.FORMATS, *bedrock.FORMATS, *vertex.FORMATS, *har.FORMATS, *vcr.FORMATS),
    *(*pairs.FORMATS, *items.FORMATS),
)
"""The formats of this room, by rank."""
