"""Span trees, whatever instrumentation wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.interchange.formats import Format

FORMATS: tuple[Format, ...] = ()
