"""Requests and replies as they were logged, sessions of agents, results of evaluations; one module per format."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.interchange.formats import Format

FORMATS: tuple[Format, ...] = ()
"""The formats of this room, by rank."""
