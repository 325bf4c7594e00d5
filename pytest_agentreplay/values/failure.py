"""Exceptions as values, and back: of the same class when it is loaded, else a typed stand-in; the same text always.

Rebuilding runs no `__init__` of the user's: it may need what only the first time had. Arguments and attributes come
back as far as they could be frozen. A file never makes anything raised that is no Exception and has a meaning of its
own (a test skipped, the session ended): such a failure comes back as a stand-in that `except Exception` lets pass.
"""

from __future__ import annotations

import builtins
import functools
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.model.exchanges import Failure
from pytest_agentreplay.values import freeze, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
    members: list[Failure] = []
    if isinstance(error, BaseExceptionGroup):
        members = [failure_of(member, codecs) for member in error.exceptions]
        if all(member.cancelled for member in members):
            return members[0]
    kind = type(error)
    try:
        message = str(error)
    except Exception:
        message = ""  # a broken __str__ is the agent's, and no reason to lose the exchange
    args = _freeze_arguments(error, members, codecs)
    return Failure(_dotted_name(kind), message, args, tuple(map(_dotted_name, kind.__mro__[1:-1])))


def raise_able(failure: Failure, find: Find, codecs: Sequence[Codec] = ()) -> BaseException:
    """Return a new exception to raise in the stead of the recorded one; `str()` of it is the recorded message.

    `find` gives the loaded class of a dotted name, or None. A stand-in derives from the nearest loaded base and is
    one class per type: `except` and `isinstance` work between two of them.
    """
    args, attributes = _load_arguments(failure, find, codecs)
    kind = _find_exception((failure.type,), find)
    if kind is not None:
        # A class with its own ideas of what it is made of may raise; its stand-in has its name and base.
        with suppress(Exception):
            made = _build(kind, args)
            if attributes:
                vars(made).update(attributes)
            if str(made) == failure.message:
                return made
    is_ordinary = not failure.bases or "builtins.Exception" in failure.bases
    base = kind or _find_exception(failure.bases, find) or (Exception if is_ordinary else BaseException)
    made = _build_stand_in(failure, base, args)
    vars(made).update(attributes, **{_TEXT: failure.message})
    return made


def _find_exception(names: Iterable[str], find: Find) -> type[Exception] | None:
    """The first loaded class of those names; none that `except Exception` would not catch."""
    return next((cls for cls in map(find, names) if isinstance(cls, type) and issubclass(cls, Exception)), None)


def _dotted_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _freeze_arguments(error: BaseException, members: list[Failure], codecs: Sequence[Codec]) -> tuple[Json, ...]:
    """The arguments of an exception, and its attributes behind them where it has some."""
    args: tuple[Json, ...] = ()
    if isinstance(error, BaseExceptionGroup):
        args = (error.message, {_MEMBERS: [[m.type, m.message, [*m.args], [*m.bases]] for m in members]})
    else:
        # OSError keeps its file names apart from its args; only its own __reduce__ has all of them.
        parts = OSError.__reduce__(error)[1] if isinstance(error, OSError) else _list_parts(error) or error.args
        with suppress(CannotFreeze):
            args = tuple(freeze(argument, codecs=codecs) for argument in parts)
    attributes: dict[str, Json] = {}
    for name, value in getattr(error, "__dict__", {}).items():
        with suppress(CannotFreeze):
            attributes[name] = freeze(value, codecs=codecs)
    return (*args, {_ATTRIBUTES: attributes}) if attributes else args


def _is_pydantics(kind: type) -> bool:
    """Whether a class is pydantic's ValidationError, which is final, and made by a way of its own."""
    return kind.__module__.startswith("pydantic_core.") and hasattr(kind, "from_exception_data")


def _list_parts(error: Any) -> tuple[Any, ...]:
    """What pydantic's ValidationError is made of; nothing for any other."""
    if not _is_pydantics(type(error)):
        return ()
    lines = [{key: line[key] for key in ("type", "loc", "input", "ctx") if key in line} for line in error.errors()]
    for line in lines:
        if "error" in line.get("ctx", {}):
            line["ctx"] = line["ctx"] | {"error": str(line["ctx"]["error"])}
    return error.title, lines


def _load_arguments(failure: Failure, find: Find, codecs: Sequence[Codec]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args: list[Any] = list(failure.args)
    attributes = {}
    if args and isinstance(args[-1], dict) and args[-1].keys() == {_ATTRIBUTES}:
        attributes = {name: load(value, codecs=codecs) for name, value in args.pop()[_ATTRIBUTES].items()}
    loaded: list[Any] = []
    for argument in args:
        if isinstance(argument, dict) and argument.keys() == {_MEMBERS}:
            members = (Failure(kind, text, tuple(a), tuple(bases)) for kind, text, a, bases in argument[_MEMBERS])
            loaded.append([raise_able(member, find, codecs) for member in members])
        else:
            loaded.append(load(argument, codecs=codecs))
    return tuple(loaded) or (failure.message,) * bool(failure.message), attributes


def _build(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An instance made by the built-in part of its class alone, or by the one way that its class has."""
    if _is_pydantics(kind):
        return kind.from_exception_data(*args)  # type: ignore[attr-defined,no-any-return]
    builtin: Any = next(base for base in kind.__mro__ if vars(builtins).get(base.__name__) is base)
    made: BaseException = builtin.__new__(kind, *args)
    if not isinstance(made, BaseExceptionGroup):
        builtin.__init__(made, *args)
    return made


def _build_stand_in(failure: Failure, base: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """A stand-in below `base`, or below the nearest class that it derives from and that lets itself be derived."""
    for nearest in base.__mro__:
        with suppress(TypeError):  # of a class of C's that is final
            return _build(_stand_in(failure.type, nearest), args)
    raise AssertionError  # BaseException is among them


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
