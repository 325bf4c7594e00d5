"""Function tools of the OpenAI Agents SDK: what `FunctionTool.on_invoke_tool` does when the SDK calls it.

It is a field, set in tools that are older than the test too; a property over it returns one that asks the interception,
always the same for a tool: the SDK compares it by `is`. Where the SDK itself has wrapped the work to make a message
of what it raises, the work is intercepted, and the SDK's wrapper runs in a replay too.
"""

from __future__ import annotations

import functools
import json
import types
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.tools import framework

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.values import Codec

FIELD = "on_invoke_tool"
HANDOFF = "on_invoke_handoff"
REPLACED = "_agentreplay"
"""Where a tool keeps what its field gives: itself (a copy is another tool), the real function, our own."""

INSIDE = "_on_invoke_tool_impl"
"""Name of the work in the closure of the older SDK's wrapper."""

_OF_THE_SDK = ("agents.mcp", "agents.run_internal", "agents._run_impl", "agents.agent")
"""Modules whose own tools read what a model wrote, run an agent, or hand over to an MCP server: none is the world."""


def patch(library: ModuleType) -> None:
    """Lay a property over the field of the tool classes. Doing it twice does nothing."""
    framework.wrap_field(vars(library).get("Handoff"), HANDOFF, _note_handoff)
    outputs = [cls for name in vars(library) if name.startswith("ToolOutput") and (cls := getattr(library, name))]
    codecs = framework.field_codecs(outputs)
    for name in ("FunctionTool", "CustomTool"):
        framework.wrap_field(getattr(library, name, None), FIELD, functools.partial(_find_or_make, codecs), _real)


def _find_or_make(codecs: tuple[Codec, ...], interception: Interception, tool: Any, real: Any) -> Any:
    interception.tools.seen.add(tool.name)
    owner, wrapped, replacement = vars(tool).get(REPLACED, (None, None, None))
    if owner is not tool or wrapped is not real:
        replacement = _make_replacement(tool, real, codecs)
        vars(tool)[REPLACED] = tool, real, replacement
    return replacement


def _note_handoff(interception: Interception, handoff: Any, real: Any) -> Any:
    """Note the name of a handoff, which the model sees as a tool, and which only says who goes on."""
    interception.tools.seen.add(handoff.tool_name)
    return real


def _real(value: Any) -> Any:
    """Return the real function behind a value, which may have been read off a tool."""
    return vars(value).get(REPLACED, value) if hasattr(value, "__dict__") else value


def _make_replacement(tool: Any, real: Any, codecs: tuple[Codec, ...]) -> Any:
    """Return the value of the field while a test runs: of the same kind, with the work inside it intercepted."""
    work = getattr(real, "_invoke_tool_impl", None) or framework.find_free_variable(real, INSIDE) or real
    work = _real(work)
    if getattr(tool, "_is_agent_tool", False) or framework.is_from(
        framework.find_free_variable(work, "the_func") or work, _OF_THE_SDK
    ):
        return real
    intercepted = _intercept_work(tool, work, codecs)
    if work is real:
        return intercepted
    if isinstance(real, types.FunctionType):
        names = real.__code__.co_freevars
        cells = zip(names, real.__closure__ or (), strict=True)
        closure = tuple(types.CellType(intercepted) if name == INSIDE else cell for name, cell in cells)
        made = types.FunctionType(real.__code__, real.__globals__, real.__name__, real.__defaults__, closure)
        vars(made).update(vars(real), **{REPLACED: real})
        return made
    return framework.copy_tool(real, _invoke_tool_impl=intercepted, **{REPLACED: real})


def _intercept_work(tool: Any, work: Callable[..., Any], codecs: tuple[Codec, ...]) -> Callable[..., Any]:
    current = interceptions.find_interception
    framework_tool = framework.FrameworkTool(tool.name, framework.find_free_variable(work, "the_func") or work, codecs)

    async def invoke(context: Any, text: Any) -> Any:
        __tracebackhide__ = True
        interception = current()
        run = functools.partial(work, context, text)
        return await (
            run() if interception is None else framework.wait(interception, framework_tool, _arguments(text), run)
        )

    # Not by functools.wraps: the work may be an object, or take its parameters by other names.
    vars(invoke).update(getattr(work, "__dict__", {}), **{REPLACED: work})
    return invoke


def _arguments(text: Any) -> dict[str, Any]:
    """The arguments as the model wrote them."""
    try:
        read = json.loads(text) if text else {}
    except (TypeError, ValueError):
        read = text
    return read if isinstance(read, dict) else {"input": read}
