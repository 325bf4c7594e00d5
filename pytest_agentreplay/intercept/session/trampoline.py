"""Code that stands in a function's stead and leads elsewhere: same kind, parameters, free variables, name and lines.

A function's code is exchanged in the function object itself, so calls are intercepted wherever that object is held. The
new code has the old parameters, so signatures, defaults and wrong calls are what they were. All of it stands on the
line of the `def`, so that coverage, tracers and tracebacks see the function begin and nothing else.
"""

from __future__ import annotations

import ast
import functools
import inspect
from enum import Enum
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.errors import CannotRedirect

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK = "<the meeting point>"


class FunctionKind(Enum):
    """What a call of the function gives."""

    PLAIN = "function"
    COROUTINE = "coroutine function"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"


_BODIES = {
    FunctionKind.PLAIN: "return _meet({given})",
    FunctionKind.COROUTINE: "return await _meet({given})",
    FunctionKind.GENERATOR: "return (yield from _meet({given}))",
    # There is no `yield from` for async generators; this is what it would be.
    FunctionKind.ASYNC_GENERATOR: """
_inner = _meet({given})
_step = _inner.asend(None)
while True:
    try:
        _item = await _step
    except StopAsyncIteration:
        return
    try:
        _sent = yield _item
    except GeneratorExit:
        await _inner.aclose()
        raise
    except BaseException as _error:
        _step = _inner.athrow(_error)
    else:
        _step = _inner.asend(_sent)
""",
}


def kind_of(code: CodeType) -> FunctionKind:
    """The kind of a function's code."""
    if code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        raise CannotRedirect(f"{code.co_qualname} is an old-style coroutine (types.coroutine); write it as `async def`")
    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return FunctionKind.ASYNC_GENERATOR
    if code.co_flags & inspect.CO_COROUTINE:
        return FunctionKind.COROUTINE
    return FunctionKind.GENERATOR if code.co_flags & inspect.CO_GENERATOR else FunctionKind.PLAIN


def lead(function: FunctionType, meet: Callable[..., Any]) -> CodeType:
    """Exchange the function's code for one that calls `meet(positional, keyword_only, star, stars)`.

    The four are tuples of values in the order of the parameters, the extra positional arguments, and the extra keyword
    arguments. `meet` gives what the kind calls for: the result, an awaitable, a generator, an async generator. Return
    the old code; raises CannotRedirect when the function's shape forbids the exchange.
    """
    code = function.__code__
    try:
        function.__code__ = _trampoline(code, meet)
    except ValueError as error:
        raise CannotRedirect(
            f"{function.__module__}.{function.__qualname__} cannot be redirected: {error}; "
            "name the function that calls it instead"
        ) from error
    return code


def lead_made(code: CodeType, meet: Callable[..., Any]) -> CodeType:
    """Return code to be made functions of instead of `code`: it calls `meet` as `lead` says, and with the closure."""
    return _trampoline(code, meet, cells=True)


def _trampoline(code: CodeType, meet: Callable[..., Any], *, cells: bool = False) -> CodeType:
    shape = _CodeShape(
        kind_of(code),
        code.co_posonlyargcount,
        code.co_argcount,
        code.co_kwonlyargcount,
        bool(code.co_flags & inspect.CO_VARARGS),
        bool(code.co_flags & inspect.CO_VARKEYWORDS),
        len(code.co_freevars),
        cells,
    )
    template = _template(shape)
    count = len(parameters(code))
    return template.replace(
        co_consts=tuple(meet if const == _MARK else const for const in template.co_consts),
        co_varnames=code.co_varnames[:count] + template.co_varnames[count:],
        co_freevars=code.co_freevars,
        co_flags=code.co_flags,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
    )


def is_trampoline(code: CodeType) -> bool:
    """Whether `code` stands in a function's stead."""
    return {"__tracebackhide__", "_meet"} <= {*code.co_varnames}


def parameters(code: CodeType) -> tuple[str, ...]:
    """All parameter names: positional, keyword-only, then `*` and `**`."""
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


class _CodeShape(NamedTuple):
    """What functions of one trampoline share, names apart. `only` counts the positional-only parameters.

    `cells` says that the closure is handed on.
    """

    kind: FunctionKind
    only: int
    positional: int
    keyword: int
    star: bool
    stars: bool
    free: int
    cells: bool


@functools.lru_cache(maxsize=256)
def _template(shape: _CodeShape) -> CodeType:
    """The trampoline of one shape, with names of its own: no name of the user's is ever parsed."""
    kind, only, positional, keyword, star, stars, free, cells = shape
    values = [f"p{i}" for i in range(positional)]
    keywords = [f"k{i}" for i in range(keyword)]
    signature = [*values[:only], *(["/"] if only else []), *values[only:]]
    signature += ["*star"] if star else ["*"] if keywords else []
    signature += [*keywords, *(["**stars"] if stars else [])]
    given = f"({_tuple(values)}), ({_tuple(keywords)}), {'star' if star else '()'}, {'stars' if stars else '{}'}"
    holders = [f"f{i}" for i in range(free)]
    body = ["__tracebackhide__ = True", f"_meet = {_MARK!r}"]
    if cells:
        # A function inside that names them has the very cells in its own closure.
        body.append(f"_cells = (lambda: ({_tuple(holders)})).__closure__")
        given += ", _cells"
    body += _BODIES[kind].format(given=given).strip().splitlines()
    if holders:
        # Naming them makes the compiler copy the closure in; without that a debugger reading locals would crash.
        body.insert(0, f"nonlocal {', '.join(holders)}")
    lines = ["def make():", *(f"    {name} = None" for name in holders)]
    prefix = "async def" if kind in (FunctionKind.COROUTINE, FunctionKind.ASYNC_GENERATOR) else "def"
    lines += [f"    {prefix} trampoline({', '.join(signature)}):", *(f"        {line}" for line in body)]
    tree = ast.parse("\n".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.ExceptHandler | ast.arg):
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    make = _inner_code(compile(tree, "<trampoline>", "exec"))
    return _inner_code(make)


def _tuple(names: list[str]) -> str:
    return "".join(f"{name}, " for name in names)


def _inner_code(code: CodeType) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType))
