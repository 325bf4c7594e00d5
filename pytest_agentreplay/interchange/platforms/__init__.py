"""What platforms export: one module a format."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.interchange.formats import Format

FORMATS: tuple[Format, ...] = ()
