"""Tools of smolagents: what `Tool.__call__` calls to do the work, `forward`, and the set-up before it.

Agents that write JSON and agents that write code both call the tool itself. What ends a run is a tool by name only.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.tools import framework
from pytest_agentreplay.values.hints import dotted_name

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception

_INTERNAL = frozenset({"is_initialized"})
"""Attributes that `Tool.__init__` sets and the class does not declare (smolagents 1.26, src/smolagents/tools.py)."""

_LIVE = ("smolagents.default_tools.FinalAnswerTool",)


def patch(library: ModuleType) -> None:
    """Wrap the class that all tools derive from, and that of agents. Doing it twice does nothing."""
    if "Tool" in vars(library):
        framework.wrap(library.Tool, "__call__", _call)
    if "MultiStepAgent" in vars(library):
        framework.wrap(library.MultiStepAgent, "__call__", _manage)


def _call(interception: Interception, original: Any, tool: Any, *args: Any, **kwargs: Any) -> Any:
    __tracebackhide__ = True
    work = tool.forward
    if _is_live(interception, tool):
        return original(tool, *args, **kwargs)

    @functools.wraps(work)
    def set_up(*args: Any, **kwargs: Any) -> Any:
        if not tool.is_initialized:
            tool.setup()
        return work(*args, **kwargs)

    def name_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        # Not by the signature of `forward`: that of a decorated function has a `self` for show.
        return dict(zip(tool.inputs, args, strict=False)) | kwargs

    intercepted = framework.FrameworkTool(tool.name, work, holder=tool, internal=_INTERNAL)
    forward = framework.intercept_tool(interception, intercepted, set_up, name_arguments)
    return original(framework.copy_tool(tool, forward=forward, is_initialized=True), *args, **kwargs)


def _manage(interception: Interception, original: Any, agent: Any, *args: Any, **kwargs: Any) -> Any:
    """An agent that another one calls as it calls tools: its model and its tools cross by themselves."""
    interception.tools.seen.add(agent.name)
    return original(agent, *args, **kwargs)


def _is_live(interception: Interception, tool: Any) -> bool:
    """Whether a tool does nothing, or hands over to an MCP server."""
    interception.tools.seen.add(tool.name)
    kind = type(tool)
    return framework.is_from(kind, framework.MCP_ADAPTERS) or any(dotted_name(base) in _LIVE for base in kind.__mro__)
