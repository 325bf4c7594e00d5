"""Exceptions of HTTP libraries as values, and back as today's classes.

A class is looked up among the loaded modules only; data never imports. It never raises what is no Exception, nor a
signal of a test runner: a file must not be able to skip a test or end the session. httpx and httpx2 are two names of
one family, so a failure recorded through one comes back through the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.model import Failure
from pytest_agentreplay.intercept.session.loaded import loaded_exception

if TYPE_CHECKING:
    from types import ModuleType

FAMILY = frozenset({"httpx", "httpx2"})
STAND_IN = "__agentreplay_stand_in__"
_ROOTS = frozenset({"builtins.Exception", "builtins.BaseException"})
_SCALARS = (str, int, float, bool, type(None))


def frozen(error: BaseException) -> Failure:
    """`error` as a value; its arguments are kept when all of them are plain."""
    kind = type(error)
    try:
        message = str(error)
    except Exception:
        message = ""  # its own broken __str__ must not cost the exchange
    args = error.args if all(type(value) in _SCALARS for value in error.args) else ()
    return Failure(dotted(kind), message, args, tuple(map(dotted, kind.__mro__[1:-1])))


def dotted(kind: type) -> str:
    """The dotted path of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def thawed(failure: Failure, library: ModuleType) -> BaseException:
    """The exception to raise in `library` (httpx or httpx2): of the same class, else a stand-in of the same name."""
    kind: type[BaseException] = found(failure.type, library) or stand_in(failure, library)
    args = failure.args or (failure.message,)
    if kind.__module__.partition(".")[0] in FAMILY:
        try:
            return kind(*args)  # sets what the library reads later, such as `.request`
        except Exception:  # noqa: S110  then it is built without its constructor, below
            pass
    # No constructor of a class that a file names is ever run; OSError takes its errno in __new__.
    builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    error: BaseException = builtin.__new__(kind, *args)
    error.args = args
    return error


def stand_in(failure: Failure, library: ModuleType) -> type[BaseException]:
    """A class of the same name under the nearest base that is at hand.

    What was no Exception gets one that `except Exception` does not catch either.
    """
    ordinary = not failure.bases or "builtins.Exception" in failure.bases
    near = (found(base, library) for base in failure.bases if base not in _ROOTS)
    base = next((kind for kind in near if kind is not None), RuntimeError if ordinary else BaseException)
    module, _, name = failure.type.rpartition(".")
    return type(name, (base,), {"__module__": module, STAND_IN: True})


def found(path: str, library: ModuleType) -> type[Exception] | None:
    """The loaded Exception class at the dotted `path`, httpx's and httpx2's being those of `library`."""
    name, _, kind = path.rpartition(".")
    value = loaded_exception(f"{library.__name__ if name in FAMILY else name}.{kind}")
    return value if value is not None and issubclass(value, Exception) and not hasattr(value, STAND_IN) else None
