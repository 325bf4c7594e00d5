"""What a type hint says about the value below it: which class, which arm, which hint for each part.

Hints come from code (`returns=`, annotations), resolved by whoever calls; a hint that says nothing is None.
A snapshot names classes only for people: a name is looked up below the hinted class, among loaded subclasses.
"""

from __future__ import annotations

import functools
import types
import typing
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ForwardRef, NewType, ParamSpec, TypeVar, Union, get_args, get_origin

from pytest_agentreplay.values.tags import TAG_OF

if TYPE_CHECKING:
    from collections.abc import Iterable

# Hints from these modules say how values are arranged, never which class of the user's they have.
_ARRANGING = frozenset({"builtins", "collections", "collections.abc", "abc", "typing", "typing_extensions", "types"})
# By name: some live in typing only since 3.13, and typing_extensions has its own.
_WRAPPERS = frozenset({"Annotated", "Required", "NotRequired", "ReadOnly", "Final", "ClassVar"})


@dataclass(frozen=True, slots=True)
class Arms:
    """A union of which two arms or more name classes, so that a frozen value must say which arm it took."""

    hints: tuple[Any, ...]

    def find(self, index: int, name: str) -> Any:
        """The arm of that name, else the one at `index`; None when there is neither.

        The name goes first: `Cat | Dog` equals `Dog | Cat`, and typing's caches hand out either order.
        """
        for arm in self.hints:
            if spell_hint(arm) == name:
                return arm
        return self.hints[index] if 0 <= index < len(self.hints) else None


def narrow(hint: Any) -> Any:
    """The hint without what says nothing about values: None, a class, a generic alias, or `Arms`."""
    # Not cached: `Cat | Dog` and `Dog | Cat` are equal keys of a cache, and have their arms at other indexes.
    while hint is not None and hint is not Any and hint is not object:
        if isinstance(hint, type):
            return hint
        origin = get_origin(hint)
        if isinstance(hint, str | ForwardRef | ParamSpec):
            return None
        if isinstance(hint, TypeVar):
            hint = Union[hint.__constraints__] if hint.__constraints__ else hint.__bound__  # noqa: UP007  from a tuple
        elif isinstance(hint, NewType):
            hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            hint = hint.__value__
        elif origin is Union or origin is types.UnionType:
            return _narrow_union(get_args(hint))
        elif origin is typing.Literal:
            return _narrow_union(tuple({type(choice): None for choice in get_args(hint)}))
        elif getattr(origin, "_name", getattr(origin, "__name__", "")) in _WRAPPERS:
            hint = get_args(hint)[0]
        else:
            return hint
    return None


def _narrow_union(arms: tuple[Any, ...]) -> Any:
    classy = [arm for arm in arms if names_class(arm)]
    if len(classy) > 1:
        return Arms(tuple(narrow(arm) for arm in arms))
    return narrow(classy[0]) if classy else None


def names_class(hint: Any) -> bool:
    """Whether the hint names a class that a value may need to come back."""
    hint = narrow(hint)
    if hint is None:
        return False
    if isinstance(hint, Arms) or class_of(hint) is not None or typing.is_typeddict(get_origin(hint) or hint):
        return True
    return any(names_class(part) for part in get_args(hint) if part is not ...)


def class_of(hint: Any) -> type | None:
    """The user's class that a narrowed hint names, without its type arguments."""
    cls = hint if isinstance(hint, type) else get_origin(hint)
    if not isinstance(cls, type) or cls.__module__ in _ARRANGING or cls in TAG_OF or typing.is_typeddict(cls):
        return None
    return cls


def of_items(hint: Any, kind: type, count: int) -> Iterable[Any]:
    """The hints of `count` items of a container of class `kind`: a hint of a tuple has one for each place."""
    if hint is None:
        return repeat(None)
    args = get_args(hint)
    if get_origin(hint) is not tuple:
        return repeat(args[0] if args else None)
    if kind is not tuple:
        return repeat(None)
    if len(args) == 2 and args[1] is ...:
        return repeat(args[0])
    return args if len(args) == count else repeat(None)


def of_pairs(hint: Any) -> tuple[Any, Any]:
    """The hints of the keys and values of a dict."""
    args = get_args(hint)
    if len(args) == 2 and get_origin(hint) is not tuple:
        return args[0], args[1]
    return None, args[0] if len(args) == 1 else None


def of_keys(hint: Any) -> tuple[dict[str, Any], Any]:
    """The hints of the values of a dict by key, as a TypedDict has them, and that of the values of all other keys."""
    cls = get_origin(hint) or hint
    if not typing.is_typeddict(cls):
        return {}, of_pairs(hint)[1]
    return {name: _fill_hint(part, _arguments(hint)) for name, part in annotations_of(cls).items()}, None


def of_fields(hint: Any, cls: type, declared: dict[str, Any]) -> dict[str, Any]:
    """`declared` (the field hints of `cls`) with the type arguments of a generic hint filled in."""
    arguments = {} if isinstance(hint, type) or get_origin(hint) is not cls else _arguments(hint)
    return {name: _fill_hint(part, arguments) for name, part in declared.items()} if arguments else declared


@functools.lru_cache(maxsize=512)
def annotations_of(cls: type) -> dict[str, Any]:
    """The evaluated annotations of a class; where one cannot be evaluated, those that are types as they stand."""
    try:
        return typing.get_type_hints(cls)
    except Exception:
        # A name imported for type checkers only spoils get_type_hints for the whole class.
        evaluated: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            evaluated.update({k: v for k, v in vars(base).get("__annotations__", {}).items() if not isinstance(v, str)})
        return evaluated


def _arguments(hint: Any) -> dict[Any, Any]:
    parameters = getattr(get_origin(hint), "__parameters__", ())
    return dict(zip(parameters, get_args(hint), strict=False))


def _fill_hint(hint: Any, arguments: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return arguments.get(hint)
    parameters = getattr(hint, "__parameters__", ())
    if parameters and arguments and not isinstance(hint, type):
        return hint[tuple(arguments.get(parameter, Any) for parameter in parameters)]
    return hint


def find_class(root: type, name: str) -> type | None:
    """Return `root` or the loaded subclass of it that is called `name`; the newest when there are several."""
    subclasses: list[type] = type.__subclasses__(root)
    for cls in reversed(subclasses):
        if (nearest := find_class(cls, name)) is not None:
            return nearest
    return root if dotted_name(root) == name else None


def dotted_name(cls: type) -> str:
    """Return the name of a class as snapshots and messages give it: "shop.Order", "ValueError"."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def spell_hint(hint: Any) -> str:
    """Return a hint as one would write it: "list[shop.Order]"."""
    if hint is None or hint is Any:
        return "Any"
    if hint is ...:
        return "..."
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, Arms) or origin is Union or origin is types.UnionType:
        return " | ".join(map(spell_hint, hint.hints if isinstance(hint, Arms) else args))
    if isinstance(origin, type):
        return f"{dotted_name(origin)}[{', '.join(map(spell_hint, args))}]"
    if isinstance(hint, type):
        return "None" if hint is type(None) else dotted_name(hint)
    return str(hint)
