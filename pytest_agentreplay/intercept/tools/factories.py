"""Tools that are made by a function of the agent: a `def`, or a `class` with its methods, inside of a factory.

Each run of the factory makes another function, all of one code object: a constant in the factory's code. While such a
tool is frozen that constant leads to the backend as well, so that what the factory makes from then on is frozen.

A function that is made so is the tool when its closure holds the same functions and classes: around another function it
is another decorated function, and runs. Other values in the closure are compared, as a receiver is.
"""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import itertools
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session import patching
from pytest_agentreplay.intercept.session.callers import is_agents, is_agents_file
from pytest_agentreplay.intercept.session.patching import lead_made, list_keyword_only
from pytest_agentreplay.intercept.tools.tool_paths import functions_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from types import CellType

    Cells = tuple[CellType, ...] | None

_SCALARS = (str, bytes, int, float, bool, type(None))
_DEEP = 4
"""How many functions that hold functions are compared; deeper ones are taken for other functions."""

_numbers = itertools.count(1)
_made: dict[int, Made] = {}
_stubs: dict[int, Made] = {}
_factories: dict[FunctionType, Factory] = {}


def follow(
    function: FunctionType, code: CodeType, intercept: Callable[..., Any], namespace: Mapping[str, Any]
) -> list[Made]:
    """Have what the factory of `function` in `namespace` makes from now on come to `meet`, until each is `left`.

    `code` is the tool's own. There is nothing to follow for a function of a module, or of a library, or for a wrapper
    that shows what it wraps: that is frozen itself.
    """
    if "<locals>" not in code.co_qualname or not is_agents(code) or "__wrapped__" in vars(function):
        return []
    followed = []
    for factory, constant in _makers(code, namespace):
        if (made := _made.get(id(constant))) is None:
            made = _made[id(constant)] = Made(constant, factory.__globals__)
            _stubs[id(made.stub)] = made
        if all(tool is not function for tool, _ in made.tools):
            made.tools.append((function, intercept))
            followed.append(made)
        if factory not in _factories:
            _factories[factory] = Factory(factory)
        _factories[factory].add(made)
        made.factories.add(factory)
    return followed


def own_code(function: FunctionType) -> CodeType:
    """The code that `function` was written with, also where it was made while a tool was followed."""
    made = _stubs.get(id(function.__code__))
    return function.__code__ if made is None else made.code


class Made:
    """The functions that are made of one constant. Where no test has frozen them they run as they are written."""

    def __init__(self, code: CodeType, namespace: dict[str, Any]) -> None:
        """`code` is the constant."""
        self.code = code
        self.tools: list[tuple[FunctionType, Callable[..., Any]]] = []
        self.factories: set[FunctionType] = set()
        self.key = ("made", next(_numbers))
        self.stub = lead_made(code, self.call)
        self._written = {step.argval for step in dis.get_instructions(code) if step.opname == "STORE_DEREF"}
        patching.keep_made(self.key, code, namespace)

    def leave(self, function: FunctionType) -> None:
        """Follow `function` no more."""
        self.tools = [(tool, intercept) for tool, intercept in self.tools if tool is not function]
        if not self.tools:
            for factory in self.factories:
                _factories[factory].remove(self)
            self.factories.clear()

    def call(self, values: Any, only: Any, star: Any, stars: Any, cells: Cells) -> Any:
        """Intercept a call of a function that was made, as the tool that it is most like."""
        __tracebackhide__ = True
        best: tuple[int, Callable[..., Any]] | None = None
        for function, intercept in self.tools:
            others = self._count_others(function, cells)
            if others is not None and (best is None or others < best[0]):
                best = others, intercept
        if best is None:
            keywords = dict(zip(list_keyword_only(self.code), only, strict=True))
            return patching.make_function(self.key, cells)(*values, *star, **keywords, **stars)
        return best[1](values, only, star, stars, (self.key, cells))

    def _count_others(self, function: FunctionType, cells: Cells) -> int | None:
        """How many values the closure holds otherwise than that of `function`; None for another function."""
        others = 0
        for name, was, now in zip(self.code.co_freevars, function.__closure__ or (), cells or (), strict=False):
            before, after = content(was), content(now)
            if name in self._written or before is after:
                continue
            if _is_code(before) or _is_code(after):
                if not _is_same_function(before, after, _DEEP):
                    return None
            elif not (type(before) is type(after) and isinstance(before, _SCALARS) and before == after):
                others += 1
        return others


class Factory:
    """A function whose code makes tools: its own code, with constants exchanged."""

    def __init__(self, function: FunctionType) -> None:
        """Nothing is exchanged yet."""
        self._function = function
        self.code = function.__code__
        """The code without exchanged constants."""
        self._made: list[Made] = []

    def add(self, made: Made) -> None:
        """Exchange the constant of `made` too."""
        if made not in self._made:
            self._made.append(made)
            self._exchange()

    def remove(self, made: Made) -> None:
        """Put the constant of `made` back; with the last one the function has its very own code again."""
        self._made = [each for each in self._made if each is not made]
        self._exchange()
        if not self._made:
            _factories.pop(self._function, None)

    def _exchange(self) -> None:
        self._function.__code__ = _replace_constants(self.code, {id(made.code): made.stub for made in self._made})


def _makers(code: CodeType, namespace: Mapping[str, Any]) -> Iterator[tuple[FunctionType, CodeType]]:
    """The functions whose code makes functions of `code`, each with the constant: by name, and those nested in them."""
    first, *names = code.co_qualname.partition(".<locals>")[0].split(".")
    holder: Any = namespace.get(first)
    for name in names:
        holder = inspect.getattr_static(holder, name, None)
    for function in functions_behind(holder):
        outer_code = _factories[function].code if function in _factories else function.__code__
        _, *inner, constant = _chain(outer_code, code) or (outer_code, None)
        if constant is None:
            continue
        yield function, constant
        for nested in inner:
            if nested.co_flags & inspect.CO_OPTIMIZED:  # a function, which may exist by now; no body of a class
                for maker in gc.get_referrers(nested):
                    if isinstance(maker, FunctionType) and maker.__code__ is nested:
                        yield maker, constant


def _chain(code: CodeType, target: CodeType) -> tuple[CodeType, ...]:
    """From `code` inwards to the constant that is equal to `wanted`; empty where there is none."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant == target and constant.co_filename == target.co_filename:
                return code, constant
            if inner := _chain(constant, target):
                return code, *inner
    return ()


def _replace_constants(code: CodeType, stubs: Mapping[int, CodeType]) -> CodeType:
    constants = tuple(
        stubs.get(id(constant)) or _replace_constants(constant, stubs) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    changed = any(now is not was for now, was in zip(constants, code.co_consts, strict=True))
    return code.replace(co_consts=constants) if changed else code


def list_cells(functions: Collection[FunctionType]) -> dict[str, CellType]:
    """Return what the closures of a tool's functions hold, by name, as far as the agent has written them.

    Without the functions themselves: a wrapper holds what it wraps.
    """
    cells: dict[str, CellType] = {}
    for function in functions:
        if is_agents_file(function.__code__.co_filename):
            cells |= zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: cell for name, cell in cells.items() if all(content(cell) is not layer for layer in functions)}


def content(cell: CellType) -> Any:
    """Return what a cell of a closure holds; None for one that is not bound yet."""
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _is_code(value: Any) -> bool:
    return isinstance(value, type | FunctionType | MethodType | functools.partial) or inspect.isbuiltin(value)


def _is_same_function(before: Any, after: Any, deep: int) -> bool:
    """Return whether two functions or classes are the same one, made anew perhaps."""
    if before is after:
        return True
    if type(before) is not type(after) or not deep:
        return False
    if isinstance(before, type):
        return (before.__module__, before.__qualname__) == (after.__module__, after.__qualname__)
    if isinstance(before, MethodType):
        return _is_same_function(before.__func__, after.__func__, deep - 1)
    if isinstance(before, functools.partial):
        return _is_same_function(before.func, after.func, deep - 1)
    if not isinstance(before, FunctionType):
        return bool(before == after)
    # A frozen function has another code object, of the same name, file and line.
    places = [(code.co_filename, code.co_qualname, code.co_firstlineno) for code in (before.__code__, after.__code__)]
    cells = zip(before.__closure__ or (), after.__closure__ or (), strict=False)
    return places[0] == places[1] and all(
        _is_same_function(content(was), content(now), deep - 1)
        for was, now in cells
        if _is_code(content(was)) or _is_code(content(now))
    )
