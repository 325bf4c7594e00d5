"""Frozen values back to Python values: fresh objects each time, classes from hints and codecs alone.

`plain` looks up no class: it returns what people read and assert on, a dataclass as a dict of its fields.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values import hints, tags
from pytest_agentreplay.values.objects import SHAPE_TAGS, shape_of
from pytest_agentreplay.values.rows import row_blank, row_class, row_fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.values.objects import Codec

FACTORIES = {f.__name__: f for f in (list, dict, set, int, float, str, bool, tuple, frozenset, bytes)}


def load(data: Json, *, hint: Any = None, codecs: Sequence[Codec] = ()) -> Any:
    """Return the value that was frozen, made anew.

    `hint` and `codecs` are those of the freezing; a class that has been renamed since is still met by its hint.
    Raises CannotFreeze when the data does not fit the code of today; `path` says where.
    """
    try:
        return tags.copy_plain(data)
    except (tags.NotPlain, RecursionError):
        pass
    try:
        return _Thawer(codecs).walk(data, hint, None)
    except RecursionError:
        raise CannotFreeze(
            "at $: the recorded value is nested too deeply", path="$", kind=type(data).__name__
        ) from None


def format_path(place: Any) -> str:
    """Return a place as a JSON path: "$.orders[0].total"."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(step)
    return "$" + "".join(reversed(steps))


def at_key(place: Any, key: str) -> Any:
    """The place one key below."""
    return place, f".{key}" if key.isidentifier() else f"[{key!r}]"


class _Thawer:
    __slots__ = ("codecs", "rows")

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self.codecs = {hints.dotted_name(codec.type): codec for codec in codecs}
        self.rows: list[Any] = []

    def walk(self, data: Any, hint: Any, place: Any) -> Any:
        if type(data) is list:
            below = hints.of_items(hints.narrow(hint))
            return [self.walk(item, below, (place, f"[{i}]")) for i, item in enumerate(data)]
        if type(data) is not dict:
            return data
        if len(data) == 1:
            ((tag, payload),) = data.items()
            if tag[:1] == "$" and tag[1:2] != "$":
                return self._load_tagged(tag, payload, hints.narrow(hint), place)
        return self._fields(data, hints.narrow(hint), place)

    def _fields(self, data: dict[str, Any], hint: Any, place: Any) -> dict[str, Any]:
        by_key, (_, rest) = hints.of_keys(hint), hints.of_pairs(hint)
        fields = {}
        for raw, part in data.items():
            key = raw[1:] if raw[:2] == "$$" else raw
            fields[key] = self.walk(part, by_key.get(key) if by_key else rest, at_key(place, key))
        return fields

    def _load_tagged(self, tag: str, payload: Any, hint: Any, place: Any) -> Any:
        try:
            if tags.is_leaf_tag(tag):
                return tags.read_leaf({tag: payload})
            if tag in SHAPE_TAGS:
                return self._instance(tag, payload, hint, place)
            if tag == "$row":
                return self._row(payload, hint, place)
            if tag == "$codec":
                return self._load_coded(payload, place)
            if tag == "$arm":
                return self._arm(payload, hint, place)
            return self._container(tag, payload, hint, place)
        except CannotFreeze:
            raise
        except Exception as error:
            raise _misfit(f"the recorded {tag} does not fit: {type(error).__name__}: {error}", place, tag) from error

    def _container(self, tag: str, payload: Any, hint: Any, place: Any) -> Any:
        match tag:
            case "$tuple":
                below = hints.of_places(hint, len(payload))
                return tuple(self.walk(p, below[i], (place, f"[{i}]")) for i, p in enumerate(payload))
            case "$set" | "$frozenset":
                items = self.walk(payload, hint, place)
                return set(items) if tag == "$set" else frozenset(items)
            case "$deque":
                return collections.deque(self.walk(payload[0], hint, place), payload[1])
            case "$dict":
                return dict(self._pairs(payload, hint, place))
            case "$ordereddict":
                return collections.OrderedDict(self._pairs(payload, hint, place))
            case "$counter":
                return collections.Counter(dict(self._pairs(payload, hint, place)))
            case "$defaultdict":
                factory = None if payload[0] is None else FACTORIES[payload[0]]
                return collections.defaultdict(factory, self._pairs(payload[1], hint, place))
            case "$opaque":
                raise _misfit(f"a {payload} was recorded by its type only; record again", place, str(payload))
            case _:
                raise _misfit(f"the tag {tag} is not known to this version", place, tag)

    def _pairs(self, payload: Any, hint: Any, place: Any) -> list[tuple[Any, Any]]:
        for_key, for_value = hints.of_pairs(hint)
        pairs = []
        for raw, part in payload:
            key = self.walk(raw, for_key, place)
            pairs.append((key, self.walk(part, for_value, (place, f"[{key!r}]"))))
        return pairs

    def _arm(self, payload: Any, hint: Any, place: Any) -> Any:
        index, name, data = payload
        arm = hint.find(index, name) if isinstance(hint, hints.Arms) else hint
        if arm is None:
            raise _misfit(f"{name} is no longer one of {hints.spell_hint(hint)}", place, name)
        return self.walk(data, arm, place)

    def _load_coded(self, payload: Any, place: Any) -> Any:
        name, data = payload
        codec = self.codecs.get(name)
        if codec is None:
            raise _misfit(f"no codec for {name} is registered; add agentreplay.codec({name}, ...)", place, name)
        return codec.thaw(self.walk(data, None, place))

    def _row(self, payload: Any, hint: Any, place: Any) -> Any:
        if isinstance(payload, int):
            return self.rows[payload]
        name, parts, *stands = payload
        cls = row_class(name, hint)
        if cls is None:
            raise _misfit(f"{name} is no loaded class of a table", place, name)
        row = row_blank(cls)
        self.rows.append(row)
        filled = self._parts(parts, {}, place)
        row_fill(row, filled, self.walk(stands[0], None, place) if stands else {})
        return row

    def _instance(self, tag: str, payload: Any, hint: Any, place: Any) -> Any:
        name, parts = payload if isinstance(payload, list) else ("", payload)
        root = hints.class_of(hint)
        if root is None:
            raise _misfit(f"no annotation names its class{name and f' ({name})'} any more; add returns=", place, name)
        cls = hints.find_class(root, name) if name else root
        if cls is None:
            raise _misfit(f"{name} is not a loaded subclass of {hints.dotted_name(root)}", place, name)
        shape = shape_of(cls)
        if shape is None or shape.tag != tag:
            raise _misfit(f"{hints.dotted_name(cls)} is no longer the kind of class that was recorded", place, tag)
        if tag != "$object" or type(parts) is not dict or (len(parts) == 1 and tags.is_leaf_tag(next(iter(parts)))):
            return shape.together(cls, self.walk(parts, None, place))
        return shape.together(cls, self._parts(parts, hints.of_fields(hint, cls, shape.hints(cls)), place))

    def _parts(self, parts: dict[str, Any], below: dict[str, Any], place: Any) -> dict[str, Any]:
        # A field cannot be taken for a tag: attribute names hold no "$".
        return {name: self.walk(part, below.get(name), at_key(place, name)) for name, part in parts.items()}


def _misfit(message: str, place: Any, kind: str) -> CannotFreeze:
    return CannotFreeze(f"at {format_path(place)}: {message}", path=format_path(place), kind=kind)


def to_plain(data: Json) -> object:
    """The value behind frozen `data`. Standard-library values come back exactly; what does not fit stays as it is."""
    match data:
        case list():
            return [to_plain(item) for item in data]
        case dict():
            if len(data) == 1:
                ((tag, payload),) = data.items()
                if tag[:1] == "$" and tag[1:2] != "$":
                    try:
                        return tagged_to_plain(tag, payload)
                    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
                        return data
            return fields(data)
        case _:
            return data


def tagged_to_plain(tag: str, payload: Json) -> object:
    """Return the value of one tagged form. Raises what a payload that does not fit its tag makes Python raise."""
    if tags.is_leaf_tag(tag):
        return tags.read_leaf({tag: payload})
    match tag, payload:
        case "$tuple", list():
            return tuple(to_plain(item) for item in payload)
        case "$set" | "$frozenset", list():
            return {to_plain(item) for item in payload}
        case "$deque", [items, _]:
            return to_plain(items)
        case "$dict" | "$ordereddict" | "$counter", list():
            return pairs(payload)
        case "$defaultdict", [_, list(items)]:
            return pairs(items)
        case "$object" | "$enum" | "$secret" | "$state", [_, parts, *_]:
            # A subclass of a built-in container or scalar may have nothing but its content.
            return to_plain(parts["__items__"] if isinstance(parts, dict) and parts.keys() == {"__items__"} else parts)
        case "$row", [_, parts, *_]:
            return to_plain(parts)
        case "$cycle", [name, *_]:
            return f"<{name}>"
        case "$object" | "$enum" | "$secret", _:
            return to_plain(payload)
        case ("$codec", [_, inner]) | ("$arm", [_, _, inner]):
            return to_plain(inner)
        case "$opaque", _:
            return f"<{payload}>"
        case _:
            return {tag: payload}


def pairs(items: list[Json]) -> dict[object, object]:
    """A dict from its list of pairs."""
    return {to_plain(key): to_plain(value) for key, value in items}  # type: ignore[str-unpack,misc]


def fields(data: dict[str, Json]) -> dict[str, object]:
    """A dict with its own keys, without what pydantic keeps beside its fields."""
    return {
        key[1:] if key[:2] == "$$" else key: to_plain(value)
        for key, value in data.items()
        if not key.startswith("__pydantic_")
    }
