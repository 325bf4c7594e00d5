"""How an instance of a user's class comes apart, and is put together again without running its `__init__`.

Known by annotation alone: dataclasses, attrs classes, pydantic models and secrets, named tuples, enums, subclasses
of built-in containers and scalars. Rows of a database are known without one (`rows`). Everything else needs a `Codec`.
Libraries are recognised by what their classes carry, so none is imported here.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import TYPE_CHECKING, Any, TypeAlias, get_origin

from pytest_agentreplay.values.hints import annotations_of
from pytest_agentreplay.values.state import EXACT, attributes_of, base_of, builtin_of, has_hidden_state, remake_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_FindDefault: TypeAlias = "Callable[[Any], Callable[[], Any] | None]"
_SCALARS = (str, int, float, bytes)


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
    return _add_items(value, parts | state)


def _add_items(value: Any, parts: dict[str, Any]) -> dict[str, Any]:
    items = base_of(value)
    return parts if items is None else {**parts, ITEMS: items}


def _attributes_together(cls: Any, parts: Mapping[str, Any]) -> Any:
    made: Any = _make_blank(cls, parts)
    for name, part in parts.items():
        if name.startswith("__") and name != ITEMS:
            raise ValueError(f"no field can be called {name}")
        if name != ITEMS:
            # Past the __setattr__ of the class, which those that are frozen refuse with.
            object.__setattr__(made, name, part)
    return made


def _make_blank(cls: Any, parts: Mapping[str, Any]) -> Any:
    """An instance without attributes, with the items or the value of its built-in base."""
    base = builtin_of(cls)
    if base is None:
        return object.__new__(cls)
    if ITEMS not in parts:
        raise ValueError(f"nothing was recorded for its {base.__name__}")
    return remake_instance(cls, base, parts[ITEMS])


def _fill_fields(parts: dict[str, Any], fields: Mapping[str, Any], find_default: _FindDefault) -> dict[str, Any]:
    """The parts, with the defaults of fields that the class has got since."""
    filled = dict(parts)
    for name, field in fields.items():
        if name not in parts:
            default = find_default(field)
            if default is None:
                raise ValueError(f"nothing was recorded for its field {name}")
            filled[name] = default()
    return filled


@functools.lru_cache(maxsize=512)
def _dataclass_fields(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(cls)}


def _dataclass_default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default is not dataclasses.MISSING:
        return lambda: field.default
    return field.default_factory if field.default_factory is not dataclasses.MISSING else None


def _attrs_fields(cls: Any) -> dict[str, Any]:
    return {attribute.name: attribute for attribute in cls.__attrs_attrs__}


def _fields_shape(fields_of: Callable[[Any], Mapping[str, Any]], find_default: _FindDefault) -> ObjectShape:
    """The shape of classes that are all attributes and list some of them as fields."""
    return ObjectShape(
        "$object",
        lambda value: _attributes_apart(value, fields_of(type(value))),
        lambda cls, parts: _attributes_together(cls, _fill_fields(parts, fields_of(cls), find_default)),
        annotations_of,
    )


# Pydantic models: the four attributes that make up an instance; its validators have run when it was made.

_ATTRIBUTES = "__attributes__"
UNSET, _EXTRA, PRIVATE = "__pydantic_unset__", "__pydantic_extra__", "__pydantic_private__"


def _model_apart(model: Any) -> dict[str, Any]:
    cls: Any = type(model)
    fields = cls.model_fields
    parts = {
        name: part
        for name, part in vars(model).items()
        if name in fields or not isinstance(getattr(cls, name, None), functools.cached_property)
    }
    # The few that were not given are named, not the many that were.
    unset = [name for name in fields if name not in model.__pydantic_fields_set__]
    more = {UNSET: unset, _EXTRA: model.__pydantic_extra__, PRIVATE: model.__pydantic_private__}
    return _add_items(model, parts) | {name: part for name, part in more.items() if part}


def _model_together(cls: Any, parts: dict[str, Any]) -> Any:
    made = _make_blank(cls, parts)
    values = {name: part for name, part in parts.items() if not name.startswith("__")}
    fields = _fill_fields(values, cls.model_fields, _model_default)
    extra = parts.get(_EXTRA) or ({} if cls.model_config.get("extra") == "allow" else None)
    names = {name for name in cls.model_fields if name not in parts.get(UNSET, ())}
    state = {
        "__dict__": fields,
        "__pydantic_fields_set__": names | set(extra or ()),
        _EXTRA: extra,
        PRIVATE: parts.get(PRIVATE) or ({} if cls.__private_attributes__ else None),
    }
    for name, part in state.items():
        object.__setattr__(made, name, part)
    return made


def _model_default(field: Any) -> Callable[[], Any] | None:
    return None if field.is_required() else functools.partial(field.get_default, call_default_factory=True)


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
    parts = _add_items(value, attributes_of(value))
    return parts[ITEMS] if len(parts) == 1 and type(parts[ITEMS]) in _SCALARS else parts


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
_DATACLASS = _fields_shape(_dataclass_fields, _dataclass_default)
_ATTRS = _fields_shape(_attrs_fields, lambda _: None)
_PYDANTIC = ObjectShape("$object", _model_apart, _model_together, _model_hints)
_NAMEDTUPLE = ObjectShape("$object", _named_apart, _named_together, annotations_of)
_DERIVED = ObjectShape("$object", _derived_apart, _derived_together, _derived_hints)
