"""Interception of a framework's tools: each call is recorded under the name that the model knows.

Every framework has a patch module of its own, which says three things: the function by which the framework runs a
tool, the tool's shown name, and which of the arguments are the model's. The rest is here.

What is intercepted is the function of the tool's author, not the framework's handling around it: validation, callbacks,
retries and what the framework makes of an exception run in a replay as they ran in the recording.
"""

from __future__ import annotations

import copy
import functools
import inspect
from dataclasses import dataclass
from types import CellType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pytest_agentreplay.intercept.session import interceptions, lanes, library_values, patching
from pytest_agentreplay.intercept.session.replacing import replace_attribute, shield
from pytest_agentreplay.intercept.tools import factories
from pytest_agentreplay.intercept.tools.argument_serializing import ArgumentFreezing, framework_attributes, receiver_of
from pytest_agentreplay.intercept.tools.arguments import defaults_of, find_defaulted
from pytest_agentreplay.intercept.tools.results import ANNOTATED, ToolResults
from pytest_agentreplay.intercept.tools.tool import find_declaration, handle_call
from pytest_agentreplay.intercept.tools.tool_paths import functions_behind
from pytest_agentreplay.intercept.tools.tool_replaying import ToolReplaying
from pytest_agentreplay.model.exchanges import SELF, RawCall, ToolCall
from pytest_agentreplay.values.objects import Codec, shape_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.tools.tool_recording import ToolRecording
    from pytest_agentreplay.intercept.tools.tool_verifying import ToolVerifying
    from pytest_agentreplay.model.exchanges import JsonObject

MCP_ADAPTERS = ("langchain_mcp_adapters", "agents.mcp", "mcpadapt", "llama_index.tools.mcp", "crewai.tools.mcp")
"""Modules whose tools are those of an MCP server: they cross at the protocol, and nothing else of them does."""


@dataclass(frozen=True, slots=True)
class FrameworkTool:
    """One tool of a framework.

    The function's annotation says what comes back, and what the user has said of the function (`returns`, `effects`)
    holds for the tool.

    Attributes:
        name: The shown name.
        function: The function that does the work.
        codecs: Those of the framework's own classes.
        key: The key of one call, where a class may override the intercepted method and call it again: inside the call
            of a key it is the same call.
        holder: The framework's object that holds the function. The fields that a user's class adds to it are compared.
        internal: The fields of `holder` that are the framework's own though none of its classes declares them.
    """

    name: str
    function: Callable[..., Any]
    codecs: Sequence[Codec] = ()
    key: object = None
    holder: Any = None
    internal: frozenset[str] = frozenset()


_RUNNING: WeakKeyDictionary[Interception, dict[int, object]] = WeakKeyDictionary()
"""The key of each forwarded call that has one, by its ticket."""


def intercept_tool(
    interception: Interception,
    tool: FrameworkTool,
    work: Callable[..., Any],
    arguments: Callable[[tuple[Any, ...], dict[str, Any]], Mapping[str, Any]] | None = None,
) -> Callable[..., Any]:
    """Return `work` as the framework is to run it: a function of the same kind, whose calls are intercepted.

    Args:
        interception: What `wrap` gave to your function.
        tool: The tool.
        work: The function that the framework would call.
        arguments: Returns what the model gave, from the positional and keyword arguments of a call. Without it they are
            named by the signature of the tool's function.
    """
    collect_arguments = arguments or functools.partial(name_arguments, tool.function)

    def make(real: Callable[..., Any]) -> Callable[..., Any]:
        async def intercept_async(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return await wait(
                interception, tool, collect_arguments(args, kwargs), functools.partial(real, *args, **kwargs)
            )

        def intercept(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            return call(interception, tool, collect_arguments(args, kwargs), functools.partial(real, *args, **kwargs))

        return intercept_async if inspect.iscoroutinefunction(work) else intercept

    return functools.wraps(work)(shield(make, work))


def call(interception: Interception, tool: FrameworkTool, arguments: Mapping[str, Any], run: Callable[[], Any]) -> Any:
    """One call of a plain function: `run` is the real one, called while recording, and when it is verified."""
    __tracebackhide__ = True
    entered = _enter(interception, tool, arguments)
    if isinstance(entered, ToolReplaying):
        return entered.call(awaitable=False)
    return run() if entered is None else entered.call(run)


async def wait(
    interception: Interception, tool: FrameworkTool, arguments: Mapping[str, Any], run: Callable[[], Awaitable[Any]]
) -> Any:
    """One call of a coroutine function, as `call`."""
    __tracebackhide__ = True
    entered = _enter(interception, tool, arguments)
    if isinstance(entered, ToolReplaying):
        return await entered.wait()
    return await (run() if entered is None else entered.wait(_await_result(run)))


def _enter(
    interception: Interception, tool: FrameworkTool, arguments: Mapping[str, Any]
) -> ToolRecording | ToolReplaying | ToolVerifying | None:
    """What to do with a call; None is to run it: for real, or as a part of the very call around it."""
    __tracebackhide__ = True
    if tool.name in interception.tools.live:
        return None
    around = lanes.CALL_CONTEXT.get()
    running = _RUNNING.setdefault(interception, {})
    if tool.key is not None and around is not None and around.inside and running.get(around.inside[0]) == tool.key:
        return None
    declaration = find_declaration(tool.function)
    returns = ANNOTATED if declaration is None else declaration.tool.returns
    codecs = library_values.add_library_codecs((*tool.codecs, *interception.tools.codecs))
    results = ToolResults(f"tool {tool.name}", _list_annotated(tool.function), returns, codecs)
    reads = declaration is not None and declaration.tool.effects == "read"
    frozen = _freeze_call(tool, arguments, codecs)
    facts: JsonObject = {} if frozen.receiver is None else {SELF: frozen.receiver}
    call = ToolCall(tool.name, frozen.arguments, facts=facts, defaults=_defaults(tool.function, arguments))
    intercepted = interception.enter(RawCall(call), reads=reads)
    if intercepted.forward:
        frozen.watch(interception, intercepted, tool.name)
    if intercepted.open:
        running[intercepted.ticket] = tool.key
        if declaration is not None:
            declaration.mark_running(interception, intercepted)
    return handle_call(interception, intercepted, results)


def _freeze_call(tool: FrameworkTool, arguments: Mapping[str, Any], codecs: Sequence[Codec]) -> ArgumentFreezing:
    """Return a call as it is compared: on the object of a method, or on the user's fields of the framework's object."""
    receiver = receiver_of(tool.function)
    hidden = None if receiver is not None or tool.holder is None else framework_attributes(tool.holder)
    function, held_function = (
        tool.function,
        getattr(tool.holder, "func", None),
    )  # a method of the framework calls what it holds
    cells = factories.list_cells([*functions_behind(function), *functions_behind(held_function)])
    while isinstance(function, functools.partial):
        bound = {str(place): value for place, value in enumerate(function.args)} | function.keywords
        cells |= {name: CellType(value) for name, value in bound.items()}
        function = function.func
    if hidden is None:
        return ArgumentFreezing(arguments, receiver, tool.function, codecs, cells)
    return ArgumentFreezing(arguments, tool.holder, tool.function, codecs, cells, hidden | tool.internal)


async def _await_result(run: Callable[[], Awaitable[Any]]) -> Any:
    return await run()


def _list_annotated(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """Return the functions that may say what comes back, outermost first."""
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__qualname__"):
        function = type(function).__call__  # an object that can be called
    return [function]


def _defaults(function: Callable[..., Any], arguments: Mapping[str, Any]) -> frozenset[str]:
    """Which arguments are their defaults; none where the function does not tell."""
    signature = _find_signature(function)
    return frozenset() if signature is None else find_defaulted(arguments, defaults_of(signature))


def parameters(function: Callable[..., Any]) -> set[str]:
    """Return the names of the parameters of a function; none where it has no signature."""
    signature = _find_signature(function)
    return set() if signature is None else {*signature.parameters}


def _find_signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def name_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], hidden: Collection[str] = ()
) -> dict[str, Any]:
    """Return the arguments of a call by parameter name, defaults too, without the `hidden` ones."""
    try:
        signature = inspect.signature(function)
        bound = signature.bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        # No signature, or one that is for show.
        by_name: dict[str, Any] = {str(place): value for place, value in enumerate(args)} | dict(kwargs)
        return {name: value for name, value in by_name.items() if name not in hidden}
    bound.apply_defaults()
    by_name = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            by_name |= value
        elif kind is not inspect.Parameter.VAR_POSITIONAL:
            by_name[name] = value
        elif value:
            by_name[name] = list(value)
    return {name: value for name, value in by_name.items() if name not in hidden}


def wrap(owner: Any, name: str, intercept: Callable[..., Any]) -> None:
    """Have calls of `owner.name` go to `intercept` while a test is recorded or replayed.

    For good; a second call does nothing. Where a version of the library lacks the function, nothing is wrapped.

    Args:
        owner: A module or class of the library.
        name: The name of the function in it.
        intercept: Called as `intercept(interception, original, *args, **kwargs)`. For a coroutine function it returns
            an awaitable.
    """
    is_async = inspect.iscoroutinefunction(getattr(owner, name, None))
    patching.wrap(owner, name, functools.partial(_make_wrapper, intercept, is_async))


def _make_wrapper(intercept: Callable[..., Any], is_async: bool, original: Callable[..., Any]) -> Callable[..., Any]:
    current = interceptions.find_interception

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        interception = current()
        return original(*args, **kwargs) if interception is None else intercept(interception, original, *args, **kwargs)

    async def async_wrapper(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return await wrapper(*args, **kwargs)

    return async_wrapper if is_async else wrapper


def wrap_field(
    owner: Any,
    field: str,
    give: Callable[[Interception, Any, Any], Any],
    take: Callable[[Any], Any] = lambda value: value,
) -> None:
    """Have the dataclass field of `owner` give `give(interception, tool, real)` in recordings and replays.

    A property is laid over the field, for tools that are older than the test too. `take` returns what is kept of a
    value that the field is set to. Done twice it does nothing more; where a version of the library lacks the field,
    nothing is wrapped.
    """
    current = interceptions.find_interception

    def get_value(tool: Any) -> Any:
        if field not in vars(tool):
            raise AttributeError(field)
        interception = current()
        if interception is None:
            return vars(tool)[field]
        return shield(lambda real: lambda: give(interception, tool, real()), lambda: vars(tool)[field])()

    def write(tool: Any, value: Any) -> None:
        vars(tool)[field] = take(value)

    if field in getattr(owner, "__dataclass_fields__", {}):
        replace_attribute(owner, field, property(get_value, write))


def copy_tool(tool: Any, **instead: Any) -> Any:
    """Return a shallow copy of a framework's tool with other attributes.

    The framework runs the copy by its own method, and the original stays as it is.
    """
    made = copy.copy(tool)
    vars(made).update(instead)  # past what a class does when an attribute is set
    return made


def find_free_variable(function: Any, name: str) -> Any:
    """Return what a function has under `name` in its closure; None where it has no such thing."""
    code = getattr(function, "__code__", None)
    if code is None or name not in code.co_freevars:
        return None
    return factories.content(function.__closure__[code.co_freevars.index(name)])


def is_from(function: Any, modules: tuple[str, ...]) -> bool:
    """Whether `function`, which may be a class, was written in one of `modules`."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", "")).startswith(modules)


def field_codecs(classes: Iterable[Any]) -> tuple[Codec, ...]:
    """Return codecs for a framework's own classes, field by field, for those that can be restored faithfully."""
    return tuple(codec for cls in classes if isinstance(cls, type) and (codec := _codec(cls)) is not None)


def _codec(cls: type) -> Codec | None:
    shape = shape_of(cls)
    return None if shape is None else Codec(cls, shape.apart, functools.partial(shape.together, cls))
