"""The arguments of a call by parameter name, as a recording shows and compares them.

An iterator among them is read before the call, so that what it holds can be compared. In a replay nobody consumes it,
so it is read then as it was when recording. The tool gets a generator of the same items; an exception that the reading
ended with is raised where it would have been. What is read by its state (the iterator of a list) and instances of the
user's own iterator classes are left alone.
"""

from __future__ import annotations

import inspect
import itertools
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.values import ArgumentContent
from pytest_agentreplay.values.hints import dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from types import CodeType


_COLLECTING = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Arguments:
    """How calls of one function are named: through its wrappers where they show its signature, else by its own."""

    __slots__ = ("_defaults", "_receives", "_signatures")

    def __init__(self, function: FunctionType, *, bound: bool) -> None:
        """Read the signatures once. `bound` says that the first argument is `self` or `cls` whatever its name."""
        self._signatures = _signatures(function)
        self._defaults = defaults_of(self._signatures[0])
        self._receives = bound or _receives(function, self._signatures[0])

    def name_values(self, positional: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments, defaults too, without `self` or `cls`; empty `*` and `**` are left out."""
        for signature in self._signatures:
            try:
                bound = signature.bind(*positional, **keywords)
            except TypeError:
                continue  # a __signature__ or __wrapped__ that is for show; the last one is the function's own
            bound.apply_defaults()
            break
        by_name = dict(bound.arguments)
        for at, (name, parameter) in enumerate(signature.parameters.items()):
            received = self._receives and at == 0
            if parameter.kind is parameter.VAR_POSITIONAL:
                by_name[name] = list(by_name[name][received:])
            if (parameter.kind in _COLLECTING and not by_name[name]) or (
                received and parameter.kind not in _COLLECTING
            ):
                del by_name[name]
        return by_name

    def receiver(self, positional: tuple[Any, ...]) -> Any:
        """The instance or the class that a method is called on; None of a function."""
        return positional[0] if self._receives and positional else None

    def defaults(self, by_name: Mapping[str, Any]) -> frozenset[str]:
        """Which of the named arguments are what the function takes where nobody gives them."""
        return find_defaulted(by_name, self._defaults)


def defaults_of(signature: inspect.Signature) -> dict[str, Any]:
    """The parameters that need not be given, with what they are then."""
    return {name: it.default for name, it in signature.parameters.items() if it.default is not it.empty}


def find_defaulted(by_name: Mapping[str, Any], defaults: Mapping[str, Any]) -> frozenset[str]:
    """Return the arguments that are their defaults: the very objects, since a stranger's `==` may do anything."""
    return frozenset(name for name, value in by_name.items() if name in defaults and value is defaults[name])


def _signatures(function: FunctionType) -> tuple[inspect.Signature, ...]:
    """How the function shows itself, then how it really is."""
    bare = FunctionType(function.__code__, {}, "bare", function.__defaults__, function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    own = inspect.signature(bare)
    try:
        return inspect.signature(function), own
    except (ValueError, TypeError):
        return (own,)


def _receives(function: FunctionType, signature: inspect.Signature) -> bool:
    """Whether the first parameter is the instance or the class of a method."""
    first = next(iter(signature.parameters), "")
    holder = function.__qualname__.rpartition(".")[0]
    return first in {"self", "cls", "mcs"} and holder != "" and not holder.endswith("<locals>")


def format_parameters(code: CodeType, function: FunctionType) -> str:
    """Return the parameters of a function by its own code, which is not the one that stands in for it now."""
    names, plain = code.co_varnames, code.co_argcount
    first_default = plain - len(function.__defaults__ or ())
    parts = [name + "=" * (place >= first_default) for place, name in enumerate(names[:plain])]
    keywords = names[plain : plain + code.co_kwonlyargcount]
    rest = iter(names[plain + len(keywords) :])
    if code.co_flags & inspect.CO_VARARGS:
        parts.append(f"*{next(rest)}")
    elif keywords:
        parts.append("*")
    parts += [name + "=" * (name in (function.__kwdefaults__ or {})) for name in keywords]
    parts += [f"**{next(rest)}"] if code.co_flags & inspect.CO_VARKEYWORDS else []
    return ", ".join(parts)


MOST = 1000
"""Items that are read and compared; an iterator may have no end."""

_READ = (GeneratorType, map, filter, zip, enumerate)


class ReadIterator:
    """What an iterator held: compared by these attributes."""

    def __init__(self, iterator: Any) -> None:
        """Read it, to its end or as far as MOST."""
        self.kind = dotted_name(type(iterator))
        self.items: list[Any] = []
        self.error: BaseException | None = None
        self.more = False
        self._iterator = iterator
        try:
            for item in itertools.islice(iterator, MOST):
                self.items.append(item)
        except Exception as error:
            self.error = error
        self.more = self.error is None and len(self.items) == MOST

    def iterate_again(self) -> Generator[Any, Any, Any]:
        """Yield the same items anew, and what was not read."""
        yield from self.items
        if self.error is not None:
            raise self.error
        if self.more:
            yield from self._iterator


CallValues: TypeAlias = "tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]"
"""Positional arguments, those of a `*` parameter, and keywords."""


def read_iterators(
    values: tuple[Any, ...], star: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[CallValues, CallValues]:
    """Return the arguments to compare, where iterators have been read, and those to call the tool with."""
    original = values, star, keywords
    if not any(map(must_be_read, (*values, *star, *keywords.values()))):
        return original, original
    already_read: dict[int, ReadIterator] = {}

    def read_value(value: Any) -> Any:
        if not must_be_read(value):
            return value
        if id(value) not in already_read:
            already_read[id(value)] = ReadIterator(value)
        return already_read[id(value)]

    def restore_value(value: Any) -> Any:
        return value.iterate_again() if type(value) is ReadIterator else value

    compared = _change_each(original, read_value)
    return compared, _change_each(compared, restore_value)


def _change_each(original: CallValues, change: Callable[[Any], Any]) -> CallValues:
    values, star, keywords = original
    return (*map(change, values),), (*map(change, star),), {name: change(value) for name, value in keywords.items()}


def must_be_read(value: Any) -> bool:
    """Return whether an argument is an iterator that has to be read to be compared."""
    kind = type(value)
    return kind in _READ or kind.__module__ == "itertools"


def content_of_iterator(value: Any) -> ArgumentContent | None:
    """What an iterator that was read is compared by; None of anything else."""
    if type(value) is not ReadIterator:
        return None
    items: dict[str, Any] = {"items": value.items}
    if value.error is not None:
        items["error"] = [dotted_name(type(value.error)), str(value.error)]
    return ArgumentContent(items, kind=value.kind, gap=f"goes on after {MOST:,} items" if value.more else "")
