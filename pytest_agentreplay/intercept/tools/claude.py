"""Tools of the Claude Agent SDK that run in this process: what the handler of an `SdkMcpTool` does when it is called.

The model's program asks for them over its lines; the SDK then calls the handler. It is a field, set in tools that are
older than the test too, so a property is laid over it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.tools import framework

if TYPE_CHECKING:
    from types import ModuleType

FIELD = "handler"


def patch(library: ModuleType) -> None:
    """Lay a property over the field. Doing it twice does nothing."""
    tools = getattr(library, "SdkMcpTool", None)
    if FIELD in getattr(tools, "__dataclass_fields__", {}):
        setattr(tools, FIELD, _seam())


def _seam() -> property:
    current = interceptions.current

    def give(tool: Any) -> Any:
        if FIELD not in vars(tool):
            raise AttributeError(FIELD)
        real = vars(tool)[FIELD]
        interception = current()
        if interception is None:
            return real

        async def met(arguments: Any) -> Any:
            __tracebackhide__ = True
            told = framework.FrameworkTool(tool.name, real)
            given = arguments if isinstance(arguments, dict) else {"input": arguments}
            return await framework.wait(interception, told, given, functools.partial(real, arguments))

        return met

    def take(tool: Any, real: Any) -> None:
        vars(tool)[FIELD] = real

    return property(give, take)
