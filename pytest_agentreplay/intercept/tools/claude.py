"""Tools of the Claude Agent SDK that run in this process: what the handler of an `SdkMcpTool` does when it is called.

The model's program asks for them over its lines; the SDK then calls the handler. It is a field, set in tools that are
older than the test too, so a property is laid over it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.tools import framework

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception

FIELD = "handler"


def patch(library: ModuleType) -> None:
    """Lay a property over the field. Doing it twice does nothing."""
    framework.wrap_field(getattr(library, "SdkMcpTool", None), FIELD, _make_handler)


def _make_handler(interception: Interception, tool: Any, real: Any) -> Any:
    async def handle(arguments: Any) -> Any:
        __tracebackhide__ = True
        framework_tool = framework.FrameworkTool(tool.name, real)
        named_arguments = arguments if isinstance(arguments, dict) else {"input": arguments}
        return await framework.wait(interception, framework_tool, named_arguments, functools.partial(real, arguments))

    return handle
