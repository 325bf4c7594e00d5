"""Tools of crewai: the function or the `_run` inside a tool, whichever of its ways a crew runs it by.

A crew binds `tool.run` when it is set up, so the methods of the classes are wrapped. Counting and limiting the uses of
a tool, caching, events and the handling of errors are the crew's own, and run in a replay too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.tools import framework

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception

_COUNTING = ("_claim_usage", "_increment_usage_count")
"""Methods that write down a use; on the tool itself, not on what runs in its stead."""

_LIVE = ("crewai.tools.agent_tools.base_agent_tools", "crewai.tools.agent_tools.deferred_tool_result_reader")
"""Modules of tools that ask another agent of the crew, which crosses by itself, or read what has crossed."""


def patch(library: ModuleType) -> None:
    """Wrap the ways to run a tool of the classes that `library` has. Doing it twice does nothing."""
    for kind in ("BaseTool", "Tool"):
        if kind in vars(library):
            framework.wrap(vars(library)[kind], "run", _run)
            framework.wrap(vars(library)[kind], "arun", _run)
    if "CrewStructuredTool" in vars(library):
        framework.wrap(library.CrewStructuredTool, "invoke", _run)
        framework.wrap(library.CrewStructuredTool, "ainvoke", _run)


def _run(interception: Interception, original: Any, tool: Any, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    interception.tools.seen.add(_sanitize_name(tool.name))
    kind = type(_find_original_tool(tool))
    if any(base.__module__ in _LIVE for base in kind.__mro__) or framework.is_from(kind, framework.MCP_ADAPTERS):
        return original(tool, *args, **kwargs)
    fields = ("func",) if hasattr(tool, "func") else ("_run", "_arun")
    intercepted = {field: _intercept_work(interception, tool, getattr(tool, field)) for field in fields}
    counting = {name: getattr(tool, name) for name in _COUNTING if hasattr(tool, name)}
    return original(framework.copy_tool(tool, **intercepted, **counting), *args, **kwargs)


def _find_original_tool(tool: Any) -> Any:
    """Return the tool that a structured one was made of."""
    return getattr(tool, "_original_tool", None) or tool


def _intercept_work(interception: Interception, tool: Any, work: Callable[..., Any]) -> Callable[..., Any]:
    return framework.intercept_tool(
        interception, framework.FrameworkTool(_sanitize_name(tool.name), work, holder=_find_original_tool(tool)), work
    )


def _sanitize_name(name: str) -> str:
    """Return the name that the model sees."""
    strings = sys.modules.get("crewai.utilities.string_utils")
    sanitized = getattr(strings, "sanitize_tool_name", str)
    return str(sanitized(name))
