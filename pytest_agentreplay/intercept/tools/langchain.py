"""Tools of LangChain and LangGraph: what `BaseTool.run` and `arun` call to do the work.

Every way to a tool leads through these two: `invoke`, an agent's tool node, a graph's own. Around the work they
validate, tell callbacks, and make a message of what came or was raised; all that runs in a replay too.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.tools import framework
from pytest_agentreplay.values import Codec

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception

HANDOFF = "__handoff_destination"
"""Key of the metadata of a tool that only names the agent to go on with: that is the graph's own control flow."""

_FILLED = {"run_manager", "callbacks", "config"}
"""Parameters that the framework fills by name; it says of no other that its type says so."""


def patch(library: ModuleType) -> None:
    """Wrap the class that all tools derive from. Doing it twice does nothing."""
    framework.wrap(library.BaseTool, "run", functools.partial(_call, "_run", "func"))
    framework.wrap(library.BaseTool, "arun", functools.partial(_call, "_arun", "coroutine"))


def _call(
    method: str, field: str, interception: Interception, original: Any, tool: Any, /, *args: Any, **kwargs: Any
) -> Any:
    """Run the tool with its `method` intercepted, which calls the function that the tool holds as `field`, if any."""
    __tracebackhide__ = True
    if _is_live(interception, tool):
        return original(tool, *args, **kwargs)
    work = getattr(tool, method)
    function = getattr(tool, field, None) or getattr(tool, "func", None) or _find_written_method(tool, work)
    framework_tool = framework.FrameworkTool(tool.name, function, codecs(), holder=tool)
    intercepted = framework.intercept_tool(
        interception, framework_tool, work, functools.partial(_arguments, tool, function)
    )
    return original(framework.copy_tool(tool, **{method: intercepted}), *args, **kwargs)


def _find_written_method(tool: Any, work: Any) -> Any:
    """Return the method that the tool's own class has written: one without a coroutine runs `_run` in a thread."""
    base = sys.modules["langchain_core.tools.base"].BaseTool
    return tool._run if getattr(work, "__func__", None) is base._arun else work


def _arguments(tool: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the model gave: it is not shown what the framework fills in and injects."""
    if args:
        return framework.name_arguments(function, args, {}, _FILLED)  # a tool of one input, whatever its name
    hidden = _FILLED | (framework.parameters(function) - _list_shown_arguments(tool))
    visible = {name: value for name, value in kwargs.items() if name not in hidden}
    return framework.name_arguments(function, (), visible, hidden)


def _list_shown_arguments(tool: Any) -> set[str]:
    """Return the names of the arguments that the model sees."""
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return {*schema.get("properties", ())}
    return {*(schema.model_fields if hasattr(schema, "model_fields") else schema.__fields__)}


def _is_live(interception: Interception, tool: Any) -> bool:
    """Whether a tool only goes on elsewhere: to another agent, or to a chain or server that crosses by itself."""
    interception.tools.seen.add(tool.name)
    work = getattr(tool, "coroutine", None) or getattr(tool, "func", None)
    return HANDOFF in (tool.metadata or {}) or framework.is_from(work, framework.MCP_ADAPTERS) or _is_agent(work)


def _is_agent(work: Any) -> bool:
    """Whether `Runnable.as_tool` has made the tool; a lambda is a plain function all the same."""
    runnable = getattr(work, "__self__", None)
    if getattr(work, "__module__", "") == "langchain_core.tools.convert":
        runnable = framework.find_free_variable(work, "runnable")
    base = sys.modules["langchain_core.runnables.base"]
    return isinstance(runnable, base.Runnable) and not isinstance(
        runnable, base.RunnableLambda | base.RunnableGenerator
    )


def codecs() -> tuple[Codec, ...]:
    """Those of messages, documents, and what a tool says to its graph, as far as they are loaded."""
    return _codecs(*(sys.modules.get(name) for name in ("langchain_core.documents.base", "langgraph.types")))


@functools.cache
def _codecs(documents: ModuleType | None, graph: ModuleType | None) -> tuple[Codec, ...]:
    messages = sys.modules["langchain_core.messages"]
    base = messages.BaseMessage
    exported = [cls for name in messages.__all__ if isinstance(cls := getattr(messages, name), type)]
    classes: list[Any] = [cls for cls in exported if issubclass(cls, base)]
    classes.append(getattr(documents, "Document", None))
    classes += [getattr(graph, name, None) for name in ("Command", "Interrupt", "Overwrite")]
    send = getattr(graph, "Send", None)
    sends = () if send is None else (Codec(send, lambda sent: [sent.node, sent.arg], lambda parts: send(*parts)),)
    return (*framework.field_codecs(classes), *sends)
