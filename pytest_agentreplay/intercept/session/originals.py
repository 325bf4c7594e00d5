"""Where the original bodies of redirected tools lie while a test runs.

The stubs hold none of them. There are two ways to them: `lend`, for a call that the backend lets through, and
`outside`, where no test is being recorded or replayed. In a replay neither works, whatever an agent does with a stub,
but for a read tool that somebody asked to verify, once for each answered call. `made` is for functions that share the
code of a frozen tool and are none.
"""

from __future__ import annotations

from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session.interceptions import current

if TYPE_CHECKING:
    from pytest_agentreplay.intercept.session.interceptions import InterceptedCall

    MadeOf = tuple[object, tuple[CellType, ...] | None]
    """Of a function that a factory has made: the key of its body, and its closure."""

_ORIGINALS: dict[object, FunctionType] = {}


def keep(key: object, function: FunctionType, code: CodeType) -> None:
    """Lay away what `function` did while it had `code`; it is reached by `key` alone."""
    body = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    body.__kwdefaults__ = function.__kwdefaults__
    body.__qualname__ = function.__qualname__
    _ORIGINALS[key] = body


def keep_made(key: object, code: CodeType, namespace: dict[str, Any]) -> None:
    """Lay away the `code` that a factory makes functions of, for good: they may outlive their test."""
    cells = tuple(CellType() for _ in code.co_freevars)
    _ORIGINALS[key] = FunctionType(code, namespace, code.co_name, None, cells or None)


def made(key: object, cells: tuple[CellType, ...] | None) -> FunctionType:
    """The body with this closure, for a function that is no frozen tool (any more)."""
    body = _ORIGINALS[key]
    return FunctionType(body.__code__, body.__globals__, body.__name__, None, cells)


def lend(key: object, intercepted: InterceptedCall, cells: MadeOf | None = None) -> FunctionType:
    """The body, to run for a call that the backend lets through and whose outcome is not there yet."""
    if not intercepted.open:
        raise ReplayDiverged("refused: a recorded tool is never run while its answers are replayed")
    return _ORIGINALS[key] if cells is None else made(*cells)


def outside(key: object, cells: MadeOf | None = None) -> FunctionType:
    """The body, where no test is recorded or replayed."""
    if current() is not None:
        raise ReplayDiverged("refused: a recorded tool is never run past the gate")
    return _ORIGINALS[key] if cells is None else made(*cells)


def empty(key: object) -> CodeType:
    """Take the body out for good; returns the very code object that was laid away."""
    return _ORIGINALS.pop(key).__code__


def holds(code: CodeType) -> bool:
    """Whether `code` is a body that lies here."""
    return any(body.__code__ is code for body in _ORIGINALS.values())
