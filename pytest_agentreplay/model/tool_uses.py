"""Which recorded function ran for a tool that the model asked for: it may have another name than the tool."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_agentreplay.model.canonical_json import NotJson, canonical, parse

if TYPE_CHECKING:
    from pytest_agentreplay.model.exchanges import Json, ToolCall
    from pytest_agentreplay.model.reading import ToolUse


def arguments_of(use: ToolUse) -> Json:
    """Return what the model asked for, as a value."""
    if not isinstance(use.arguments, str):
        return use.arguments
    value = parse(use.arguments, exact=True)
    return use.arguments if isinstance(value, NotJson) else value


def ran_for(use: ToolUse, call: ToolCall) -> bool:
    """Return whether `call` has the arguments that the model gave, whatever function and parameters are called.

    A registry may hand them on as one value, as a class, as text, or with others that the model does not give.
    """
    given = Counter(scalars(arguments_of(use)))
    if not given:
        return call.arguments.keys() <= call.defaults
    return given <= Counter(scalars(call.arguments)) or use.arguments in call.arguments.values()


def scalars(value: Json) -> list[str]:
    """Return the values in `value` that hold no others, each as comparable text."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [canonical(value)] if inner is None else [scalar for each in inner for scalar in scalars(each)]
