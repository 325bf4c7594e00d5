"""The state of an instance, read without running a line of its class: no property, no `__getattr__`, no lazy load.

An instance holds attributes, in its `__dict__` and in slots, and what it is as a built-in class that it derives from:
the items of a list, the text of a string. A class of C's may hold what neither shows; its pickling may tell.
"""

from __future__ import annotations

import collections
import copy
import datetime as dt
import functools
import struct
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_CACHED = frozenset({"cached_property", "reify", "threaded_cached_property"})
"""Names of the descriptors, in whatever library, that keep what they computed in the instance's `__dict__`."""

_PARTS = {
    dt.datetime: ("year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo"),
    dt.date: ("year", "month", "day"),
    dt.time: ("hour", "minute", "second", "microsecond", "tzinfo"),
    dt.timedelta: ("days", "seconds", "microseconds"),
}


def _read_items(base: Any, value: Any) -> Any:
    return base(base.__iter__(value))


def _read_time(base: Any, value: Any) -> Any:
    fold = {"fold": value.fold} if "tzinfo" in _PARTS[base] else {}
    return base(*(getattr(value, name) for name in _PARTS[base]), **fold)


# By the methods of the base: what a subclass has overridden is not called.
_BASES: dict[type, Callable[[Any, Any], Any]] = {
    **dict.fromkeys((list, tuple, set, frozenset), _read_items),
    dict: lambda base, value: base(base.items(value)),
    collections.deque: lambda base, value: base(base.__iter__(value), value.maxlen),
    **dict.fromkeys((str, int, float, complex), lambda base, value: getattr(base, f"__{base.__name__}__")(value)),
    bytes: lambda base, value: base.__getnewargs__(value)[0],
    bytearray: lambda base, value: base(memoryview(value)),
    # A datetime is a date too, so it stands first.
    **dict.fromkeys(_PARTS, _read_time),
    BaseException: lambda _, value: tuple(value.args),
}
_DICTS = (collections.OrderedDict, collections.defaultdict, dict)
_FILLED = (list, set, bytearray, collections.deque)
"""Those that `__init__` fills and not `__new__`."""
EXACT = frozenset((*_BASES, *_DICTS, collections.Counter))
"""Classes of the standard library that are all content, as they are."""
_POINTER = struct.calcsize("P")


def base_of(value: Any) -> Any:
    """The built-in content of an instance: the items of a list, the text of a string; None where there is none.

    It is of exactly the built-in class; of an exception it is the tuple of its arguments.
    """
    cls: Any = type(value)
    base = builtin_of(cls) or (BaseException if issubclass(cls, BaseException) else None)
    if base is None and value.__class__ is not cls:
        # A proxy, which isinstance takes for what it stands for, and which cannot be read as that.
        base = next((base for base in _BASES if isinstance(value, base)), None)
    return None if base is None else _BASES[base](base, value)


@functools.lru_cache(maxsize=512)
def builtin_of(cls: Any) -> type | None:
    """The built-in class that a class derives from, as `base_of` has it; exceptions are none (see `values.failure`)."""
    return next((base for base in _BASES if base is not BaseException and issubclass(cls, base)), None)


def remake_instance(cls: Any, base: Any, value: Any) -> Any:
    """An instance of `cls` with the built-in content `value`, without running its `__init__` or its `__new__`."""
    if base is dict:
        made = next(ancestor for ancestor in cls.__mro__ if ancestor in _DICTS).__new__(cls)
        dict.update(made, value)
        return made
    args: tuple[Any, ...] = (value,)
    if base in _PARTS:
        args = value.__reduce__()[1]
    elif base is collections.deque:
        args = value, value.maxlen
    elif base is complex:
        args = value.real, value.imag
    made = base.__new__(cls, *args)
    if base in _FILLED:
        base.__init__(made, *args)
    return made


def attributes_of(value: Any) -> dict[str, Any]:
    """What stands in `__dict__` and in the slots of every class of the MRO.

    Left out are dunder names and what a `cached_property` has stored: that is computed again when it is asked for.
    """
    cls: Any = type(value)
    slots, read_dict, cached = _storage_of(cls)
    attributes: dict[str, Any] = {}
    for name, slot in slots:
        try:
            attributes[name] = slot.__get__(value, cls)
        except AttributeError:
            continue  # a slot that is not filled
    # The `__dict__` that the interpreter keeps: a proxy's own idea of it is not asked.
    kept = (read_dict and read_dict.__get__(value, cls)) or {}
    return attributes | {n: part for n, part in kept.items() if type(n) is str and n[:2] != "__" and n not in cached}


@functools.lru_cache(maxsize=512)
def _storage_of(cls: Any) -> tuple[list[tuple[str, MemberDescriptorType]], Any, frozenset[str]]:
    """Where a class and all that it derives from keep attributes: slots, `__dict__`, names of cached properties."""
    members = [(name, member) for base in reversed(cls.__mro__) for name, member in vars(base).items()]
    slots = [(n, m) for n, m in members if isinstance(m, MemberDescriptorType) and not n.startswith("__")]
    kinds = GetSetDescriptorType | MemberDescriptorType
    dicts = [member for name, member in members if name == "__dict__" and isinstance(member, kinds)]
    cached = frozenset(name for name, member in members if type(member).__name__ in _CACHED)
    return slots, dicts[-1] if dicts else None, cached


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
