"""What platforms export: one module a format. `tree` makes a run of spans, `bodies` a model call of what was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.interchange.platforms.langsmith import LANGSMITH

if TYPE_CHECKING:
    from pytest_agentreplay.interchange.formats import Format

FORMATS: tuple[Format, ...] = (LANGSMITH,)
"""The formats of this room, by rank."""
