"""The arguments of a call, and the object that it is made on, as JSON to compare calls by. Never thawed.

What `objects` knows is written as a result would be. Any other instance is written by its state (`state`):

    {"$state": ["shop.Account", {"owner": "ada"}]}                    attributes, from `__dict__` and slots
    {"$state": ["shop.Basket", {"__items__": ["A-1"], "rate": 2}]}    what it is as a list, dict, string ... besides
    {"$state": ["shop.Account", {"owner": "ada"}, {"changed": ["balance"]}]}
    {"$opaque": "_thread.lock"}                                       nothing to compare: the class alone
    {"$cycle": ["shop.Order", 1]}                                     the instance that stands so many levels above

A frozen tool does not run in a replay, so what it changes in an object stays as it was there. Such attributes are left
out once they have changed, and named in "changed".
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass, field
from datetime import datetime
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model.canonical_json import canonical, digest
from pytest_agentreplay.values import hints, tags
from pytest_agentreplay.values.deserializer import at_key, format_path
from pytest_agentreplay.values.objects import PRIVATE, UNSET, shape_of
from pytest_agentreplay.values.rows import list_unloaded, row_apart
from pytest_agentreplay.values.serializer import Serializer
from pytest_agentreplay.values.state import attributes_of, base_of, has_hidden_state, reduce_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.values.objects import Codec, ObjectShape

MOST = 10_000
"""Containers and instances that are read of one argument, or of one attribute of a receiver: about 20 ms."""

LARGEST_ARRAY = 1_000_000
"""Bytes of an array in a receiver that are compared: an index of vectors must not be read at every call."""

LONGEST = 4000
"""Characters of an attribute of a receiver that are stored; of a longer one its length and digest."""

_TIMES = (float, int, datetime)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MEMBER = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})


@dataclass(frozen=True, slots=True)
class ArgumentContent:
    """What a library's object is compared by: `parts`, a freezable value.

    `gap` says why the rest of it, or all of it where there are no parts, is not compared. A `service` (a client, a
    logger, a lock) has nothing that a receiver which holds it should be compared by. `kind` is the class it is shown
    by, where that is not the object's own.
    """

    parts: Any = None
    gap: str = ""
    service: bool = False
    kind: str = ""


class Gap(NamedTuple):
    """A place that is compared by class alone: its path, the class, and why."""

    path: str
    kind: str
    why: str


@dataclass(slots=True)
class FrozenCall:
    """A call's `arguments` and `receiver` as JSON, with the gaps in them, and each instance with its written state."""

    arguments: JsonObject = field(default_factory=dict)
    receiver: Json = None
    gaps: list[Gap] = field(default_factory=list)
    instances: list[tuple[Any, list[Any]]] = field(default_factory=list)


def freeze_arguments(arguments: Mapping[str, Any], *, codecs: Sequence[Codec] = ()) -> JsonObject:
    """Return the arguments of a call as JSON to compare calls by. Never fails, and is never thawed."""
    return freeze_call(arguments, codecs=codecs).arguments


def freeze_call(
    arguments: Mapping[str, Any],
    receiver: Any = None,
    *,
    codecs: Sequence[Codec] = (),
    content: Callable[[Any], ArgumentContent | None] = lambda _: None,
    changed: Callable[[Any], Collection[str]] = lambda _: (),
    is_reading: Callable[[Any], bool] = lambda _: False,
    hidden: Collection[str] = (),
) -> FrozenCall:
    """Return a call as JSON to compare calls by, and what of it is not compared. Never fails.

    Args:
        arguments: The arguments by parameter name.
        receiver: The instance or the class that a method is called on; None of a function.
        codecs: How instances of single classes are written.
        content: What objects that have no state of their own to read are compared by; None of those that have.
        changed: The attributes of an instance that frozen tools have changed so far.
        is_reading: Whether a number or a moment in the receiver is the time of this process, and compared by its class.
        hidden: The attributes of the receiver that are not compared.
    """
    frozen = FrozenCall()
    for name, value in arguments.items():
        try:
            frozen.arguments[name] = tags.copy_plain(value)
        except (tags.NotPlain, RecursionError):
            frozen.arguments[name] = _ArgumentReader(value, frozen, codecs, content, changed).freeze_value(value, name)
    if receiver is not None:
        reader = _ArgumentReader(receiver, frozen, codecs, content, changed, is_reading=is_reading, hidden=hidden)
        frozen.receiver = reader.freeze_value(receiver, "self")
    return frozen


class _TooLarge(Exception):
    """More than MOST containers and instances."""


class _ArgumentReader(Serializer):
    """One walk over one argument."""

    __slots__ = ("changed", "content", "count", "frozen", "hidden", "is_reading", "receiver")

    def __init__(
        self,
        root: Any,
        frozen: FrozenCall,
        codecs: Sequence[Codec],
        content: Callable[[Any], ArgumentContent | None],
        changed: Callable[[Any], Collection[str]],
        *,
        is_reading: Callable[[Any], bool] | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        super().__init__(root, codecs, lenient=True)
        self.frozen = frozen
        self.content = content
        self.changed = changed
        self.receiver = is_reading is not None
        self.is_reading = is_reading
        self.hidden = hidden
        self.count = 0

    def freeze_value(self, value: Any, name: str) -> Json:
        """Return one value, or its class alone where all of it is too much or cannot be looked at."""
        return self._within_bounds(value, at_key(None, name))

    def _within_bounds(self, value: Any, place: Any) -> Json:
        opened, gaps = dict(self.open), len(self.frozen.gaps)
        self.count = 0
        try:
            if self.receiver and isinstance(value, type):
                return self._class(value, place)
            return self.walk(value, None, place)
        except _TooLarge:
            del self.frozen.gaps[gaps:]
            return self._gap(value, place, f"holds more than {MOST:,} objects")
        except RecursionError:
            return self._gap(value, place, "is nested too deeply")
        except Exception as error:
            # A codec's or a property's own exception, raised by the class of the user's that was looked at.
            return self._gap(value, place, f"raised {type(error).__name__} when it was looked at")
        finally:
            self.open = opened

    def walk(self, value: Any, hint: Any, place: Any) -> Json:
        if type(value) is str and self.open and " at 0x" in value:
            value = _ADDRESS.sub(" at 0x...", value)  # a repr that was kept: another one in each process
        if self.is_reading is not None and type(value) in _TIMES and self.is_reading(value):
            return {"$state": [hints.dotted_name(type(value)), "now"]}
        return super().walk(value, hint, place)

    def _walk_into(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        self.count += 1
        if self.count > MOST:
            raise _TooLarge
        return super()._walk_into(value, kind, hint, place)

    def _write_coded(self, value: Any, codec: Codec, place: Any) -> Json:
        if self.receiver and getattr(value, "nbytes", 0) > LARGEST_ARRAY:
            return self._gap(value, place, f"holds more than {LARGEST_ARRAY:,} bytes")
        try:
            parts = codec.freeze(value)
        except Exception:
            return self._instance(value, type(value), None, place)
        return {"$codec": [hints.dotted_name(type(value)), self.walk(parts, None, place)]}

    def _write_cycle(self, value: Any, place: Any) -> Json:
        del place
        levels = len(self.open) - [*self.open].index(id(value))
        return {"$cycle": [hints.dotted_name(type(value)), levels]}

    def _refuse(self, value: Any, place: Any, why: str = "") -> Json:
        """A container or leaf that a result could not be made of is written by its state."""
        del why
        return self._state(value, type(value), place)

    def _row(self, value: Any, place: Any) -> Json:
        """A row by what is loaded of it, which is not always all; nothing is loaded to compare it."""
        if missing := list_unloaded(value):
            why = f"is a row with expired columns ({', '.join(missing)}): call session.refresh(row) before"
            self.frozen.gaps.append(Gap(format_path(place), hints.dotted_name(type(value)), why))
        parts, stands = row_apart(value)
        if "identity" in stands:
            parts["__identity__"] = stands["identity"]
        parts |= stands.get("related", {})
        kind: Any = type(value)
        tag = "$state" if shape_of(kind) is None else "$object"
        return {tag: self._attributes(value, kind, parts, place)}

    def _instance(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        del hint
        content = self.content(value)
        if content is not None:
            return self._content(kind, content, place)
        shape = shape_of(kind)
        if shape is None:
            return self._state(value, kind, place)
        if shape.tag == "$enum":
            return self._member(value, kind, shape, place)
        parts = shape.apart(value)
        if shape.tag == "$object" and isinstance(parts, dict):
            return {"$object": self._attributes(value, kind, parts, place)}
        return {shape.tag: [hints.dotted_name(kind), self.walk(parts, None, place)]}

    def _member(self, value: Any, kind: type, shape: ObjectShape, place: Any) -> Json:
        """A member by its name and its value: a name stays when someone changes what stands behind it."""
        state = {name: part for name, part in attributes_of(value).items() if name not in _MEMBER}
        inner = enum.Enum.__dict__["value"].__get__(value, kind)
        member: list[Json] = [hints.dotted_name(kind), shape.apart(value), self.walk(inner, None, place)]
        if state:
            member.append({name: self.walk(part, None, at_key(place, name)) for name, part in state.items()})
        return {"$enum": member}

    def _content(self, kind: type, content: ArgumentContent, place: Any) -> Json:
        inner, shown_kind = self.receiver and len(self.open) > 1, content.kind or hints.dotted_name(kind)
        if content.gap and not (content.service and inner):
            self.frozen.gaps.append(Gap(format_path(place), shown_kind, content.gap))
        if content.parts is None:
            return {"$opaque": shown_kind}
        return {"$state": [shown_kind, self.walk(content.parts, None, place)]}

    def _state(self, value: Any, kind: type, place: Any) -> Json:
        if isinstance(value, type):
            return {"$state": ["type", hints.dotted_name(value)]}
        if kind in _CODE:
            return {"$state": [hints.dotted_name(kind), self._code(value, place)]}
        base = base_of(value)
        if base is None and has_hidden_state(kind):
            made = reduce_instance(value)
            if made is None:
                return self._gap(value, place, "has a state that cannot be read")
            return {"$state": [hints.dotted_name(kind), self._items(made, None, place)]}
        attributes = attributes_of(value)
        if base is not None:
            attributes["__items__"] = base.value
        elif kind is object:
            return self._gap(value, place, "has nothing to compare it by")
        return {"$state": self._attributes(value, kind, attributes, place)}

    def _attributes(self, value: Any, kind: type, parts: Mapping[str, Any], place: Any) -> list[Json]:
        changed = self.changed(value)
        written: JsonObject = {}
        top = self.receiver and len(self.open) == 1
        if top and self.hidden:
            parts = _without(parts, self.hidden)
        for name, part in parts.items():
            if name in changed:
                continue
            below = at_key(place, name)
            key = "$" + name if name[:1] == "$" else name
            written[key] = _shorten(self._within_bounds(part, below)) if top else self.walk(part, None, below)
        node: list[Any] = [hints.dotted_name(kind), written]
        if changed:
            node.append({"changed": sorted(changed)})
        self.frozen.instances.append((value, node))
        return node

    def _class(self, value: type, place: Any) -> Json:
        """A class that a method is called on: its name, and its data; methods and descriptors are code."""
        self.open[id(value)] = None
        data: JsonObject = {}
        for base in reversed(value.__mro__[:-1]):
            for name, part in vars(base).items():
                if not name.startswith("_") and _is_data(part):
                    data[name] = self.walk(part, None, at_key(place, name))
        return {"$state": ["type", {"class": hints.dotted_name(value), **data}]}

    def _code(self, value: Any, place: Any) -> Json:
        """A function by its name and what it has bound; its body is code, which is not compared."""
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, functools.partial):
            return self._items([value.func, value.args, value.keywords], None, place)
        if isinstance(value, MethodType):
            return self._items([value.__func__, value.__self__], None, place)
        if isinstance(value, FunctionType):
            name = f"{value.__module__}.{value.__qualname__}"
            if "<" not in value.__qualname__:
                return name
            self.frozen.gaps.append(Gap(format_path(place), "function", "is compared by its name, not by its code"))
            bound = {"closure": _closure(value), "defaults": value.__defaults__, "keywords": value.__kwdefaults__}
            return {"name": name, **{key: self.walk(part, None, place) for key, part in bound.items() if part}}
        owner = value.__self__  # a builtin: its module, or the object that it is a method of
        if owner is None or isinstance(owner, ModuleType):
            return f"{value.__module__}.{value.__qualname__}"
        return [value.__qualname__, self.walk(owner, None, place)]

    def _gap(self, value: Any, place: Any, why: str) -> Json:
        self.frozen.gaps.append(Gap(format_path(place), hints.dotted_name(type(value)), why))
        return {"$opaque": hints.dotted_name(type(value))}


def _without(parts: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """The parts of a receiver that are not `hidden`; which fields of a model were set says nothing more."""
    private = parts.get(PRIVATE)
    kept = {name: part for name, part in parts.items() if name not in hidden and name not in {PRIVATE, UNSET}}
    shown_private = {name: part for name, part in (private or {}).items() if name not in hidden}
    return {**kept, PRIVATE: shown_private} if shown_private else kept


def _shorten(written: Json) -> Json:
    """Return an attribute of a receiver, which stands in every call: a catalogue of rows by its size and digest."""
    if not isinstance(written, list | dict):
        return written
    text = canonical(written)
    return written if len(text) <= LONGEST else {"$state": ["json", {"length": len(text), "sha256": digest(text)}]}


def _is_data(value: Any) -> bool:
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return all(map(_is_data, value))
    if kind is dict:
        return all(map(_is_data, value)) and all(map(_is_data, value.values()))
    return value is None or kind is bool or kind in tags.TAG_OF or isinstance(value, enum.Enum)


def _closure(function: FunctionType) -> dict[str, Any]:
    """What a function has bound, by name, without itself."""
    variables: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            if cell.cell_contents is not function:
                variables[name] = cell.cell_contents
        except ValueError:
            continue  # a cell that is not filled yet
    return variables


_CODE = frozenset({FunctionType, MethodType, BuiltinFunctionType, ModuleType, functools.partial})
