"""Frozen values back to Python values: fresh objects each time, classes from hints and codecs alone.

`to_plain` looks up no class: it returns what people read and assert on, a dataclass as a dict of its fields.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values import hints, tags
from pytest_agentreplay.values.objects import shape_of
from pytest_agentreplay.values.rows import row_blank, row_class, row_fill
from pytest_agentreplay.values.serializer import CONTAINERS, FACTORIES, format_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.values.objects import Codec

_NESTED = frozenset({dict, list})


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
        return _Reader(codecs).read(data, hint, None)
    except RecursionError:
        raise _misfit("the recorded value is nested too deeply", None, type(data).__name__) from None


def _tag_of(data: dict[str, Any]) -> str:
    """The tag of a tagged form; empty for a dict, whose keys that begin with "$" are doubled."""
    tag = next(iter(data)) if len(data) == 1 else ""
    return tag if tag[:1] == "$" and tag[1:2] != "$" else ""


class _Reader:
    """One walk over recorded data. `rows` are the rows of a database that it has made, by their number."""

    __slots__ = ("codecs", "rows")

    def __init__(self, codecs: Sequence[Codec]) -> None:
        self.codecs = {hints.dotted_name(codec.type): codec for codec in codecs}
        self.rows: list[Any] = []

    def read(self, data: Any, hint: Any, place: Any) -> Any:
        """Return the value of `data`, which stands at `place` below the root."""
        kind = type(data)
        if kind not in _NESTED:
            return data
        hint = hints.narrow(hint)
        if kind is list:
            return self._read_items(data, hint, list, place)
        if tag := _tag_of(data):
            return self._read_tagged(tag, data[tag], hint, place)
        by_key, rest = hints.of_keys(hint)
        fields = {raw[1:] if raw[:2] == "$$" else raw: part for raw, part in data.items()}
        return self._read_fields(fields, by_key, rest, place)

    def _read_items(self, items: Sequence[Any], hint: Any, kind: type, place: Any) -> list[Any]:
        below = hints.of_items(hint, kind, len(items))
        return [self.read(item, inner, (place, i)) for i, (item, inner) in enumerate(zip(items, below, strict=False))]

    def _read_fields(self, fields: dict[str, Any], below: Mapping[str, Any], rest: Any, place: Any) -> dict[str, Any]:
        return {name: self.read(part, below.get(name, rest), (place, name)) for name, part in fields.items()}

    def _read_tagged(self, tag: str, payload: Any, hint: Any, place: Any) -> Any:
        try:
            return self._read_form(tag, payload, hint, place)
        except CannotFreeze:
            raise
        except Exception as error:
            raise _misfit(f"the recorded {tag} does not fit: {type(error).__name__}: {error}", place, tag) from error

    def _read_form(self, tag: str, payload: Any, hint: Any, place: Any) -> Any:
        if tag in tags.TAG_NAMED:
            return tags.TAG_NAMED[tag].read(payload)
        if tag in CONTAINERS:
            return self._read_container(CONTAINERS[tag], payload, hint, place)
        match tag:
            case "$object" | "$enum" | "$secret":
                return self._read_instance(tag, payload, hint, place)
            case "$row":
                return self._read_row(payload, hint, place)
            case "$codec":
                return self._read_coded(payload, place)
            case "$arm":
                return self._read_arm(payload, hint, place)
            case "$opaque":
                raise _misfit(f"a {payload} was recorded by its type only; record again", place, str(payload))
        raise _misfit(f"the tag {tag} is not known to this version", place, tag)

    def _read_container(self, kind: Any, payload: Any, hint: Any, place: Any) -> Any:
        if kind is collections.defaultdict:
            factory = None if payload[0] is None else FACTORIES[payload[0]]
            return kind(factory, self._read_pairs(payload[1], hint, place))
        if issubclass(kind, dict):
            return kind(dict(self._read_pairs(payload, hint, place)))
        if kind is tuple:
            return tuple(self._read_items(payload, hint, tuple, place))
        if kind is collections.deque:
            return kind(self.read(payload[0], hint, place), payload[1])
        return kind(self.read(payload, hint, place))

    def _read_pairs(self, payload: Any, hint: Any, place: Any) -> list[tuple[Any, Any]]:
        for_key, for_value = hints.of_pairs(hint)
        pairs = []
        for raw, part in payload:
            key = self.read(raw, for_key, place)
            pairs.append((key, self.read(part, for_value, (place, (key,)))))
        return pairs

    def _read_arm(self, payload: Any, hint: Any, place: Any) -> Any:
        index, name, data = payload
        arm = hint.find(index, name) if isinstance(hint, hints.Arms) else hint
        if arm is None:
            raise _misfit(f"{name} is no longer one of {hints.spell_hint(hint)}", place, name)
        return self.read(data, arm, place)

    def _read_coded(self, payload: Any, place: Any) -> Any:
        name, data = payload
        codec = self.codecs.get(name)
        if codec is None:
            raise _misfit(f"no codec for {name} is registered; add agentreplay.codec({name}, ...)", place, name)
        return codec.thaw(self.read(data, None, place))

    def _read_row(self, payload: Any, hint: Any, place: Any) -> Any:
        if isinstance(payload, int):
            return self.rows[payload]
        name, parts, *stands = payload
        cls = row_class(name, hint)
        if cls is None:
            raise _misfit(f"{name} is no loaded class of a table", place, name)
        # Before its parts: a related row may lead back to this one by its number.
        row = row_blank(cls)
        self.rows.append(row)
        fields = self._read_fields(parts, {}, None, place)
        row_fill(row, fields, self.read(stands[0], None, place) if stands else {})
        return row

    def _read_instance(self, tag: str, payload: Any, hint: Any, place: Any) -> Any:
        name, parts = payload if isinstance(payload, list) else ("", payload)
        root = hints.class_of(hint)
        if root is None:
            raise _misfit(f"no annotation names its class{name and f' ({name})'} any more; add returns=", place, name)
        # A file names a class for people alone: it is looked up at and below the class that the code names.
        cls = hints.find_class(root, name) if name else root
        if cls is None:
            raise _misfit(f"{name} is not a loaded subclass of {hints.dotted_name(root)}", place, name)
        shape = shape_of(cls)
        if shape is None or shape.tag != tag:
            raise _misfit(f"{hints.dotted_name(cls)} is no longer the kind of class that was recorded", place, tag)
        if tag != "$object" or type(parts) is not dict or _tag_of(parts) in tags.TAG_NAMED:
            return shape.together(cls, self.read(parts, None, place))
        # No other tag is looked for: attribute names hold no "$", so a field cannot be taken for one.
        below = hints.of_fields(hint, cls, shape.hints(cls))
        return shape.together(cls, self._read_fields(parts, below, None, place))


def _misfit(message: str, place: Any, kind: str) -> CannotFreeze:
    return CannotFreeze(f"at {format_path(place)}: {message}", path=format_path(place), kind=kind)


def to_plain(data: Json) -> object:
    """The value behind frozen `data`. Standard-library values come back exactly; what does not fit stays as it is."""
    if isinstance(data, list):
        return [to_plain(item) for item in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1 and (tag := _tag_of(data)):
        try:
            return _tagged_to_plain(tag, data[tag])
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
            return data
    # What pydantic keeps beside its fields is left out.
    fields = {key: part for key, part in data.items() if key[:11] != "__pydantic_"}
    return {key[1:] if key[:2] == "$$" else key: to_plain(part) for key, part in fields.items()}


def _tagged_to_plain(tag: str, payload: Json) -> object:
    """Return the value of one tagged form. Raises what a payload that does not fit its tag makes Python raise."""
    if tag in tags.TAG_NAMED:
        return tags.TAG_NAMED[tag].read(payload)
    match tag, payload:
        case "$tuple", list():
            return tuple(to_plain(item) for item in payload)
        case "$set" | "$frozenset", list():
            return {to_plain(item) for item in payload}
        case ("$dict" | "$ordereddict" | "$counter", list(pairs)) | ("$defaultdict", [_, list(pairs)]):
            return {to_plain(key): to_plain(value) for key, value in pairs}  # type: ignore[misc,str-unpack]
        case "$object" | "$enum" | "$secret" | "$state", [_, {"__items__": content, **rest}, *_] if not rest:
            # A subclass of a built-in container or scalar may have nothing but its content.
            return to_plain(content)
        case (
            ("$object" | "$enum" | "$secret" | "$state" | "$row", [_, content, *_])
            | ("$codec", [_, content])
            | ("$arm", [_, _, content])
            | ("$deque", [content, _])
        ):
            return to_plain(content)
        case "$object" | "$enum" | "$secret", content:
            return to_plain(content)
        case ("$cycle", [name, *_]) | ("$opaque", name):
            return f"<{name}>"
        case _:
            return {tag: payload}
