"""How code of libraries is replaced: for every caller at once, or by the method of a class; undone at the end."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from enum import Enum
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.errors import CannotRedirect, ReplayDiverged
from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.intercept.session.replacing import mark_exchanged, replace_attribute, shield

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.intercept.session.pending_call import PendingCall

    MadeOf = tuple[object, tuple[CellType, ...] | None]
    """Of a function that a factory has made: the key of its body, and its closure."""
    Seam = Callable[..., Any]

_MARK = "<the meeting point>"


class FunctionKind(Enum):
    """What a call of the function gives."""

    PLAIN = "function"
    COROUTINE = "coroutine function"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"


_BODIES = {
    FunctionKind.PLAIN: "return _call_instead({given})",
    FunctionKind.COROUTINE: "return await _call_instead({given})",
    FunctionKind.GENERATOR: "return (yield from _call_instead({given}))",
    # There is no `yield from` for async generators; this is what it would be.
    FunctionKind.ASYNC_GENERATOR: """
_inner = _call_instead({given})
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


def get_kind(code: CodeType) -> FunctionKind:
    """The kind of a function's code."""
    if code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        raise CannotRedirect(f"{code.co_qualname} is an old-style coroutine (types.coroutine); write it as `async def`")
    if code.co_flags & inspect.CO_ASYNC_GENERATOR:
        return FunctionKind.ASYNC_GENERATOR
    if code.co_flags & inspect.CO_COROUTINE:
        return FunctionKind.COROUTINE
    return FunctionKind.GENERATOR if code.co_flags & inspect.CO_GENERATOR else FunctionKind.PLAIN


def lead(function: FunctionType, handler: Callable[..., Any]) -> CodeType:
    """Exchange the function's code for one that calls `handler(positional, keyword_only, star, stars)`.

    The four are tuples of values in the order of the parameters, the extra positional arguments, and the extra keyword
    arguments. `handler` returns what the kind calls for: the result, an awaitable, a generator, an async generator.
    Return the old code; raises CannotRedirect when the function's shape forbids the exchange.
    """
    code = function.__code__
    try:
        function.__code__ = _make_trampoline(code, handler)
    except ValueError as error:
        raise CannotRedirect(
            f"{function.__module__}.{function.__qualname__} cannot be redirected: {error}; "
            "name the function that calls it instead"
        ) from error
    return code


def lead_made(code: CodeType, handler: Callable[..., Any]) -> CodeType:
    """Return code to make functions of instead of `code`: it calls `handler` as `lead` says, and with the closure."""
    return _make_trampoline(code, handler, cells=True)


def _make_trampoline(code: CodeType, handler: Callable[..., Any], *, cells: bool = False) -> CodeType:
    shape = _CodeShape(
        get_kind(code),
        code.co_posonlyargcount,
        code.co_argcount,
        code.co_kwonlyargcount,
        bool(code.co_flags & inspect.CO_VARARGS),
        bool(code.co_flags & inspect.CO_VARKEYWORDS),
        len(code.co_freevars),
        cells,
    )
    template = _compile_template(shape)
    count = len(list_parameters(code))
    return template.replace(
        co_consts=tuple(handler if const == _MARK else const for const in template.co_consts),
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
    return {"__tracebackhide__", "_call_instead"} <= {*code.co_varnames}


def list_parameters(code: CodeType) -> tuple[str, ...]:
    """All parameter names: positional, keyword-only, then `*` and `**`."""
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def list_keyword_only(code: CodeType) -> tuple[str, ...]:
    """The names of the keyword-only parameters."""
    return code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]


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
def _compile_template(shape: _CodeShape) -> CodeType:
    """The trampoline of one shape, with names of its own: no name of the user's is ever parsed."""
    kind, only, positional, keyword, star, stars, free, cells = shape
    values = [f"p{i}" for i in range(positional)]
    keywords = [f"k{i}" for i in range(keyword)]
    signature = [*values[:only], *(["/"] if only else []), *values[only:]]
    signature += ["*star"] if star else ["*"] if keywords else []
    signature += [*keywords, *(["**stars"] if stars else [])]
    rest = f"{'star' if star else '()'}, {'stars' if stars else '{}'}"
    arguments = f"({_format_tuple(values)}), ({_format_tuple(keywords)}), {rest}"
    holders = [f"f{i}" for i in range(free)]
    body = ["__tracebackhide__ = True", f"_call_instead = {_MARK!r}"]
    if cells:
        # A function inside that names them has the very cells in its own closure.
        body.append(f"_cells = (lambda: ({_format_tuple(holders)})).__closure__")
        arguments += ", _cells"
    body += _BODIES[kind].format(given=arguments).strip().splitlines()
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
    make = _find_inner_code(compile(tree, "<trampoline>", "exec"))
    return _find_inner_code(make)


def _format_tuple(names: list[str]) -> str:
    return "".join(f"{name}, " for name in names)


def _find_inner_code(code: CodeType) -> CodeType:
    return next(const for const in code.co_consts if isinstance(const, CodeType))


_ORIGINALS: dict[object, FunctionType] = {}


def keep(key: object, function: FunctionType, code: CodeType) -> None:
    """Lay away what `function` did while it had `code`; it is reached by `key` alone."""
    _ORIGINALS[key] = _copy_function(function, code)


def _copy_function(function: FunctionType, code: CodeType) -> FunctionType:
    """Return a function that does what `function` did while it had `code`."""
    body = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    body.__kwdefaults__ = function.__kwdefaults__
    body.__qualname__ = function.__qualname__
    return body


def keep_made(key: object, code: CodeType, namespace: dict[str, Any]) -> None:
    """Lay away the `code` that a factory makes functions of, for good: they may outlive their test."""
    cells = tuple(CellType() for _ in code.co_freevars)
    _ORIGINALS[key] = FunctionType(code, namespace, code.co_name, None, cells or None)


def make_function(key: object, cells: tuple[CellType, ...] | None) -> FunctionType:
    """The body with this closure, for a function that is no frozen tool (any more)."""
    body = _ORIGINALS[key]
    return FunctionType(body.__code__, body.__globals__, body.__name__, None, cells)


def lend(key: object, intercepted: PendingCall, cells: MadeOf | None = None) -> FunctionType:
    """The body, to run for a call that the backend lets through and whose outcome is not there yet."""
    if not intercepted.open:
        raise ReplayDiverged("refused: a recorded tool is never run while its answers are replayed")
    return _ORIGINALS[key] if cells is None else make_function(*cells)


def make_unintercepted(key: object, cells: MadeOf | None = None) -> FunctionType:
    """The body, where no test is recorded or replayed."""
    context = lanes.CALL_CONTEXT.get()
    if interceptions._running if context is None else not getattr(context.interception, "is_capture", False):
        raise ReplayDiverged("refused: a recorded tool is never run past the gate")
    return _ORIGINALS[key] if cells is None else make_function(*cells)


def empty(key: object) -> CodeType:
    """Take the body out for good; returns the very code object that was laid away."""
    return _ORIGINALS.pop(key).__code__


def is_kept(code: CodeType) -> bool:
    """Whether `code` is a body that lies here."""
    return any(body.__code__ is code for body in _ORIGINALS.values())


def wrap(owner: Any, name: str, make: Callable[[Seam], Seam], *, always: bool = False) -> None:
    """Put `make(original)` in the place of `owner.name`, which may be inherited. Twice does nothing.

    Where there is no such name nothing is wrapped. `always` is that of `replacing.shield`.
    """
    seam = inspect.getattr_static(owner, name, None)
    if seam is None:
        return
    mark = getattr(seam, "__agentreplay__", None)
    whose, original = mark if isinstance(mark, tuple) else (None, seam)
    # A second copy of our modules (test tools that restore sys.modules) takes over from the first.
    if whose is not interceptions.find_interception:
        made: Any = functools.wraps(original)(shield(make, original, always=always))
        made.__agentreplay__ = (interceptions.find_interception, original)
        replace_attribute(owner, name, made)


def wrap_code(function: FunctionType, make: Callable[[Seam], Seam]) -> None:
    """Run `make(original)` wherever `function` is called, whatever name it is held by.

    The code object is exchanged, not the name: a mock that puts another function in the name's place is what runs while
    it is active, and whatever it saved or restores is the wrapped function.
    """
    current, code = getattr(function, "__agentreplay__", (None, function.__code__))
    if current is interceptions.find_interception:
        return
    function.__code__ = code
    names = list_keyword_only(code)
    made = shield(make, _copy_function(function, code))

    def call(values: tuple[Any, ...], only: tuple[Any, ...], star: tuple[Any, ...], stars: dict[str, Any]) -> Any:
        __tracebackhide__ = True
        return made(*values, *star, **dict(zip(names, only, strict=True)), **stars)

    lead(function, call)
    mark_exchanged(function, code, interceptions.find_interception)


RUNNERS = frozenset({"_pytest", "pytest", "unittest"})


def find_exception(path: str) -> type | None:
    """The loaded exception class that is called `path`, made inside a function or not; None when there is none."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        exception: Any = sys.modules.get(".".join(parts[:cut]))
        for name in parts[cut:]:
            # Not getattr: a module's own __getattr__ may import or warn.
            exception = getattr(exception, "__dict__", {}).get(name)
        if isinstance(exception, type) and issubclass(exception, BaseException):
            return None if is_signal(exception) else exception
    from pytest_agentreplay.values.hints import find_class

    exception = find_class(BaseException, path)
    return None if exception is None or is_signal(exception) else exception


def is_exception(value: Any) -> bool:
    """Whether a value is an exception class that a file may name."""
    return isinstance(value, type) and issubclass(value, BaseException) and not is_signal(value)


def is_signal(kind: type) -> bool:
    """Whether a class is, or derives from, a test runner's own."""
    return any(base.__module__.partition(".")[0] in RUNNERS for base in kind.__mro__)
