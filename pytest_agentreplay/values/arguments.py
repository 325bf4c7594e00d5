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
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.canonical_json import canonical, digest
from pytest_agentreplay.values import tags
from pytest_agentreplay.values.hints import dotted_name
from pytest_agentreplay.values.objects import ITEMS, PRIVATE, UNSET, shape_of
from pytest_agentreplay.values.rows import list_unloaded, row_apart
from pytest_agentreplay.values.serializer import Gap, TooManyObjects, Walk, format_path
from pytest_agentreplay.values.state import attributes_of, base_of, has_hidden_state, reduce_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.values.objects import Codec

MOST = 10_000
"""Containers and instances that are read of one argument, or of one attribute of a receiver: about 20 ms."""

LARGEST_ARRAY = 1_000_000
"""Bytes of an array in a receiver that are compared: an index of vectors must not be read at every call."""

LONGEST = 4000
"""Characters of an attribute of a receiver that are stored; of a longer one its length and digest."""

_TIMES: tuple[type, ...] = (float, int, datetime)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_MEMBER = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})
_CODE = frozenset({FunctionType, MethodType, BuiltinFunctionType, ModuleType, functools.partial})


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


@dataclass(slots=True)
class FrozenCall:
    """A call's `arguments` and `receiver` as JSON, with the gaps in them, and each instance with its written state."""

    arguments: JsonObject = field(default_factory=dict)
    receiver: Json = None
    gaps: list[Gap] = field(default_factory=list)
    instances: list[tuple[Any, list[Any]]] = field(default_factory=list)


def freeze_arguments(arguments: Mapping[str, Any], *, codecs: Sequence[Codec] = ()) -> JsonObject:
    """Return the arguments of a call as JSON to compare calls by. Never fails, and is never thawed."""
    return freeze_call(arguments, policy=ArgumentPolicy(codecs)).arguments


def freeze_call(arguments: Mapping[str, Any], receiver: Any = None, policy: ArgumentPolicy | None = None) -> FrozenCall:
    """Return a call as JSON to compare calls by, and what of it is not compared. Never fails.

    Args:
        arguments: The arguments by parameter name.
        receiver: The instance or the class that a method is called on; None of a function.
        policy: What is compared of objects.
    """
    frozen, policy = FrozenCall(), policy or ArgumentPolicy()
    for name, value in arguments.items():
        try:
            frozen.arguments[name] = tags.copy_plain(value)
        except (tags.NotPlain, RecursionError):
            frozen.arguments[name] = _write_root(frozen, policy, value, name)
    if receiver is not None:
        frozen.receiver = _write_root(frozen, replace(policy, is_receiver=True), receiver, "self")
    return frozen


def _write_root(frozen: FrozenCall, policy: ArgumentPolicy, value: Any, name: str) -> Json:
    """Write one argument or the receiver, and keep in `frozen` what was met in it."""
    walk = Walk(policy, policy.codecs, limit=MOST)
    walk.scalars = {str: _write_text, **dict.fromkeys(_TIMES if policy.is_receiver else (), policy.write_time)}
    written = policy.write_within_limit(walk, value, (None, name))
    frozen.gaps += walk.gaps
    frozen.instances += walk.instances
    return written


def is_same(a: Any, b: Any, *, codecs: Sequence[Codec] = ()) -> bool:
    """Return whether `b` could stand for `a`: they are one value to whoever compares arguments, and are read whole.

    Dicts and sets are compared without order. Instances of a codec's type are compared by what it freezes them to.
    """
    walk = Walk(ArgumentPolicy(), codecs)
    first, second = (canonical(walk.write(value, None, None)) for value in (a, b))
    return first == second and not walk.gaps


@dataclass(slots=True)
class ArgumentPolicy:
    """An argument is only compared: what has no form of its own is written by its state, or reported as a gap.

    Attributes:
        codecs: How instances of single classes are written.
        content: What objects that have no state of their own to read are compared by; None of those that have.
        changed: The attributes of an instance that frozen tools have changed so far.
        is_reading: Whether a number or a moment in the receiver is the time of this process, and compared by its class.
        hidden: The attributes of the receiver that are not compared.
        is_receiver: Whether the object is one that a method is called on, which stands in every call.
    """

    codecs: Sequence[Codec] = ()
    content: Callable[[Any], ArgumentContent | None] = lambda _: None
    changed: Callable[[Any], Collection[str]] = lambda _: ()
    is_reading: Callable[[Any], bool] = lambda _: False
    hidden: Collection[str] = ()
    is_receiver: bool = False

    def write_within_limit(self, walk: Walk, value: Any, place: Any) -> Json:
        """Return one value, or its class alone where all of it is too much or cannot be looked at."""
        gaps = len(walk.gaps)
        walk.count = 0
        try:
            if self.is_receiver and isinstance(value, type):
                return self._write_class(walk, value, place)
            return walk.write(value, None, place)
        except TooManyObjects:
            del walk.gaps[gaps:]
            return _write_gap(walk, value, place, f"holds more than {MOST:,} objects")
        except RecursionError:
            return _write_gap(walk, value, place, "is nested too deeply")
        except Exception as error:
            # A codec's or a property's own exception, raised by the class of the user's that was looked at.
            return _write_gap(walk, value, place, f"raised {type(error).__name__} when it was looked at")

    def write_time(self, walk: Walk, value: Any) -> Json:
        """A time of this process, which is another one in a replay, by its class."""
        del walk
        return {"$state": [dotted_name(type(value)), "now"]} if self.is_reading(value) else None

    def write_cycle(self, walk: Walk, value: Any, place: Any) -> Json:
        """A value inside itself by the number of levels that it stands above."""
        del place
        levels = len(walk.open) - [*walk.open].index(id(value))
        return {"$cycle": [dotted_name(type(value)), levels]}

    def write_coded(self, walk: Walk, value: Any, codec: Codec, place: Any) -> Json:
        """By its codec, or as an instance without one where the codec raises."""
        if self.is_receiver and getattr(value, "nbytes", 0) > LARGEST_ARRAY:
            return _write_gap(walk, value, place, f"holds more than {LARGEST_ARRAY:,} bytes")
        try:
            parts = codec.freeze(value)
        except Exception:
            return self.write_instance(walk, value, None, place)
        return {"$codec": [dotted_name(type(value)), walk.write(parts, None, place)]}

    def write_row(self, walk: Walk, value: Any, place: Any) -> Json:
        """A row by what is loaded of it, which is not always all; nothing is loaded to compare it."""
        if missing := list_unloaded(value):
            why = f"is a row with expired columns ({', '.join(missing)}): call session.refresh(row) before"
            _write_gap(walk, value, place, why)
        parts, stands = row_apart(value)
        if "identity" in stands:
            parts["__identity__"] = stands["identity"]
        parts |= stands.get("related", {})
        kind: Any = type(value)
        return {"$object" if shape_of(kind) else "$state": self._write_attributes(walk, value, parts, place)}

    def write_instance(self, walk: Walk, value: Any, hint: Any, place: Any) -> Json:
        """By what its library or its kind of class is compared by, else by its state."""
        del hint
        kind: Any = type(value)
        content = self.content(value)
        if content is not None:
            return self._write_content(walk, content, content.kind or dotted_name(kind), place)
        shape = shape_of(kind)
        if shape is None:
            return self.write_unknown(walk, value, place)
        parts = shape.apart(value)
        if shape.tag == "$object" and isinstance(parts, dict):
            return {"$object": self._write_attributes(walk, value, parts, place)}
        if shape.tag != "$enum":
            return {shape.tag: [dotted_name(kind), walk.write(parts, None, place)]}
        # A member by its name and its value: a name stays when someone changes what stands behind it.
        inner = walk.write(enum.Enum.__dict__["value"].__get__(value, kind), None, place)
        state = {name: part for name, part in attributes_of(value).items() if name not in _MEMBER}
        return {"$enum": [dotted_name(kind), parts, inner, *([walk.write_fields(state, {}, place)] if state else [])]}

    def _write_content(self, walk: Walk, content: ArgumentContent, kind: str, place: Any) -> Json:
        is_inner = self.is_receiver and len(walk.open) > 1
        if content.gap and not (content.service and is_inner):
            walk.gaps.append(Gap(format_path(place), kind, content.gap))
        if content.parts is None:
            return {"$opaque": kind}
        return {"$state": [kind, walk.write(content.parts, None, place)]}

    def write_unknown(self, walk: Walk, value: Any, place: Any, reason: str = "") -> Json:
        """By its state: what is no result may still be compared."""
        del reason
        kind: Any = type(value)
        if isinstance(value, type):
            return {"$state": ["type", dotted_name(value)]}
        if kind in _CODE:
            return {"$state": [dotted_name(kind), self._write_code(walk, value, place)]}
        items = base_of(value)
        if items is None and has_hidden_state(kind):
            made = reduce_instance(value)
            if made is None:
                return _write_gap(walk, value, place, "has a state that cannot be read")
            return {"$state": [dotted_name(kind), walk.write_items(made, None, place)]}
        if items is None and kind is object:
            return _write_gap(walk, value, place, "has nothing to compare it by")
        attributes = attributes_of(value) if items is None else {**attributes_of(value), ITEMS: items}
        return {"$state": self._write_attributes(walk, value, attributes, place)}

    def _write_attributes(self, walk: Walk, value: Any, parts: Mapping[str, Any], place: Any) -> list[Json]:
        changed = self.changed(value)
        written: JsonObject = {}
        is_top = self.is_receiver and len(walk.open) == 1
        if is_top and self.hidden:
            parts = _remove_hidden(parts, self.hidden)
        for name, part in parts.items():
            if name not in changed:
                below, key = (place, name), "$" + name if name[:1] == "$" else name
                if is_top:
                    written[key] = _shorten_attribute(self.write_within_limit(walk, part, below))
                else:
                    written[key] = walk.write(part, None, below)
        node: list[Any] = [dotted_name(type(value)), written]
        if changed:
            node.append({"changed": sorted(changed)})
        walk.instances.append((value, node))
        return node

    def _write_class(self, walk: Walk, value: type, place: Any) -> Json:
        """A class that a method is called on: its name, and its data; methods and descriptors are code."""
        walk.open[id(value)] = None
        members = (member for base in reversed(value.__mro__[:-1]) for member in vars(base).items())
        data = {name: part for name, part in members if name[:1] != "_" and _is_data(part)}
        try:
            return {"$state": ["type", {"class": dotted_name(value), **walk.write_fields(data, {}, place)}]}
        finally:
            walk.open.pop(id(value), None)

    def _write_code(self, walk: Walk, value: Any, place: Any) -> Json:
        """A function by its name and what it has bound; its body is code, which is not compared."""
        if isinstance(value, ModuleType):
            return value.__name__
        if isinstance(value, functools.partial):
            return walk.write_items([value.func, value.args, value.keywords], None, place)
        if isinstance(value, MethodType):
            return walk.write_items([value.__func__, value.__self__], None, place)
        if isinstance(value, FunctionType):
            name = f"{value.__module__}.{value.__qualname__}"
            if "<" not in value.__qualname__:
                return name
            walk.gaps.append(Gap(format_path(place), "function", "is compared by its name, not by its code"))
            bound = {"closure": _read_closure(value), "defaults": value.__defaults__, "keywords": value.__kwdefaults__}
            return {"name": name, **{key: walk.write(part, None, place) for key, part in bound.items() if part}}
        owner = value.__self__  # a builtin: its module, or the object that it is a method of
        if owner is None or isinstance(owner, ModuleType):
            return f"{value.__module__}.{value.__qualname__}"
        return [value.__qualname__, walk.write(owner, None, place)]


def _write_text(walk: Walk, value: str) -> Json:
    """A text below the root without addresses: a repr that was kept has another one in each process."""
    if not walk.open or " at 0x" not in value:
        return None
    text = _ADDRESS.sub(" at 0x...", value)
    return text if tags.is_plain(text) else tags.write_leaf(text)


def _write_gap(walk: Walk, value: Any, place: Any, why: str) -> Json:
    walk.gaps.append(Gap(format_path(place), dotted_name(type(value)), why))
    return {"$opaque": dotted_name(type(value))}


def _remove_hidden(parts: Mapping[str, Any], hidden: Collection[str]) -> dict[str, Any]:
    """The parts of a receiver that are not `hidden`; which fields of a model were set says nothing more."""
    private = parts.get(PRIVATE)
    kept = {name: part for name, part in parts.items() if name not in hidden and name not in {PRIVATE, UNSET}}
    shown_private = {name: part for name, part in (private or {}).items() if name not in hidden}
    return {**kept, PRIVATE: shown_private} if shown_private else kept


def _shorten_attribute(written: Json) -> Json:
    """Return an attribute of a receiver, which stands in every call: a catalogue of rows by its size and digest."""
    if not isinstance(written, list | dict):
        return written
    text = canonical(written)
    return written if len(text) <= LONGEST else {"$state": ["json", {"length": len(text), "sha256": digest(text)}]}


def _is_data(value: Any) -> bool:
    kind = type(value)
    if kind in (list, tuple, set, frozenset, dict):
        return all(map(_is_data, (*value, *value.values()) if kind is dict else value))
    return value is None or kind is bool or kind in tags.TAG_OF or isinstance(value, enum.Enum)


def _read_closure(function: FunctionType) -> dict[str, Any]:
    """What a function has bound, by name, without itself."""
    variables: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # of a cell that is not filled yet
            if cell.cell_contents is not function:
                variables[name] = cell.cell_contents
    return variables
