"""Tools stay met after their test for as long as something that it started may still call them, and is refused.

Given back at once, a tool would run for real in the thread, executor job or task that outlives its test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.boundaries.crossing import Crossing
    from pytest_agentreplay.boundaries.tool import Redirection

_waiting: dict[Crossing, list[Redirection]] = {}


def release(crossing: Crossing, tools: list[Redirection]) -> None:
    """Take the tools of a test off, now or when nothing of it is left; that is asked again whenever a test ends."""
    _waiting[crossing] = tools
    for ended in [*_waiting]:
        if not ended.straggling():
            for tool in reversed(_waiting.pop(ended)):
                tool.restore()
