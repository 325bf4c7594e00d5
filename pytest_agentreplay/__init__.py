"""Frozen agent-run regression tests: record every model and tool call, replay offline, name the first divergent turn."""

from __future__ import annotations

__all__: list[str] = []
