"""How an instance of a user's class comes apart and is put together, without running its `__init__`.

Known by annotation alone: dataclasses, attrs classes, pydantic models and secrets, named tuples, enums, subclasses
of built-in containers and scalars. Rows of a database are known without one (`rows`). Everything else needs a `Codec`.
Libraries are recognised by what their classes carry, so none is imported here.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import TYPE_CHECKING, Any, get_origin

from pytest_agentreplay.values.hints import annotations_of
from pytest_agentreplay.values.state import EXACT, attributes_of, base_of, builtin_of, has_hidden_state, remade

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
    hints: Callable[[type], dict[str, Any]]


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


def _no_hints(_: type) -> dict[str, Any]:
    return {}


# Enum members: by name; combinations of flags by value.


def _member_apart(member: Any) -> Any:
    return member.name if member.name in type(member).__members__ else member.value


def _member_together(cls: Any, parts: Any) -> Any:
    return cls[parts] if isinstance(parts, str) and parts in cls.__members__ else cls(parts)


# Instances with attributes: dataclasses and attrs classes, with slots or without, frozen or not.


ITEMS = "__items__"
"""The part that holds what an instance is as the built-in class that it derives from: the items of a list."""


def _attributes_apart(value: Any, known: Iterable[str]) -> dict[str, Any]:
    """The known attributes first, and whatever else the instance holds and cannot be computed again."""
    state = attributes_of(value)
    parts: dict[str, Any] = {}
    for name in known:
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
    known = type(model).model_fields
    parts = {
        name: part
        for name, part in vars(model).items()
        if name in known or not isinstance(getattr(type(model), name, None), functools.cached_property)
    }
    unset = [name for name in known if name not in model.__pydantic_fields_set__]
    base = base_of(model)
    if base is not None:
        parts[ITEMS] = base.value
    more = {UNSET: unset, _EXTRA: model.__pydantic_extra__, PRIVATE: model.__pydantic_private__}
    return parts | {name: part for name, part in more.items() if part}


def _model_together(cls: Any, parts: dict[str, Any]) -> Any:
    held = {name: part for name, part in parts.items() if not name.startswith("__")}
    made = _blank(cls, parts)
    for name, field in cls.model_fields.items():
        if name not in held:
            if field.is_required():
                raise ValueError(f"nothing was recorded for its field {name}")
            held[name] = field.get_default(call_default_factory=True)
    extra = parts.get(_EXTRA) or ({} if cls.model_config.get("extra") == "allow" else None)
    private = parts.get(PRIVATE) or ({} if cls.__private_attributes__ else None)
    object.__setattr__(made, "__dict__", held)
    object.__setattr__(made, "__pydantic_fields_set__", _set_names(cls, parts, extra))
    object.__setattr__(made, _EXTRA, extra)
    object.__setattr__(made, PRIVATE, private)
    return made


def _set_names(cls: Any, parts: dict[str, Any], extra: dict[str, Any] | None) -> set[str]:
    return {name for name in cls.model_fields if name not in parts.get(UNSET, ())} | set(extra or ())


def _model_hints(cls: Any) -> dict[str, Any]:
    return {name: field.annotation for name, field in cls.model_fields.items()}


# Named tuples, and subclasses of built-in containers and scalars: their content alone, unless there are attributes.


def _named_apart(value: Any) -> dict[str, Any]:
    held = dict(zip(value._fields, tuple.__iter__(value), strict=True))
    attributes = attributes_of(value)
    return {**held, _ATTRIBUTES: attributes} if attributes else held


def _named_together(cls: Any, parts: dict[str, Any]) -> Any:
    return _with(tuple.__new__(cls, [parts[name] for name in cls._fields]), parts.get(_ATTRIBUTES, {}))


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
    bases = (base for known in cls.__mro__ for base in vars(known).get("__orig_bases__", ()))
    items = next((base for base in bases if get_origin(base) in EXACT), None)
    return {**annotations_of(cls), ITEMS: items}


def _with(made: Any, attributes: dict[str, Any]) -> Any:
    for name, part in attributes.items():
        object.__setattr__(made, name, part)
    return made


_ENUM = ObjectShape("$enum", _member_apart, _member_together, _no_hints)
_SECRET = ObjectShape("$secret", lambda value: value.get_secret_value(), lambda cls, parts: cls(parts), _no_hints)
_DATACLASS = ObjectShape("$object", _dataclass_apart, _dataclass_together, annotations_of)
_ATTRS = ObjectShape("$object", _attrs_apart, _attrs_together, annotations_of)
_PYDANTIC = ObjectShape("$object", _model_apart, _model_together, _model_hints)
_NAMEDTUPLE = ObjectShape("$object", _named_apart, _named_together, annotations_of)
_DERIVED = ObjectShape("$object", _derived_apart, _derived_together, _derived_hints)
