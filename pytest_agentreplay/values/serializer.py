"""One walk over one value, which writes it down as JSON: instances of classes where a hint names the class.

What cannot be written is refused with its place, its class and the line to paste. `fn` in that line stands for the
tool; the boundary, which knows it, fills it in.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values import hints, tags
from pytest_agentreplay.values.deserializer import FACTORIES, at_key, format_path, load
from pytest_agentreplay.values.objects import Codec, ObjectShape, is_same, shape_of
from pytest_agentreplay.values.rows import is_row_class, list_unloaded, load_columns, row_apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject


def comes_back(value: Any, data: Json, hint: Any, codecs: Sequence[Codec]) -> bool:
    """Return whether `data` thaws to what `value` is."""
    try:
        return is_same(value, load(data, hint=hint, codecs=codecs), codecs=codecs)
    except RecursionError:
        raise
    except Exception:
        return False  # a class, a codec or an == of the user's that raises: it is refused by name


def _kind(value: Any) -> str:
    return hints.dotted_name(type(value))


class Serializer:
    """One walk over one value. `trusted` stays true while only JSON values have been met: they need no proof."""

    __slots__ = ("blame", "codec_list", "codecs", "lenient", "open", "root", "rows", "trusted")

    def __init__(self, root: Any, codecs: Sequence[Codec], *, lenient: bool = False, blame: bool = False) -> None:
        self.root = root
        self.codec_list = codecs
        self.codecs = {codec.type: codec for codec in codecs}
        self.lenient = lenient
        self.blame = blame
        self.open: dict[int, None] = {}
        self.rows: dict[int, int] = {}
        self.trusted = True

    def walk(self, value: Any, hint: Any, place: Any) -> Json:
        """Write one value, which stands at `place` below the root."""
        kind = type(value)
        if value is None or kind is bool or (kind is str and tags.is_plain_str(value)):
            return value  # type: ignore[no-any-return]
        if kind is int and tags.is_plain_int(value):
            return value  # type: ignore[no-any-return]
        if kind is float and tags.is_plain_float(value):
            return value  # type: ignore[no-any-return]
        if id(value) in self.rows:
            return {"$row": self.rows[id(value)]}
        if id(value) in self.open:
            return self._write_cycle(value, place)
        self.open[id(value)] = None
        try:
            return self._walk_into(value, kind, hints.narrow(hint), place)
        finally:
            self.open.pop(id(value), None)

    def _write_cycle(self, value: Any, place: Any) -> Json:
        return self._refuse(value, place, "contains itself")

    def _walk_into(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        if isinstance(hint, hints.Arms):
            return self._arm(value, hint, place)
        if kind is list:
            return self._items(value, hints.of_items(hint), place)
        if kind is dict:
            return self._dict(value, hint, place)
        self.trusted = False
        if kind in self.codecs:
            return self._write_coded(value, self.codecs[kind], place)
        if kind in tags.TAG_OF:
            try:
                return tags.write_leaf(value)
            except ValueError as error:
                return self._refuse(value, place, f"has no exact form: {error}")
        if kind in _CONTAINERS:
            return self._container(value, kind, hint, place)
        if is_row_class(kind):
            return self._row(value, place)
        return self._instance(value, kind, hint, place)

    def _row(self, value: Any, place: Any) -> Json:
        """A row of a database: its class is looked up among those that are mapped, so that it needs no hint."""
        load_columns(value)
        if missing := list_unloaded(value):
            text = f"{_kind(value)} at {format_path(place)} has columns that a commit has expired: {', '.join(missing)}"
            advice = "await session.refresh(row) before you return it, or make the session with expire_on_commit=False"
            raise CannotFreeze(f"{text}\n    {advice}", path=format_path(place), kind=_kind(value))
        self.rows[id(value)] = len(self.rows)
        parts, stands = row_apart(value)
        below = {name: self.walk(part, None, at_key(place, name)) for name, part in parts.items()}
        row: list[Json] = [_kind(value), below]
        return {"$row": [*row, self.walk(stands, None, place)] if stands else row}

    def _items(self, value: Iterable[Any], below: Any, place: Any) -> list[Json]:
        return [self.walk(item, below, (place, f"[{i}]")) for i, item in enumerate(value)]

    def _dict(self, value: dict[Any, Any], hint: Any, place: Any) -> Json:
        if not all(type(key) is str and tags.is_plain_str(key) for key in value):
            self.trusted = False
            return {"$dict": self._pairs(value, hint, place)}
        by_key, (_, rest) = hints.of_keys(hint), hints.of_pairs(hint)
        fields: JsonObject = {}
        for key, part in value.items():
            below = by_key.get(key) if by_key else rest
            fields["$" + key if key[:1] == "$" else key] = self.walk(part, below, at_key(place, key))
        return fields

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
                return self._refuse(value, place, "has a default_factory of its own; return a dict")
            return {tag: [factory and factory.__name__, self._pairs(value, hint, place)]}
        return {tag: self._pairs(value, hint, place)}

    def _arm(self, value: Any, union: hints.Arms, place: Any) -> Json:
        """The arm of a union whose class the value has; what needs no class is written as it is."""
        failures: list[CannotFreeze] = []
        for index, arm in sorted(enumerate((None, *union.hints), -1), key=lambda pair: _distance(value, *pair)):
            fresh = Serializer(self.root, self.codec_list, blame=True)
            fresh.rows = dict(self.rows)
            fresh.open = {key: None for key in self.open if key != id(value)}
            try:
                data = fresh.walk(value, arm, place)
            except CannotFreeze as failure:
                failures.append(failure)
                continue
            self.trusted = self.trusted and fresh.trusted
            self.rows = fresh.rows
            return data if arm is None or fresh.trusted else {"$arm": [index, hints.spell_hint(arm), data]}
        raise failures[0]

    def _write_coded(self, value: Any, codec: Codec, place: Any) -> Json:
        try:
            parts = codec.freeze(value)
        except Exception as error:
            return self._refuse(value, place, f"is refused by its codec: {type(error).__name__}: {error}")
        return self._prove(value, {"$codec": [_kind(value), self.walk(parts, None, place)]}, None, place)

    def _instance(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        root, shape = hints.class_of(hint), shape_of(kind)
        if shape is None or not (self.lenient or (root is not None and issubclass(kind, root))):
            return self._refuse(value, place)
        if kind is not root and root is not None and hints.find_class(root, _kind(value)) is not kind:
            return self._refuse(value, place, "shares its name with a class loaded later")
        try:
            parts = shape.apart(value)
        except Exception as error:
            return self._refuse(value, place, f"does not come apart: {type(error).__name__}: {error}")
        data = self._parts(parts, shape, kind, hint, place)
        # A list is the form of a subclass: the name that is looked up below the hint, and the parts.
        is_named = kind is not root or isinstance(data, list)
        return self._prove(value, {shape.tag: [_kind(value), data] if is_named else data}, hint, place)

    def _prove(self, value: Any, data: JsonObject, hint: Any, place: Any) -> JsonObject:
        if self.blame and not comes_back(value, data, hint, self.codec_list):
            raise unequal(self.root, value, place)
        return data

    def _parts(self, parts: Any, shape: ObjectShape, kind: type, hint: Any, place: Any) -> Json:
        if shape.tag != "$object" or not isinstance(parts, dict):
            return self.walk(parts, None, place)
        below = hints.of_fields(hint, kind, shape.hints(kind))
        return {name: self.walk(part, below.get(name), at_key(place, name)) for name, part in parts.items()}

    def _refuse(self, value: Any, place: Any, why: str = "") -> Json:
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
_MOST_ARMS = 6
"""Arms of a union that a line to paste spells out; above it writes Any."""


def refusal_of(root: Any, value: Any, place: Any, why: str = "") -> CannotFreeze:
    """The error for `value`, met at `place` inside `root`."""
    kind, where = _kind(value), format_path(place)
    if not why and any(hasattr(value, name) for name in ("__next__", "__anext__", "__await__")):
        text = "can be used only once, so it cannot be kept"
        advice = "return list(...) of it, or write the tool as a generator: those are kept item by item"
    else:
        text = why or "would not come back as itself: no annotation names its class"
        advice = _advise(root, value, why)
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return CannotFreeze(f"{article} {kind} at {where} {text}\n    {advice}", path=where, kind=kind)


def unequal(root: Any, value: Any, place: Any) -> CannotFreeze:
    """The error for a value that came back as another one."""
    return refusal_of(root, value, place, "comes back unequal when it is built from what was kept")


def _advise(root: Any, value: Any, why: str) -> str:
    kind: Any = type(value)
    if not why and shape_of(kind) is not None:
        reached: set[int] = set()
        expression = _spell(root, reached, 0)
        # Below a field of another class `returns=` does not reach: the field's own annotation decides there.
        if id(value) in reached:
            return f"agentreplay.tool(fn, returns={expression})"
    name = _code_name(kind)
    return f"agentreplay.codec({name}, {_pair(value, name)})"


def _pair(value: Any, name: str) -> str:
    kind: Any = type(value)
    shape = shape_of(kind) if kind not in tags.TAG_OF else None
    if shape is not None and shape.tag == "$enum":
        return f"lambda value: value.name, lambda name: {name}[name]"
    base = next((base for base in (str, int, float, bytes) if isinstance(value, base)), None)
    if base is not None:
        return f"{base.__name__}, {name}"
    if hasattr(value, "model_dump"):
        return f"{name}.model_dump, {name}.model_validate"
    if hasattr(value, "__dict__"):
        return f"vars, lambda data: {name}(**data)"
    return f"lambda value: ..., lambda data: {name}(...)"


def _code_name(cls: type) -> str:
    """The class as code near it would name it; a class made inside a function has its last name only."""
    return hints.dotted_name(cls) if "<locals>" not in cls.__qualname__ else cls.__name__


def _spell(value: Any, reached: set[int], depth: int) -> str:
    """A hint that fits `value`. `met` takes the ids of the instances that the hint reaches."""
    kind = type(value)
    if value is None:
        return "None"
    if depth > 6:
        return "Any"
    if kind is tuple:
        return f"tuple[{', '.join(_spell(part, reached, depth + 1) for part in value)}]" if value else "tuple[()]"
    if kind in (list, set, frozenset):
        return f"{kind.__name__}[{_union(value, reached, depth)}]" if value else kind.__name__
    if kind is dict:
        return f"dict[{_union(value, reached, depth)}, {_union(value.values(), reached, depth)}]" if value else "dict"
    reached.add(id(value))
    return _code_name(kind)


def _union(values: Iterable[Any], reached: set[int], depth: int) -> str:
    arms = dict.fromkeys(_spell(value, reached, depth + 1) for value in values)
    return " | ".join(arms) if len(arms) <= _MOST_ARMS else "Any"
