"""The names of a test's tools: short while they are unique, full paths where two share one, as for the ini file.

The fixture is given tools one by one, so the first of two is named before the second is known. When the second comes
both take their full paths, also in what is recorded already; a replay knows the outcome from the recording. The names
therefore do not depend on the order in which tools are given or called.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import ToolCall
from pytest_agentreplay.errors import CannotRedirect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from types import FunctionType

    from pytest_agentreplay.core.model import Exchange, Json
    from pytest_agentreplay.intercept.tools.tool import Redirection


def closed_over(redirection: Redirection) -> Json:
    """Return what the closure of a tool holds, as a receiver is compared; None where it holds nothing."""
    function = redirection.held()
    if not function.__closure__:
        return None
    from pytest_agentreplay.intercept.tools.argument_serializing import ArgumentFreezing
    from pytest_agentreplay.intercept.tools.factories import content

    contents = zip(function.__code__.co_freevars, map(content, function.__closure__), strict=True)
    return ArgumentFreezing({}, SimpleNamespace(**dict(contents)), function, redirection.codecs).receiver


class ToolNames:
    """Names the tools of one test, each kind (tools, models, retrievals) by itself."""

    def __init__(self, recorded: Collection[str] = ()) -> None:
        """`recorded` are the names in the snapshot that is replayed."""
        self._recorded = frozenset(recorded)
        self._tools: dict[tuple[str, str], list[tuple[str, FunctionType, Redirection]]] = {}
        self._renamed: dict[tuple[str, str], str] = {}
        self._closures: dict[tuple[str, str, str], Json] = {}

    def add(self, redirection: Redirection, short: str, path: str = "") -> None:
        """Name a tool that nobody has given a name: `short`, or its import path where another one is called so."""
        function = redirection.held()
        key = redirection.tool.boundary, short
        tools = self._tools.setdefault(key, [])
        path = path or f"{function.__module__}.{function.__qualname__}"
        path = next((tool_path for tool_path, tool_function, _ in tools if tool_function is function), path)
        closure = closed_over(redirection)
        if closure != self._closures.setdefault((*key, path), closure):
            raise CannotRedirect(
                f"{path}: another function of the same factory is a tool of this test already, and nothing but a name "
                'tells the calls of the two apart: give each its own, agentreplay.tool(function, name="refund")'
            )
        tools.append((path, function, redirection))
        shared = len({path for path, _, _ in tools}) > 1
        if shared:
            self._renamed.setdefault(key, tools[0][0])
        if shared or (path in self._recorded and short not in self._recorded):
            for full, _, each in tools:
                each.show_as(full)

    def applied(self, exchanges: Iterable[Exchange]) -> tuple[Exchange, ...]:
        """Return recorded exchanges under the names that their tools have by now."""
        return tuple(map(self._rename_call, exchanges))

    def _rename_call(self, exchange: Exchange) -> Exchange:
        call = exchange.call
        if not isinstance(call, ToolCall) or (call.boundary, call.name) not in self._renamed:
            return exchange
        return replace(exchange, call=replace(call, name=self._renamed[call.boundary, call.name]))
