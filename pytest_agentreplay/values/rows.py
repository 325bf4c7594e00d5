"""Rows of a database as values: instances of classes that SQLAlchemy, SQLModel or Django have mapped to tables.

A row is what has been loaded of it: columns, relationships, and what the program has set beside them. Nothing is
loaded to read it. It comes back detached: as a row of a session or connection that is closed. Libraries are known by
what their classes carry, so none is imported here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.values.hints import class_of, find_class
from pytest_agentreplay.values.state import attributes_of, base_of

if TYPE_CHECKING:
    from collections.abc import Collection

_INSTANCE_STATE = "_sa_instance_state"
_PREFETCHED = "_prefetched_objects_cache"


@functools.lru_cache(maxsize=512)
def is_row_class(cls: Any) -> bool:
    """Whether a class is mapped to a table."""
    return _is_sqlalchemys(cls) or _is_djangos(cls)


def _is_sqlalchemys(cls: Any) -> bool:
    # Abstract bases have neither; SQLModel's classes without table=True have no mapper.
    return getattr(getattr(cls, "_sa_class_manager", None), "mapper", None) is not None


def _is_djangos(cls: Any) -> bool:
    return hasattr(cls, "from_db") and hasattr(getattr(cls, "_meta", None), "concrete_fields")


def row_class(name: str, hint: Any) -> type | None:
    """The mapped class of that name: at or below the class that the hint names, else among all that are loaded.

    The hinted class itself, where the recorded one has been renamed.
    """
    root = class_of(hint)
    if root is not None and is_row_class(root):
        return find_class(root, name) or root
    mapped = find_class(object, name)
    return mapped if mapped is not None and is_row_class(mapped) else None


def list_unloaded(row: Any) -> Collection[str]:
    """Return the columns that the open session would load when somebody asks for them, after a commit mostly."""
    if not _is_sqlalchemys(type(row)):
        return ()
    state = vars(row)[_INSTANCE_STATE]
    columns = {attribute.key for attribute in state.mapper.column_attrs}
    return sorted(columns & {*state.expired_attributes} - row.__dict__.keys()) if state.session_id else ()


def load_columns(row: Any) -> None:
    """Load the expired columns of a row that is a result: whoever got it would, in the next line."""
    for name in list_unloaded(row):
        try:
            getattr(row, name)
        except Exception:
            return  # an asyncio session loads nothing by itself: what is still missing is told


def row_apart(row: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is loaded of a row, and where it stands in its database."""
    if _is_sqlalchemys(type(row)):
        return _sqlalchemy_apart(row)
    return _django_apart(row)


def row_blank(cls: Any) -> Any:
    """A row without anything in it."""
    if not _is_sqlalchemys(cls):
        return cls.__new__(cls)
    manager = cls._sa_class_manager
    # Reading `attrs` configures the mappers, as a program's first query does: until then columns have no implementation
    # to set a value by (SQLAlchemy 2.0, https://docs.sqlalchemy.org/en/20/orm/mapping_api.html, Mapper.attrs).
    _ = manager.mapper.attrs
    return manager.new_instance()


def row_fill(row: Any, parts: dict[str, Any], place: dict[str, Any]) -> None:
    """Make a blank row what it was."""
    if _is_sqlalchemys(type(row)):
        _sqlalchemy_fill(row, parts, place)
    else:
        _django_fill(row, parts, place)


# SQLAlchemy: what is loaded stands in `__dict__`; `InstanceState` has the identity.


def _sqlalchemy_apart(row: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    state = vars(row)[_INSTANCE_STATE]
    relationships = set(state.mapper.relationships.keys())
    parts = {
        name: _list_related(part) if name in relationships else part
        for name, part in attributes_of(row).items()
        if name != _INSTANCE_STATE
    }
    return parts, {} if state.key is None else {"identity": list(state.key[1])}


def _list_related(value: Any) -> Any:
    """The rows of a collection, which is SQLAlchemy's own kind of list, set or dict; else the one row."""
    kind: Any = type(value)
    items = None if is_row_class(kind) else base_of(value)
    return value if items is None else list(items.values() if type(items) is dict else items)


def _sqlalchemy_fill(row: Any, parts: dict[str, Any], place: dict[str, Any]) -> None:
    state = vars(row)[_INSTANCE_STATE]
    for name, part in parts.items():
        if name in state.manager:
            # What sqlalchemy.orm.attributes.set_committed_value does.
            state.manager[name].impl.set_committed_value(state, state.dict, part)
        elif name.startswith("__"):
            raise ValueError(f"no column can be called {name}")
        else:
            state.dict[name] = part
    if "identity" in place:
        # What sqlalchemy.orm.make_transient_to_detached does.
        state.key = state.mapper.identity_key_from_primary_key(tuple(place["identity"]))
        state._commit_all(state.dict)
        state._expire_attributes(state.dict, state.unloaded)


# Django: columns stand in `__dict__`; related rows in two caches.


def _django_apart(row: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    parts = {name: part for name, part in attributes_of(row).items() if name not in {"_state", _PREFETCHED}}
    files = {field.attname for field in row._meta.concrete_fields if hasattr(field, "upload_to")}
    for name in files & parts.keys():
        parts[name] = getattr(parts[name], "name", parts[name])  # a descriptor makes a FieldFile of a name
    state = vars(row)["_state"]
    place: dict[str, Any] = {"db": state.db, "adding": state.adding}
    if related := vars(state).get("fields_cache"):
        place["related"] = dict(related)
    if prefetched := vars(row).get(_PREFETCHED):
        place["prefetched"] = {name: list(rows._result_cache or ()) for name, rows in prefetched.items()}
    return parts, place


def _django_fill(row: Any, parts: dict[str, Any], place: dict[str, Any]) -> None:
    cls: Any = type(row)
    base = next(base for base in reversed(cls.__mro__) if _is_djangos(base) or "from_db" in vars(base))
    state = base.__init__.__globals__["ModelState"]()
    state.db, state.adding = place.get("db"), place.get("adding", True)
    if "related" in place:
        state.fields_cache = place["related"]
    for name in parts:
        if name.startswith("__"):
            raise ValueError(f"no column can be called {name}")
    vars(row).update(parts, _state=state)
    for name, rows in place.get("prefetched", {}).items():
        queryset = getattr(row, name).get_queryset()
        queryset._result_cache, queryset._prefetch_done = rows, True
        vars(row).setdefault(_PREFETCHED, {})[name] = queryset
