"""Tools of LlamaIndex: the function inside a `FunctionTool`, called or awaited."""

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
    """Wrap the class of tools made of functions. Doing it twice does nothing."""
    framework.wrap(library.FunctionTool, "call", functools.partial(_call, "_fn"))
    framework.wrap(library.FunctionTool, "acall", functools.partial(_call, "_async_fn"))


def _call(field: str, interception: Interception, original: Any, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run the tool with its function, which it holds as `field`, intercepted."""
    __tracebackhide__ = True
    if _is_live(interception, tool):
        return original(tool, *args, **kwargs)
    framework_tool = framework.FrameworkTool(tool.metadata.get_name(), _function(tool), codecs(), holder=tool)
    name_arguments = functools.partial(_arguments, tool)
    work = framework.intercept_tool(interception, framework_tool, getattr(tool, field), name_arguments)
    return original(framework.copy_tool(tool, **{field: work}), *args, **kwargs)


def _function(tool: Any) -> Any:
    """The user's function, which the tool may hold inside one of its own that makes it awaitable, or plain."""
    return getattr(tool, "_real_fn", None) or tool._fn


def _arguments(tool: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments without the context of the workflow."""
    hidden = {tool.ctx_param_name} if getattr(tool, "ctx_param_name", None) else set()
    visible = {name: value for name, value in kwargs.items() if name not in hidden}
    return framework.name_arguments(_function(tool), args, visible, hidden)


def _is_live(interception: Interception, tool: Any) -> bool:
    """Whether the framework's own function goes on elsewhere: to another agent, or to an MCP server."""
    interception.tools.seen.add(tool.metadata.get_name())
    function = _function(tool)
    return framework.is_from(function, ("llama_index.core.agent.", *framework.MCP_ADAPTERS))


@functools.cache
def codecs() -> tuple[Codec, ...]:
    """Those of what a tool may return to say more than a value: blocks of content, nodes with scores, an output."""
    classes: list[Any] = []
    for name, ends in (
        ("llama_index.core.base.llms.types", ("Block", "ChatMessage")),
        ("llama_index.core.schema", ("Node", "NodeWithScore", "Document", "RelatedNodeInfo", "MediaResource")),
        ("llama_index.core.tools.types", ("ToolOutput",)),
    ):
        library = sys.modules.get(name)
        classes += [getattr(library, each) for each in vars(library or object) if each.endswith(ends)]
    return framework.field_codecs(classes)
