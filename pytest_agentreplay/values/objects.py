"""How an instance of a user's class comes apart and is put together, without running its `__init__`; and `same`.

Known by annotation alone: dataclasses, attrs classes, pydantic models and secrets, named tuples, enums, subclasses
of built-in containers and scalars. Rows of a database are known without one (`rows`). Everything else needs a `Codec`.
Libraries are recognised by what their classes carry, so none is imported here.

`same` compares two values by these parts: equal and of the same types all the way down; nan equals nan, 0.0 is not
-0.0.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from datetime import datetime, time, timezone
from decimal import Decimal
from math import copysign
from typing import TYPE_CHECKING, Any, get_origin

from pytest_agentreplay.values.hints import annotations_of
from pytest_agentreplay.values.rows import is_row_class, row_apart
from pytest_agentreplay.values.state import EXACT, attributes_of, base_of, builtin_of, has_hidden_state, remade

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

_SCALARS = (str, int, float, bytes)
SHAPE_TAGS = frozenset({"$object", "$enum", "$secret"})


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """How values of a class are stored, registered in code.

    Attributes:
        type: The class.
        freeze: Returns a serializable value for an instance.
        thaw: Returns the instance for such a value.
    """

    type: type
    freeze: Callable[[Any], Any]
    thaw: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectShape:
    """One way for instances to come apart: into a dict of fields, or into one value.

    `apart(instance)` and `together(class, parts)` are inverses; both raise what Python raises when the instance or
    the parts do not fit. `hints(class)` gives the hints of the fields.
    """

    tag: str
    apart: Callable[[Any], Any]
    together: Callable[[type, Any], Any]
    hints: Callable[[type], dict[str, Any]] = lambda _: {}


@functools.lru_cache(maxsize=512)
def shape_of(cls: Any) -> ObjectShape | None:
    """The shape of a class; None when its instances cannot be taken apart faithfully."""
    if issubclass(cls, enum.Enum):
        return _ENUM if cls.__members__ else None
    if hasattr(cls, "get_secret_value"):
        return _SECRET
    if dataclasses.is_dataclass(cls):
        return _DATACLASS
    if isinstance(getattr(cls, "__attrs_attrs__", None), tuple):
        return _ATTRS
    if hasattr(cls, "model_construct") and isinstance(getattr(cls, "model_fields", None), dict):
        return _PYDANTIC
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make"):
        return _NAMEDTUPLE
    base = builtin_of(cls)
    return _DERIVED if base is not None and cls not in EXACT and not has_hidden_state(cls) else None


# Enum members: by name; combinations of flags by value.


def _member_apart(member: Any) -> Any:
    return member.name if member.name in type(member).__members__ else member.value


def _member_together(cls: Any, parts: Any) -> Any:
    return cls[parts] if isinstance(parts, str) and parts in cls.__members__ else cls(parts)


# Instances with attributes: dataclasses and attrs classes, with slots or without, frozen or not.


ITEMS = "__items__"
"""The part that holds what an instance is as the built-in class that it derives from: the items of a list."""


def _attributes_apart(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """The known attributes first, and whatever else the instance holds and cannot be computed again."""
    state = attributes_of(value)
    parts: dict[str, Any] = {}
    for name in names:
        if name in state:
            parts[name] = state.pop(name)
        elif hasattr(value, name):  # a default that stands in the class, or a descriptor
            parts[name] = getattr(value, name)
    if hasattr(value, "_attrs_cached_hash"):
        # attrs reads this attribute before it computes; another process hashes strings otherwise.
        state["_attrs_cached_hash"] = None
    parts |= state
    base = base_of(value)
    return parts if base is None else {**parts, ITEMS: base.value}


def _attributes_together(cls: Any, parts: dict[str, Any]) -> Any:
    made: Any = _blank(cls, parts)
    for name, part in parts.items():
        if name == ITEMS:
            continue
        if name.startswith("__"):
            raise ValueError(f"no field can be called {name}")
        object.__setattr__(made, name, part)
    return made


def _blank(cls: Any, parts: dict[str, Any]) -> Any:
    """An instance without attributes, with the items or the value of its built-in base."""
    base = builtin_of(cls)
    if base is None:
        return object.__new__(cls)
    if ITEMS not in parts:
        raise ValueError(f"nothing was recorded for its {base.__name__}")
    return remade(cls, base, parts[ITEMS])


def _dataclass_apart(value: Any) -> dict[str, Any]:
    return _attributes_apart(value, [field.name for field in dataclasses.fields(value)])


def _dataclass_together(cls: Any, parts: dict[str, Any]) -> Any:
    filled = dict(parts)
    for field in dataclasses.fields(cls):
        if field.name not in parts:
            filled[field.name] = _default(field)
    return _attributes_together(cls, filled)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise ValueError(f"nothing was recorded for its field {field.name}")


def _attrs_names(cls: Any) -> list[str]:
    return [attribute.name for attribute in cls.__attrs_attrs__]


def _attrs_apart(value: Any) -> dict[str, Any]:
    return _attributes_apart(value, _attrs_names(type(value)))


def _attrs_together(cls: type, parts: dict[str, Any]) -> Any:
    for name in _attrs_names(cls):
        if name not in parts:
            raise ValueError(f"nothing was recorded for its field {name}")
    return _attributes_together(cls, parts)


# Pydantic models: the four attributes that make up an instance; its validators have run when it was made.

_ATTRIBUTES = "__attributes__"
UNSET, _EXTRA, PRIVATE = "__pydantic_unset__", "__pydantic_extra__", "__pydantic_private__"


def _model_apart(model: Any) -> dict[str, Any]:
    fields = type(model).model_fields
    parts = {
        name: part
        for name, part in vars(model).items()
        if name in fields or not isinstance(getattr(type(model), name, None), functools.cached_property)
    }
    unset = [name for name in fields if name not in model.__pydantic_fields_set__]
    base = base_of(model)
    if base is not None:
        parts[ITEMS] = base.value
    more = {UNSET: unset, _EXTRA: model.__pydantic_extra__, PRIVATE: model.__pydantic_private__}
    return parts | {name: part for name, part in more.items() if part}


def _model_together(cls: Any, parts: dict[str, Any]) -> Any:
    values = {name: part for name, part in parts.items() if not name.startswith("__")}
    made = _blank(cls, parts)
    for name, field in cls.model_fields.items():
        if name not in values:
            if field.is_required():
                raise ValueError(f"nothing was recorded for its field {name}")
            values[name] = field.get_default(call_default_factory=True)
    extra = parts.get(_EXTRA) or ({} if cls.model_config.get("extra") == "allow" else None)
    private = parts.get(PRIVATE) or ({} if cls.__private_attributes__ else None)
    object.__setattr__(made, "__dict__", values)
    names = {name for name in cls.model_fields if name not in parts.get(UNSET, ())}
    object.__setattr__(made, "__pydantic_fields_set__", names | set(extra or ()))
    object.__setattr__(made, _EXTRA, extra)
    object.__setattr__(made, PRIVATE, private)
    return made


def _model_hints(cls: Any) -> dict[str, Any]:
    return {name: field.annotation for name, field in cls.model_fields.items()}


# Named tuples, and subclasses of built-in containers and scalars: their content alone, unless there are attributes.


def _named_apart(value: Any) -> dict[str, Any]:
    fields = dict(zip(value._fields, tuple.__iter__(value), strict=True))
    attributes = attributes_of(value)
    return {**fields, _ATTRIBUTES: attributes} if attributes else fields


def _named_together(cls: Any, parts: dict[str, Any]) -> Any:
    made = tuple.__new__(cls, [parts[name] for name in cls._fields])
    for name, part in parts.get(_ATTRIBUTES, {}).items():
        object.__setattr__(made, name, part)
    return made


def _derived_apart(value: Any) -> Any:
    """The content, where it is a scalar without attributes; else a dict with the content among the attributes."""
    base = base_of(value)
    assert base is not None
    attributes = attributes_of(value)
    return base.value if base.type in _SCALARS and not attributes else {**attributes, ITEMS: base.value}


def _derived_together(cls: Any, parts: Any) -> Any:
    if not isinstance(parts, dict) or ITEMS not in parts:
        return type(parts).__new__(cls, parts)
    return _attributes_together(cls, parts)


def _derived_hints(cls: Any) -> dict[str, Any]:
    """What its items are, where a class says it: `class Orders(list[Order])`."""
    bases = (base for ancestor in cls.__mro__ for base in vars(ancestor).get("__orig_bases__", ()))
    items = next((base for base in bases if get_origin(base) in EXACT), None)
    return {**annotations_of(cls), ITEMS: items}


_ENUM = ObjectShape("$enum", _member_apart, _member_together)
_SECRET = ObjectShape("$secret", lambda value: value.get_secret_value(), lambda cls, parts: cls(parts))
_DATACLASS = ObjectShape("$object", _dataclass_apart, _dataclass_together, annotations_of)
_ATTRS = ObjectShape("$object", _attrs_apart, _attrs_together, annotations_of)
_PYDANTIC = ObjectShape("$object", _model_apart, _model_together, _model_hints)
_NAMEDTUPLE = ObjectShape("$object", _named_apart, _named_together, annotations_of)
_DERIVED = ObjectShape("$object", _derived_apart, _derived_together, _derived_hints)


def is_same(a: Any, b: Any, *, codecs: Sequence[Codec] = ()) -> bool:
    """Return whether `b` could stand for `a`: equal, and of the same types all the way down.

    Dicts and sets are compared without order. Instances of a codec's type are compared by what it freezes them to,
    other instances by their fields, and what has neither by its own `==`.
    """
    return _ValueComparison({codec.type: codec for codec in codecs}).is_same(a, b)


class _ValueComparison:
    __slots__ = ("codecs", "open")

    def __init__(self, codecs: dict[type, Codec]) -> None:
        self.codecs = codecs
        self.open: set[tuple[int, int]] = set()

    def is_same(self, a: Any, b: Any) -> bool:
        kind = type(a)
        if kind is not type(b):
            return False
        if kind is str or kind is int or kind is bool or a is None:
            return bool(a == b)
        pair = (id(a), id(b))
        if pair in self.open:
            return True  # met again below itself: as equal as the rest is
        self.open.add(pair)
        try:
            return self._same_parts(kind, a, b)
        finally:
            self.open.discard(pair)

    def _same_parts(self, kind: Any, a: Any, b: Any) -> bool:
        codec = self.codecs.get(kind)
        if codec is not None:
            return self.is_same(codec.freeze(a), codec.freeze(b))
        if kind is float:
            return (a == b and copysign(1, a) == copysign(1, b)) or (a != a and b != b)  # noqa: PLR0124  nan
        if kind is complex:
            return self.is_same(a.real, b.real) and self.is_same(a.imag, b.imag)
        if kind is Decimal:
            return bool(a.as_tuple() == b.as_tuple())  # 1.0 is not 1.00, and nan is nan
        if kind is datetime or kind is time:
            return bool(a == b) and a.fold == b.fold and self.is_same(a.tzinfo, b.tzinfo)
        if kind is timezone:
            return bool(a.__getinitargs__() == b.__getinitargs__())
        if kind is list or kind is tuple or kind is collections.deque:
            alike = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
            return alike and len(a) == len(b) and all(map(self.is_same, a, b))
        if kind is set or kind is frozenset:
            return self._same_members(a, b)
        if is_row_class(kind):
            return self.is_same(row_apart(a), row_apart(b))
        shape = shape_of(kind)
        if issubclass(kind, dict) and shape is None:
            return self._same_dicts(a, b)
        if shape is not None:
            return self.is_same(shape.apart(a), shape.apart(b))
        return self._same_others(kind, a, b)

    def _same_dicts(self, a: dict[Any, Any], b: dict[Any, Any]) -> bool:
        if len(a) != len(b) or getattr(a, "default_factory", None) is not getattr(b, "default_factory", None):
            return False
        if all(map(self.is_same, a, b)):
            return all(map(self.is_same, a.values(), b.values()))
        if isinstance(a, collections.OrderedDict):
            return False
        return self._same_members(a.items(), b.items())

    def _same_members(self, a: Collection[Any], b: Collection[Any]) -> bool:
        """Every one of `a` has one of `b` for its own; hashes find most of them, but nan hides from its hash."""
        if len(a) != len(b):
            return False
        try:
            waiting = {member: member for member in b}
            if all(member in waiting and self.is_same(member, waiting[member]) for member in a):
                return True
        except TypeError:  # an item of a dict may hold what has no hash, on either side
            pass
        left = list(b)
        for member in a:
            for i, other in enumerate(left):
                if self.is_same(member, other):
                    del left[i]
                    break
            else:
                return False
        return True

    def _same_others(self, kind: Any, a: Any, b: Any) -> bool:
        if kind.__eq__ is not object.__eq__:
            return bool(a == b)
        if hasattr(a, "__dict__"):
            return self.is_same(vars(a), vars(b))
        return a is b
