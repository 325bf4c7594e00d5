"""Tools of pydantic-ai: what the toolset that holds a tool does when it is called.

Intercepted at the innermost toolset, below those that rename, filter or watch: they are the agent's, and run in a
replay too. So do output tools, which are no tools to the world, and the handling of `ModelRetry`, which is what comes
out here.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.tools import framework

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.values import Codec


def patch(library: ModuleType) -> None:
    """Wrap the toolset of functions, and those of users when the one around all of them calls one."""
    if "FunctionToolset" in vars(library):
        framework.wrap(library.FunctionToolset, "call_tool", _call)
    if "CombinedToolset" in vars(library):
        framework.wrap(library.CombinedToolset, "call_tool", _dispatch)
        framework.wrap(library.CombinedToolset, "get_tools", _offer)


async def _offer(interception: Interception, original: Any, toolset: Any, *args: Any, **kwargs: Any) -> Any:
    """What the model is offered: output tools too, and those whose arguments it may get wrong, so that none runs."""
    tools = await original(toolset, *args, **kwargs)
    interception.tools.seen.update(name for name, tool in tools.items() if tool.tool_def.kind != "external")
    return tools


def _dispatch(  # noqa: PLR0917  as the seam
    _: Interception, original: Any, toolset: Any, name: str, tool_args: Any, ctx: Any, tool: Any
) -> Any:
    at = getattr(tool, "source_toolset", None)
    while inner := getattr(at, "wrapped", None) or getattr(at, "_toolset", None):
        at = inner
    # pydantic-ai's own others only pass on, or hand over to an MCP server.
    if at is not None and not any(base.__module__.startswith("pydantic_ai.") for base in _overriding(at)):
        framework.wrap(type(at), "call_tool", _call)
    return original(toolset, name, tool_args, ctx, tool)


def _overriding(toolset: Any) -> list[type]:
    """The classes whose `call_tool` may run, but for the one that runs functions and the one that is abstract."""
    bases = [base for base in type(toolset).__mro__ if "call_tool" in vars(base)]
    return [base for base in bases if base.__name__ not in {"FunctionToolset", "AbstractToolset"}]


async def _call(  # noqa: PLR0917  as the seam
    interception: Interception, original: Any, toolset: Any, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any
) -> Any:
    __tracebackhide__ = True
    function = _function(toolset, name, tool)
    shown_name = getattr(ctx, "tool_name", None) or name
    key = (shown_name, getattr(ctx, "tool_call_id", None), id(toolset))
    run = functools.partial(original, toolset, name, tool_args, ctx, tool)
    framework_tool = framework.FrameworkTool(shown_name, function or original, codecs(), key, holder=toolset)
    arguments = tool_args if function is None else framework.name_arguments(function, (), tool_args)
    return await framework.wait(interception, framework_tool, arguments, run)


def _function(toolset: Any, name: str, tool: Any) -> Any:
    """The user's function behind a tool; None of a toolset of a user's own, which may have none."""
    functions = getattr(toolset, "tools", None)
    entry = functions.get(getattr(tool, "original_name", None) or name) if isinstance(functions, dict) else None
    return getattr(entry, "function", None)


@functools.cache
def codecs() -> tuple[Codec, ...]:
    """Those of what a tool may return to say more than a value: files, addresses of files, a return with metadata."""
    library = sys.modules["pydantic_ai.messages"]
    ends = ("Url", "Content", "Image", "File", "ToolReturn")
    return framework.field_codecs(
        getattr(library, name) for name in vars(library) if name.endswith(ends) and name[0] != "_"
    )
