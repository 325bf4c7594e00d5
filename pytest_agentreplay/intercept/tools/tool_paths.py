"""From an import path to tools, and from whatever a tool is held as to the Python functions that do the work."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import re
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotRedirect
from pytest_agentreplay.intercept.session.callers import is_agents
from pytest_agentreplay.intercept.session.patching import is_trampoline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(slots=True)
class ToolPath:
    """The Python functions behind a callable: the outermost first, then those that its wrappers wrap.

    `bound` says that the first positional argument of the outermost is `self` or `cls`; `caches` are the
    `functools` caches on the way, which answer without calling anything.
    """

    functions: list[FunctionType] = field(default_factory=list)
    bound: bool = False
    caches: list[Any] = field(default_factory=list)


def unwrap(tool: Any, name: str) -> ToolPath:
    """Return what is behind `tool`. Raises CannotRedirect, with what to do instead, when no Python function is."""
    tool_path, inner = ToolPath(), tool
    while True:
        if isinstance(inner, staticmethod | classmethod | MethodType):
            tool_path.bound = tool_path.bound or (not tool_path.functions and not isinstance(inner, staticmethod))
            inner = inner.__func__
        elif isinstance(inner, functools.partial | functools.partialmethod):
            inner = inner.func
        elif isinstance(inner, FunctionType):
            if inner in tool_path.functions:
                return tool_path
            tool_path.functions.append(inner)
            if "__wrapped__" not in vars(inner):
                return tool_path
            inner = inner.__wrapped__  # type: ignore[attr-defined]
        elif hasattr(inner, "cache_clear") and hasattr(inner, "__wrapped__"):
            tool_path.caches.append(inner)
            inner = inner.__wrapped__
        elif not tool_path.functions and (called := functions_called_by(inner)):
            paths = [unwrap(function, name) for function in called]  # several: the async one of a pair, perhaps
            functions = dict.fromkeys(function for path in paths for function in path.functions)
            return ToolPath([*functions], paths[0].bound, [cache for path in paths for cache in path.caches])
        elif tool_path.functions:
            return tool_path  # what is wrapped innermost is no Python function; its wrapper is met
        elif isinstance(inspect.getattr_static(type(inner), "__call__", None), FunctionType) and not isinstance(
            inner, type
        ):
            tool_path.bound, inner = True, type(inner).__call__
        elif hasattr(inner, "__wrapped__") and callable(inner) and not isinstance(inner, type):
            inner = inner.__wrapped__
        else:
            raise CannotRedirect(_refusal(inner, name))


def functions_behind(tool: Any) -> list[FunctionType]:
    """Return the Python functions behind whatever a tool is held as; none for what is no tool."""
    try:
        return unwrap(tool, "").functions
    except CannotRedirect:
        return []


_CALLED = re.compile(
    r"(?:^|_)(?:f|fn|func|function|callable|callback|coroutine|entrypoint|handler|inner|method|original|wrapped)$"
)
"""What the attribute is called in which an object of a decorator holds what it decorates."""
_METHODS = ("__call__", "call", "execute", "invoke", "ainvoke", "run", "arun", "run_async", "stream")
"""By what an object that is a tool is called; those that call each other are one call."""


def functions_called_by(tool: Any) -> list[Any]:
    """Return the agent's functions that run when an object of a decorator or a framework is called, by any method.

    That is the function that it holds. Where no attribute is called as if it held one it is the methods that the
    agent has written, and else the only function that it holds.
    """
    if isinstance(tool, type | ModuleType):
        return []
    slots = {name for kind in type(tool).__mro__ for name in getattr(kind, "__slots__", ())}
    attributes = {name: getattr(tool, name) for name in slots if hasattr(tool, name)}
    attributes |= getattr(tool, "__dict__", {}) | (getattr(tool, "__pydantic_private__", None) or {})
    agents_functions = {name: value for name, value in attributes.items() if _is_agents(value)}
    likely = [value for name, value in agents_functions.items() if _CALLED.search(name.strip("_"))]
    own = [getattr(tool, name) for name in _METHODS if _is_agents(inspect.getattr_static(type(tool), name, None))]
    return likely or own or ([*agents_functions.values()] if len(agents_functions) == 1 else [])


def _is_agents(value: Any) -> bool:
    while isinstance(value, MethodType | functools.partial):
        value = value.__func__ if isinstance(value, MethodType) else value.func
    value = inspect.unwrap(value) if isinstance(value, FunctionType) else value  # as agno wraps it
    code = value.__code__ if isinstance(value, FunctionType) else None
    return code is not None and (is_agents(code) or is_trampoline(code))


def _refusal(at: Any, name: str) -> str:
    if isinstance(at, type):
        methods = [key for key, value in vars(at).items() if isinstance(value, FunctionType) and key[0] != "_"]
        example = f"{name}.{methods[0] if methods else '__init__'}"
        return f"{name} is a class; name the method that reaches out, as in {example}, or a function that makes it"
    if isinstance(at, property):
        return f"{name} is a property; name a function that it calls"
    if isinstance(at, BuiltinFunctionType) or callable(at):
        short = name.rpartition(".")[2]
        return (
            f"{name} is not written in Python ({type(at).__name__}), so its code cannot be exchanged; "
            f"call it from a function of your own (def {short}_tool(...): return {short}(...)) and name that"
        )
    attributes = [
        key for key, value in getattr(at, "__dict__", {}).items() if isinstance(value, FunctionType | MethodType)
    ]
    example = f", as in {name}.{attributes[0]}" if attributes else ""
    return f"{name} is a {type(at).__name__}, and no tool: name the function or the method that does its work{example}"


def find(path: str, *, live: bool = False) -> list[tuple[str, Callable[..., Any]]]:
    """Return the tools that an import path names, each with the name it is shown by.

    "shop.tools.refund" and "shop.tools.Shop.refund" name one (a method brings along its overrides in the loaded
    subclasses), "shop.mail.*" the public functions that are defined in that module (or class). Imports the module.
    A `live` one may be anything, since its code is left alone.
    Raises CannotRedirect naming what there is not, and the nearest names.
    """
    owner_path, _, name = path.rpartition(".")
    if not owner_path:
        raise CannotRedirect(f"{path!r} is no import path of a tool; write it as module.function")
    owner = _resolve(owner_path, path)
    if name == "*":
        tools = [(f"{owner_path}.{key}", value) for key, value in _public(owner)]
        if not tools:
            raise CannotRedirect(f"{path}: {owner_path} defines no public function")
        return tools
    tool = _member(owner, name, path)
    if not live:
        unwrap(tool, path)
    return [(path, tool), *_overrides(owner, name)]


def _resolve(owner_path: str, path: str) -> Any:
    """The module, class or object at `owner_path`."""
    parts = owner_path.split(".")
    for cut in range(len(parts), 0, -1):
        module = ".".join(parts[:cut])
        try:
            at: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
                continue
            raise CannotRedirect(f"{path}: importing {module} failed: {error}") from error
        except Exception as error:
            raise CannotRedirect(f"{path}: importing {module} failed: {type(error).__name__}: {error}") from error
        for name in parts[cut:]:
            at = _member(at, name, path)
        return at
    raise CannotRedirect(
        f"{path}: there is no module {parts[0]} (is its folder on sys.path, or in pytest's pythonpath?)"
    )


def _member(owner: Any, name: str, path: str) -> Any:
    try:
        # Static: a staticmethod or classmethod is to be seen as one, and a property is not to be run.
        return inspect.getattr_static(owner, name) if isinstance(owner, type) else getattr(owner, name)
    except AttributeError:
        pass
    names = [key for key, _ in _callables(owner)]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or sorted(names)[:5]
    holder = owner.__name__ if isinstance(owner, ModuleType | type) else type(owner).__name__
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise CannotRedirect(f"{path}: {holder} has no {name}{hint}")


def _callables(owner: Any) -> Iterator[tuple[str, Any]]:
    for key, value in list(getattr(owner, "__dict__", {}).items()):
        if key[0] != "_" and (callable(value) or isinstance(value, staticmethod | classmethod)):
            yield key, value


def _public(owner: Any) -> Iterator[tuple[str, Any]]:
    """The functions that are defined in `owner` itself, decorated ones too; classes and instances are no tools."""
    module = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    for key, value in _callables(owner):
        if isinstance(value, type) or getattr(value, "__module__", None) != module:
            continue
        if isinstance(value, FunctionType | staticmethod | classmethod) or hasattr(value, "__wrapped__"):
            yield key, value


def _overrides(owner: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The same method where a loaded subclass writes its own: it would reach out all the same."""
    if not isinstance(owner, type):
        return
    subclasses: list[type] = type.__subclasses__(owner)
    for cls in subclasses:
        if name in vars(cls):
            yield f"{cls.__module__}.{cls.__qualname__}.{name}", vars(cls)[name]
        yield from _overrides(cls, name)
