"""How an instance of a user's class comes apart and is put together, without running its `__init__`.

Known by annotation alone: dataclasses, attrs classes, pydantic models and secrets, named tuples, enums, subclasses
of str, int, float and bytes. Everything else needs a `Codec`. Libraries are met by what their classes carry, so none
is imported here.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.freeze.hints import annotations_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SCALARS = (str, int, float, bytes)
SHAPE_TAGS = frozenset({"$object", "$enum", "$secret"})


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """A pair registered in code: `freeze` gives any freezable value, `thaw` makes the `type` from it again."""

    type: type
    freeze: Callable[[Any], Any]
    thaw: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """One way for instances to come apart: into a dict of fields, or into one value.

    `apart(instance)` and `together(class, parts)` are inverses; both raise what Python raises when the instance or
    the parts do not fit. `hints(class)` gives the hints of the fields.
    """

    tag: str
    apart: Callable[[Any], Any]
    together: Callable[[type, Any], Any]
    hints: Callable[[type], dict[str, Any]]


@functools.lru_cache(maxsize=512)
def shape_of(cls: type) -> Shape | None:
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
    return _SCALAR if issubclass(cls, _SCALARS) and cls not in _SCALARS else None


def _no_hints(_: type) -> dict[str, Any]:
    return {}


# Enum members: by name; combinations of flags by value.


def _member_apart(member: Any) -> Any:
    return member.name if member.name in type(member).__members__ else member.value


def _member_together(cls: Any, parts: Any) -> Any:
    return cls[parts] if isinstance(parts, str) and parts in cls.__members__ else cls(parts)


# Instances with attributes: dataclasses and attrs classes, with slots or without, frozen or not.


def _attributes_apart(value: Any, known: Iterable[str]) -> dict[str, Any]:
    """The known attributes, and what else stands in `__dict__` and cannot be computed again."""
    parts = {name: getattr(value, name) for name in known if hasattr(value, name)}
    for name, part in getattr(value, "__dict__", {}).items():
        recomputed = isinstance(getattr(type(value), name, None), functools.cached_property)
        if name not in parts and not name.startswith("__") and not recomputed:
            parts[name] = part
    if hasattr(value, "_attrs_cached_hash"):
        # attrs reads this attribute before it computes; another process hashes strings otherwise.
        parts["_attrs_cached_hash"] = None
    return parts


def _attributes_together(cls: Any, parts: dict[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    for name, part in parts.items():
        if name.startswith("__"):
            raise ValueError(f"no field can be called {name}")
        object.__setattr__(made, name, part)
    return made


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

_UNSET, _EXTRA, _PRIVATE = "__pydantic_unset__", "__pydantic_extra__", "__pydantic_private__"


def _model_apart(model: Any) -> dict[str, Any]:
    known = type(model).model_fields
    parts = {
        name: part
        for name, part in vars(model).items()
        if name in known or not isinstance(getattr(type(model), name, None), functools.cached_property)
    }
    unset = [name for name in known if name not in model.__pydantic_fields_set__]
    more = {_UNSET: unset, _EXTRA: model.__pydantic_extra__, _PRIVATE: model.__pydantic_private__}
    return parts | {name: part for name, part in more.items() if part}


def _model_together(cls: Any, parts: dict[str, Any]) -> Any:
    held = {name: part for name, part in parts.items() if not name.startswith("__")}
    for name, field in cls.model_fields.items():
        if name not in held:
            if field.is_required():
                raise ValueError(f"nothing was recorded for its field {name}")
            held[name] = field.get_default(call_default_factory=True)
    extra = parts.get(_EXTRA) or ({} if cls.model_config.get("extra") == "allow" else None)
    private = parts.get(_PRIVATE) or ({} if cls.__private_attributes__ else None)
    made = object.__new__(cls)
    object.__setattr__(made, "__dict__", held)
    object.__setattr__(made, "__pydantic_fields_set__", _set_names(cls, parts, extra))
    object.__setattr__(made, _EXTRA, extra)
    object.__setattr__(made, _PRIVATE, private)
    return made


def _set_names(cls: Any, parts: dict[str, Any], extra: dict[str, Any] | None) -> set[str]:
    return {name for name in cls.model_fields if name not in parts.get(_UNSET, ())} | set(extra or ())


def _model_hints(cls: Any) -> dict[str, Any]:
    return {name: field.annotation for name, field in cls.model_fields.items()}


# Named tuples and subclasses of scalars.


def _without_attributes(value: Any) -> Any:
    if getattr(value, "__dict__", None):
        raise ValueError("it carries attributes of its own")
    return value


def _named_apart(value: Any) -> dict[str, Any]:
    return dict(zip(value._fields, _without_attributes(value), strict=True))


def _named_together(cls: Any, parts: dict[str, Any]) -> Any:
    return tuple.__new__(cls, [parts[name] for name in cls._fields])


def _scalar_apart(value: Any) -> Any:
    base = next(base for base in _SCALARS if isinstance(value, base))
    return base.__getnewargs__(_without_attributes(value))[0]


def _scalar_together(cls: Any, parts: Any) -> Any:
    return type(parts).__new__(cls, parts)


_ENUM = Shape("$enum", _member_apart, _member_together, _no_hints)
_SECRET = Shape("$secret", lambda value: value.get_secret_value(), lambda cls, parts: cls(parts), _no_hints)
_DATACLASS = Shape("$object", _dataclass_apart, _dataclass_together, annotations_of)
_ATTRS = Shape("$object", _attrs_apart, _attrs_together, annotations_of)
_PYDANTIC = Shape("$object", _model_apart, _model_together, _model_hints)
_NAMEDTUPLE = Shape("$object", _named_apart, _named_together, annotations_of)
_SCALAR = Shape("$object", _scalar_apart, _scalar_together, _no_hints)
