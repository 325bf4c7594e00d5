"""Exceptions as values, and back: of the same class when it is loaded, else a typed stand-in; the same text always.

Rebuilding runs no `__init__` of the user's: it may need what only the first time had. Arguments and attributes come
back as far as they could be frozen. A file never makes anything raised that is no Exception and has a meaning of its
own (a test skipped, the session ended): such a failure comes back as a stand-in that `except Exception` lets pass.
"""

from __future__ import annotations

import builtins
import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.model.exchanges import Failure
from pytest_agentreplay.values import freeze, load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.values import Codec

    Find = Callable[[str], type | None]

# Two forms that stand among frozen arguments only: the attributes (last), and the members of an exception group.
_ATTRIBUTES, _MEMBERS = "$attributes", "$failures"
_TEXT = "_recorded_text"


def failure_of(error: BaseException, codecs: Sequence[Codec] = ()) -> Failure:
    """Return `error` as a value. Arguments and attributes that cannot be frozen are left out, never approximated.

    A group of nothing but cancellations is one cancellation: a nursery wraps what was cancelled in it.
    """
    if isinstance(error, BaseExceptionGroup):
        members = [failure_of(member, codecs) for member in error.exceptions]
        if all(member.cancelled for member in members):
            return members[0]
    kind = type(error)
    try:
        message = str(error)
    except Exception:
        message = ""  # a broken __str__ is the agent's, and no reason to lose the exchange
    return Failure(_dotted_name(kind), message, _arguments(error, codecs), tuple(map(_dotted_name, kind.__mro__[1:-1])))


def raise_able(failure: Failure, find: Callable[[str], type | None], codecs: Sequence[Codec] = ()) -> BaseException:
    """Return a new exception to raise in the stead of the recorded one; `str()` of it is the recorded message.

    `find` gives the loaded class of a dotted name, or None. A stand-in derives from the nearest loaded base and is
    one class per type: `except` and `isinstance` work between two of them.
    """
    args, attributes = _thaw(failure, find, codecs)
    kind = _exception(failure.type, find)
    if kind is not None:
        try:
            made = _built(kind, args)
            if attributes:
                vars(made).update(attributes)
            if str(made) == failure.message:
                return made
        except Exception:  # noqa: S110  a class with its own ideas of what it is made of; its stand-in has its name and base
            pass
    made = _stand_in_for(failure, kind or _base(failure, find), args)
    vars(made).update(attributes, **{_TEXT: failure.message})
    return made


def _stand_in_for(failure: Failure, base: Any, args: tuple[Any, ...]) -> BaseException:
    """A stand-in below `base`, or below the nearest class that it derives from and that lets itself be derived."""
    for nearest in base.__mro__:
        try:
            return _built(_stand_in(failure.type, nearest), args)
        except TypeError:
            continue  # a class of C's that is final
    raise AssertionError  # BaseException is among them


def _dotted_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _arguments(error: BaseException, codecs: Sequence[Codec]) -> tuple[Json, ...]:
    args: tuple[Json, ...]
    if isinstance(error, BaseExceptionGroup):
        members = [failure_of(member, codecs) for member in error.exceptions]
        args = (error.message, {_MEMBERS: [[m.type, m.message, [*m.args], [*m.bases]] for m in members]})
    else:
        # OSError keeps its file names apart from its args; only its own __reduce__ has all of them.
        parts = OSError.__reduce__(error)[1] if isinstance(error, OSError) else _lines(error) or error.args
        try:
            args = tuple(freeze(argument, codecs=codecs) for argument in parts)
        except CannotFreeze:
            args = ()
    attributes: dict[str, Json] = {}
    for name, value in getattr(error, "__dict__", {}).items():
        try:
            attributes[name] = freeze(value, codecs=codecs)
        except CannotFreeze:
            continue
    return (*args, {_ATTRIBUTES: attributes}) if attributes else args


def _is_pydantics(kind: type) -> bool:
    """Whether a class is pydantic's ValidationError, which is final, and made by a way of its own."""
    return kind.__module__.startswith("pydantic_core.") and hasattr(kind, "from_exception_data")


def _lines(error: Any) -> tuple[Any, ...]:
    """What pydantic's ValidationError is made of; nothing for any other."""
    if not _is_pydantics(type(error)):
        return ()
    lines = [{key: line[key] for key in ("type", "loc", "input", "ctx") if key in line} for line in error.errors()]
    for line in lines:
        if "error" in line.get("ctx", {}):
            line["ctx"] = line["ctx"] | {"error": str(line["ctx"]["error"])}
    return error.title, lines


def _thaw(failure: Failure, find: Find, codecs: Sequence[Codec]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, attributes = list(failure.args), {}
    if args and isinstance(args[-1], dict) and args[-1].keys() == {_ATTRIBUTES}:
        attributes = {name: load(value, codecs=codecs) for name, value in args.pop()[_ATTRIBUTES].items()}  # type: ignore[union-attr,call-overload,index]
    return tuple(_argument(argument, find, codecs) for argument in args) or (failure.message,) * bool(
        failure.message
    ), attributes


def _argument(data: Any, find: Find, codecs: Sequence[Codec]) -> Any:
    if isinstance(data, dict) and data.keys() == {_MEMBERS}:
        members = (Failure(kind, text, tuple(args), tuple(bases)) for kind, text, args, bases in data[_MEMBERS])
        return [raise_able(member, find, codecs) for member in members]
    return load(data, codecs=codecs)


def _built(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An instance made by the built-in part of its class alone, or by the one way that its class has."""
    if _is_pydantics(kind):
        return kind.from_exception_data(*args)  # type: ignore[attr-defined,no-any-return]
    builtin: Any = next(base for base in kind.__mro__ if vars(builtins).get(base.__name__) is base)
    made: BaseException = builtin.__new__(kind, *args)
    if not isinstance(made, BaseExceptionGroup):
        builtin.__init__(made, *args)
    return made


def _exception(name: str, find: Find) -> type[Exception] | None:
    cls = find(name)
    return cls if isinstance(cls, type) and issubclass(cls, Exception) else None


def _base(failure: Failure, find: Find) -> type[BaseException]:
    for name in failure.bases:
        if (cls := _exception(name, find)) is not None:
            return cls
    ordinary = not failure.bases or "builtins.Exception" in failure.bases
    return Exception if ordinary else BaseException


@functools.lru_cache(maxsize=512)
def _stand_in(name: str, base: Any) -> Any:
    module, _, qualname = name.rpartition(".")
    outer, mark, inner = name.partition(".<locals>.")
    if mark:
        # "shop.cart.pay.<locals>.Refused": where the module ends is unknown; the function's name is its last part.
        module, _, function = outer.rpartition(".")
        qualname = f"{function}{mark}{inner}"

    def __str__(self: BaseException) -> str:  # noqa: N807  it becomes the class's
        return str(vars(self).get(_TEXT, ""))

    body = {"__module__": module, "__qualname__": qualname, "__str__": __str__}
    return type(qualname.rpartition(".")[2], (base,), body)
