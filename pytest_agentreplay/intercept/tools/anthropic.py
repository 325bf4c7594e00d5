"""The tool runner of the anthropic SDK: the function inside a tool, behind the check of what the model wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.tools import framework

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception

FIELD = "_func_with_validate"


def patch(library: ModuleType) -> None:
    """Wrap the two classes of tools made of functions. Doing it twice does nothing."""
    for name in ("BetaFunctionTool", "BetaAsyncFunctionTool"):
        if name in vars(library):
            framework.wrap(vars(library)[name], "call", _call)


def _call(interception: Interception, original: Any, tool: Any, arguments: Any) -> Any:
    __tracebackhide__ = True
    work = getattr(tool, FIELD, None)
    if work is None:
        return original(tool, arguments)
    intercepted = framework.intercept_tool(interception, framework.FrameworkTool(tool.name, tool.func), work)
    return original(framework.copy_tool(tool, **{FIELD: intercepted}), arguments)
