"""Automatic function calling of google-genai: the user's function, where the SDK calls it with a model's arguments.

Both functions that do it are private; where a version lacks them nothing is wrapped. They convert the arguments before,
and make an error of what is raised after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.tools import framework

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception


def patch(library: ModuleType) -> None:
    """Wrap the two functions that call a user's. Doing it twice does nothing."""
    framework.wrap(library, "invoke_function_from_dict_args", _invoke)
    framework.wrap(library, "invoke_function_from_dict_args_async", _invoke)


def _invoke(interception: Interception, original: Any, args: Any, function: Callable[..., Any]) -> Any:
    __tracebackhide__ = True
    return original(
        args, framework.intercept_tool(interception, framework.FrameworkTool(function.__name__, function), function)
    )
