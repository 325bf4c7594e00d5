"""Values to readable JSON and back, equal and of the same types: `freeze`, `thaw`, `same`.

JSON values stay as they are. What JSON cannot say stands in an object with one key: {"$tuple": [1, 2]}; a key of
the user's that begins with "$" is doubled. Standard-library values need no hint (`tags`); instances of classes need
one that comes from code (`objects`). A value that would not come back is refused, never approximated.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.freeze import hints, tags
from pytest_agentreplay.core.freeze.objects import Codec, Shape, shape_of
from pytest_agentreplay.core.freeze.refusal import refusal_of, unequal
from pytest_agentreplay.core.freeze.same import same
from pytest_agentreplay.core.freeze.thaw import FACTORIES, at_key, thaw
from pytest_agentreplay.errors import CannotFreeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.core.model import Json, JsonObject

__all__ = ["Codec", "freeze", "freeze_arguments", "same", "thaw"]


def freeze(value: Any, *, hint: Any = None, codecs: Sequence[Codec] = ()) -> Json:
    """Give `value` as JSON that `thaw` with the same `hint` and `codecs` makes an equal value of the same types from.

    `hint` is a type as `typing.get_type_hints` gives it. The JSON shares nothing with `value`. Raises CannotFreeze
    with the path, the type, and the line to paste that makes the value freezable.
    """
    try:
        return tags.copied(value)  # type: ignore[no-any-return]
    except (tags.NotPlain, RecursionError):
        pass
    walker = _Freezer(value, codecs)
    try:
        data = walker.walk(value, hint, None)
        if walker.trusted or comes_back(value, data, hint, codecs):
            return data
    except RecursionError:
        raise CannotFreeze("the value is nested too deeply to be frozen", path="$", kind=_kind(value)) from None
    # Once more, comparing at each instance, so that the innermost one that does not come back is the one blamed.
    _Freezer(value, codecs, blame=True).walk(value, hint, None)
    raise unequal(value, value, None)


def comes_back(value: Any, data: Json, hint: Any, codecs: Sequence[Codec]) -> bool:
    """Give whether `data` thaws to what `value` is."""
    try:
        return same(value, thaw(data, hint=hint, codecs=codecs), codecs=codecs)
    except RecursionError:
        raise
    except Exception:
        return False  # a class, a codec or an == of the user's that raises: it is refused by name


def freeze_arguments(arguments: Mapping[str, Any], *, codecs: Sequence[Codec] = ()) -> JsonObject:
    """Give the arguments of a call as JSON to compare calls by. Never fails, and is never thawed.

    Instances of known kinds of classes are written with their class's name and fields. Anything else, functions and
    open files among it, becomes {"$opaque": "module.Class"}: two such arguments are compared by type alone.
    """
    found: JsonObject = {}
    for name, value in arguments.items():
        try:
            found[name] = _Freezer(value, codecs, lenient=True).walk(value, None, None)
        except Exception:
            found[name] = {"$opaque": _kind(value)}  # nested without end, or a property of the user's that raises
    return found


def _kind(value: Any) -> str:
    return hints.dotted(type(value))


class _Freezer:
    """One walk over one value. `trusted` stays true while only JSON values have been met: they need no proof."""

    __slots__ = ("blame", "codecs", "given", "lenient", "open", "root", "trusted")

    def __init__(self, root: Any, codecs: Sequence[Codec], *, lenient: bool = False, blame: bool = False) -> None:
        self.root = root
        self.given = codecs
        self.codecs = {codec.type: codec for codec in codecs}
        self.lenient = lenient
        self.blame = blame
        self.open: set[int] = set()
        self.trusted = True

    def walk(self, value: Any, hint: Any, place: Any) -> Json:
        kind = type(value)
        if value is None or kind is bool or (kind is str and tags.is_plain_str(value)):
            return value  # type: ignore[no-any-return]
        if kind is int and tags.is_plain_int(value):
            return value  # type: ignore[no-any-return]
        if kind is float and tags.is_plain_float(value):
            return value  # type: ignore[no-any-return]
        if id(value) in self.open:
            return self._refused(value, place, "contains itself")
        self.open.add(id(value))
        try:
            return self._walk_into(value, kind, hints.narrow(hint), place)
        finally:
            self.open.discard(id(value))

    def _walk_into(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        if isinstance(hint, hints.Arms):
            return self._arm(value, hint, place)
        if kind is list:
            return self._items(value, hints.of_items(hint), place)
        if kind is dict:
            return self._dict(value, hint, place)
        self.trusted = False
        if kind in self.codecs:
            return self._coded(value, self.codecs[kind], place)
        if kind in tags.TAG_OF:
            try:
                return tags.write(value)
            except ValueError as error:
                return self._refused(value, place, f"has no exact form: {error}")
        if kind in _CONTAINERS:
            return self._container(value, kind, hint, place)
        return self._instance(value, kind, hint, place)

    def _items(self, value: Iterable[Any], below: Any, place: Any) -> list[Json]:
        return [self.walk(item, below, (place, f"[{i}]")) for i, item in enumerate(value)]

    def _dict(self, value: dict[Any, Any], hint: Any, place: Any) -> Json:
        if not all(type(key) is str and tags.is_plain_str(key) for key in value):
            self.trusted = False
            return {"$dict": self._pairs(value, hint, place)}
        by_key, (_, rest) = hints.of_keys(hint), hints.of_pairs(hint)
        found: JsonObject = {}
        for key, part in value.items():
            below = by_key.get(key) if by_key else rest
            found["$" + key if key[:1] == "$" else key] = self.walk(part, below, at_key(place, key))
        return found

    def _pairs(self, value: dict[Any, Any], hint: Any, place: Any) -> list[Json]:
        for_key, for_value = hints.of_pairs(hint)
        return [
            [self.walk(key, for_key, place), self.walk(part, for_value, (place, f"[{key!r}]"))]
            for key, part in value.items()
        ]

    def _container(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        tag = _CONTAINERS[kind]
        if kind is tuple:
            below = hints.of_places(hint, len(value))
            return {tag: [self.walk(part, below[i], (place, f"[{i}]")) for i, part in enumerate(value)]}
        if kind is set or kind is frozenset:
            # Sets come in another order in each process; a snapshot has one.
            return {tag: sorted(self._items(value, hints.of_items(hint), place), key=repr)}
        if kind is collections.deque:
            return {tag: [self._items(value, hints.of_items(hint), place), value.maxlen]}
        if kind is collections.defaultdict:
            factory = value.default_factory
            if factory is not None and FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
                return self._refused(value, place, "has a default_factory of its own; return a dict")
            return {tag: [factory and factory.__name__, self._pairs(value, hint, place)]}
        return {tag: self._pairs(value, hint, place)}

    def _arm(self, value: Any, union: hints.Arms, place: Any) -> Json:
        """The arm of a union whose class the value has; what needs no class is written as it is."""
        failures: list[CannotFreeze] = []
        for index, arm in sorted(enumerate((None, *union.hints), -1), key=lambda pair: _distance(value, *pair)):
            fresh = _Freezer(self.root, self.given, blame=True)
            fresh.open = self.open - {id(value)}
            try:
                data = fresh.walk(value, arm, place)
            except CannotFreeze as failure:
                failures.append(failure)
                continue
            self.trusted = self.trusted and fresh.trusted
            return data if arm is None or fresh.trusted else {"$arm": [index, hints.spelled(arm), data]}
        raise failures[0]

    def _coded(self, value: Any, codec: Codec, place: Any) -> Json:
        try:
            parts = codec.freeze(value)
        except Exception as error:
            return self._refused(value, place, f"is refused by its codec: {type(error).__name__}: {error}")
        return self._proved(value, {"$codec": [_kind(value), self.walk(parts, None, place)]}, None, place)

    def _instance(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        root, shape = hints.class_of(hint), shape_of(kind)
        if shape is None or not (self.lenient or (root is not None and issubclass(kind, root))):
            return self._refused(value, place)
        if kind is not root and root is not None and hints.named(root, _kind(value)) is not kind:
            return self._refused(value, place, "shares its name with a class loaded later")
        try:
            parts = shape.apart(value)
        except Exception as error:
            return self._refused(value, place, f"does not come apart: {type(error).__name__}: {error}")
        data = self._parts(parts, shape, kind, hint, place)
        # A list is the form of a subclass: the name that is looked up below the hint, and the parts.
        named = kind is not root or isinstance(data, list)
        return self._proved(value, {shape.tag: [_kind(value), data] if named else data}, hint, place)

    def _proved(self, value: Any, data: JsonObject, hint: Any, place: Any) -> JsonObject:
        if self.blame and not comes_back(value, data, hint, self.given):
            raise unequal(self.root, value, place)
        return data

    def _parts(self, parts: Any, shape: Shape, kind: type, hint: Any, place: Any) -> Json:
        if shape.tag != "$object" or not isinstance(parts, dict):
            return self.walk(parts, None, place)
        below = hints.of_fields(hint, kind, shape.hints(kind))
        return {name: self.walk(part, below.get(name), at_key(place, name)) for name, part in parts.items()}

    def _refused(self, value: Any, place: Any, why: str = "") -> Json:
        if self.lenient:
            return {"$opaque": _kind(value)}
        raise refusal_of(self.root, value, place, why)


def _distance(value: Any, index: int, arm: Any) -> tuple[int, int]:
    """Order in which arms are tried: the value as it is, then its own class, then a base of it, then the rest."""
    cls = hints.class_of(arm) if arm is not None else None
    if arm is None:
        return 0, index
    if cls is None:
        return 3, index
    return 1 if cls is type(value) else 2 if isinstance(value, cls) else 4, index


_CONTAINERS: dict[type, str] = {
    tuple: "$tuple",
    set: "$set",
    frozenset: "$frozenset",
    collections.deque: "$deque",
    collections.OrderedDict: "$ordereddict",
    collections.Counter: "$counter",
    collections.defaultdict: "$defaultdict",
}
