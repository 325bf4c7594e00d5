"""The state of an instance, read without running a line of its class: no property, no `__getattr__`, no lazy load."""

from __future__ import annotations

import collections
import copy
import datetime as dt
import functools
import struct
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

_CACHED = frozenset({"cached_property", "reify", "threaded_cached_property"})
"""Names of the descriptors, in whatever library, that keep what they computed in the instance's `__dict__`."""

_DATE = ("year", "month", "day")
_TIME = ("hour", "minute", "second", "microsecond", "tzinfo")

_BASES: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (list, lambda value: list(list.__iter__(value))),
    (dict, lambda value: dict(dict.items(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (collections.deque, lambda value: collections.deque(collections.deque.__iter__(value), value.maxlen)),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (complex, complex.__complex__),
    (bytes, lambda value: bytes.__getnewargs__(value)[0]),
    (bytearray, lambda value: bytearray(memoryview(value))),
    (dt.datetime, lambda value: _moment(value)),  # noqa: PLW0108  defined below
    (dt.date, lambda value: dt.date(*(getattr(value, name) for name in _DATE))),
    (dt.time, lambda value: dt.time(*(getattr(value, name) for name in _TIME), fold=value.fold)),
    (dt.timedelta, lambda value: dt.timedelta(value.days, value.seconds, value.microseconds)),
    (BaseException, lambda value: tuple(value.args)),
)


_DICTS = (collections.OrderedDict, collections.defaultdict, dict)
EXACT = frozenset((*(base for base, _ in _BASES), *_DICTS, collections.Counter))
"""Classes of the standard library that are all content, as they are."""
_POINTER = struct.calcsize("P")


def _moment(value: dt.datetime) -> dt.datetime:
    parts = (getattr(value, name) for name in (*_DATE, *_TIME))
    return dt.datetime(*parts, fold=value.fold)  # noqa: DTZ001  its tzinfo is the last of the parts


class Base(NamedTuple):
    """What an instance is as the built-in class that it derives from: `value` is of exactly that class."""

    type: type
    value: Any


def base_of(value: Any) -> Base | None:
    """The built-in content of an instance: the items of a list, the text of a string; None where there is none."""
    for base, read in _BASES:
        if isinstance(value, base):
            return Base(base, read(value))
    return None


@functools.lru_cache(maxsize=512)
def builtin_of(cls: Any) -> type | None:
    """The built-in class that a class derives from, as `base_of` has it; exceptions are none (see `values.failure`)."""
    return next((base for base, _ in _BASES if base is not BaseException and issubclass(cls, base)), None)


def remade(cls: Any, base: Any, value: Any) -> Any:
    """An instance of `cls` with the built-in content `value`, without running its `__init__` or its `__new__`."""
    if base in (dt.datetime, dt.date, dt.time, dt.timedelta):
        return base.__new__(cls, *value.__reduce__()[1])
    if base is dict:
        made = next(ancestor for ancestor in cls.__mro__ if ancestor in _DICTS).__new__(cls)
        dict.update(made, value)
        return made
    if base is collections.deque:
        made = base.__new__(cls)
        base.__init__(made, value, value.maxlen)
        return made
    if base in (list, set, bytearray):
        made = base.__new__(cls)
        base.__init__(made, value)
        return made
    return base.__new__(cls, value.real, value.imag) if base is complex else base.__new__(cls, value)


def attributes_of(value: Any) -> dict[str, Any]:
    """What stands in `__dict__` and in the slots of every class of the MRO.

    Left out are dunder names and what a `cached_property` has stored: that is computed again when it is asked for.
    """
    cls: Any = type(value)
    attributes: dict[str, Any] = {}
    for name, member in members_of(cls):
        try:
            attributes[name] = member.__get__(value, cls)
        except AttributeError:
            continue  # a slot that is not filled
    cached = cached_of(cls)
    kept = dict_of(value).items()
    return attributes | {n: part for n, part in kept if type(n) is str and not n.startswith("__") and n not in cached}


def dict_of(value: Any) -> dict[str, Any]:
    """The `__dict__` that the interpreter keeps; a proxy's own idea of it is not asked."""
    cls = type(value)
    for base in cls.__mro__:
        kept = vars(base).get("__dict__")
        if isinstance(kept, GetSetDescriptorType | MemberDescriptorType):
            return kept.__get__(value, cls) or {}
    return {}


@functools.lru_cache(maxsize=512)
def members_of(cls: Any) -> tuple[tuple[str, MemberDescriptorType], ...]:
    """The slots of a class and of all that it derives from, base classes first."""
    return tuple(
        (name, member)
        for base in reversed(cls.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType) and not name.startswith("__")
    )


@functools.lru_cache(maxsize=512)
def cached_of(cls: Any) -> frozenset[str]:
    """The names of the cached properties of a class."""
    return frozenset(
        name for base in cls.__mro__ for name, member in vars(base).items() if type(member).__name__ in _CACHED
    )


@functools.lru_cache(maxsize=512)
def has_hidden_state(cls: Any) -> bool:
    """Whether instances hold what neither `__dict__` nor slots show: that of a class of C's or Rust's.

    Their instances are larger than what is seen.
    """
    at: Any = cls
    while at is not None and at is not object and at not in EXACT:
        below = at.__base__
        fields = [name for name, member in vars(at).items() if isinstance(member, MemberDescriptorType)]
        seen = len({*fields, *(name for name in ("__dict__", "__weakref__") if name in vars(at))})
        if at.__itemsize__ or at.__basicsize__ - (below or object).__basicsize__ > seen * _POINTER:
            return True
        at = below
    return False


def reduce_instance(value: Any) -> tuple[Any, ...] | None:
    """Return what an instance of a class of C's is made of, by its own pickling; None where that does not show it.

    `re.compile` gives its pattern and flags. Never asked of a class that pickles by Python code.
    """
    cls = type(value)
    if cls.__module__ == "itertools":
        return None  # deprecated since 3.12, and gone in 3.14
    for name in ("__reduce_ex__", "__reduce__", "__getstate__"):
        if isinstance(getattr(cls, name, None), FunctionType):
            return None
    reducer = vars(copy)["dispatch_table"].get(cls)  # that of copyreg, where re.Pattern is registered
    try:
        made = value.__reduce_ex__(4) if reducer is None else reducer(value)
    except Exception:
        return None  # "cannot pickle": a socket, a lock, a handle of a library
    if not isinstance(made, tuple) or len(made) < 2:
        return None
    args = tuple(part for part in made[1] if part is not cls)
    state = made[2] if len(made) > 2 else None
    return (*args, state) if args or state is not None else None
