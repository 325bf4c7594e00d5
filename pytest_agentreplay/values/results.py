"""The result of a tool as JSON that it comes back from: `freeze`, and what it refuses.

What would not come back as itself is refused with its place, its class and the line to paste. `fn` in that line stands
for the tool; the patch, which knows the tool, fills it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values import hints, tags
from pytest_agentreplay.values.arguments import is_same
from pytest_agentreplay.values.deserializer import load
from pytest_agentreplay.values.objects import shape_of
from pytest_agentreplay.values.rows import list_unloaded, load_columns, row_apart
from pytest_agentreplay.values.serializer import Walk, format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.values.objects import Codec

_UNEQUAL = "comes back unequal when it is built from what was kept"
_MOST_ARMS = 6
"""Arms of a union that a line to paste spells out; above it writes Any."""


def freeze(value: Any, *, hint: Any = None, codecs: Sequence[Codec] = ()) -> Json:
    """Return `value` as JSON that `load` with the same `hint` and `codecs` makes an equal value of the same types from.

    `hint` is a type as `typing.get_type_hints` gives it. The JSON shares nothing with `value`. Raises CannotFreeze
    with the path, the type, and the line to paste that makes the value freezable.
    """
    try:
        return tags.copy_plain(value)  # type: ignore[no-any-return]
    except (tags.NotPlain, RecursionError):
        pass
    walk = Walk(_ResultPolicy(value, codecs), codecs)
    try:
        data = walk.write(value, hint, None)
        # What is JSON, leaves and containers alone comes back by the tables: the tests prove it, not each call.
        if not walk.has_objects or _comes_back(value, data, hint, codecs):
            return data
    except RecursionError:
        kind = hints.dotted_name(type(value))
        raise CannotFreeze("the value is nested too deeply to be frozen", path="$", kind=kind) from None
    # Once more, with a proof of each instance: a union passes over an arm that does not bring its value back, and else
    # the innermost value that does not come back is the one blamed.
    data = Walk(_ResultPolicy(value, codecs, is_proving=True), codecs).write(value, hint, None)
    if _comes_back(value, data, hint, codecs):
        return data
    raise refusal_of(value, value, None, _UNEQUAL)


def _comes_back(value: Any, data: Json, hint: Any, codecs: Sequence[Codec]) -> bool:
    """Return whether `load` makes what `value` is from `data`."""
    try:
        again = load(data, hint=hint, codecs=codecs)
        written = Walk(_ResultPolicy(again, codecs), codecs).write(again, hint, None)
        # Equal texts are equal values: a repr tells 1, 1.0 and True apart. Others may be equal too: a dict in another
        # order, a union by another arm.
        return repr(written) == repr(data) or is_same(value, again, codecs=codecs)
    except RecursionError:
        raise
    except Exception:
        return False  # a class or a codec of the user's that raises: it is refused by name


@dataclass(slots=True)
class _ResultPolicy:
    """A result comes back as it was, so what nobody knows how to make again is refused.

    `root` is the whole result. With `is_proving` each instance is shown to come back as soon as it is written.
    """

    root: Any
    codecs: Sequence[Codec]
    is_proving: bool = False

    def write_unknown(self, walk: Walk, value: Any, place: Any, reason: str) -> Json:
        del walk
        raise refusal_of(self.root, value, place, reason)

    def write_cycle(self, walk: Walk, value: Any, place: Any) -> Json:
        return self.write_unknown(walk, value, place, "contains itself")

    def write_coded(self, walk: Walk, value: Any, codec: Codec, place: Any) -> Json:
        try:
            parts = codec.freeze(value)
        except Exception as error:
            reason = f"is refused by its codec: {type(error).__name__}: {error}"
            return self.write_unknown(walk, value, place, reason)
        data: JsonObject = {"$codec": [_kind(value), walk.write(parts, None, place)]}
        return self._prove(value, data, None, place)

    def write_row(self, walk: Walk, value: Any, place: Any) -> Json:
        """A row of a database: its class is looked up among those that are mapped, so that it needs no hint."""
        load_columns(value)
        if missing := list_unloaded(value):
            path = format_path(place)
            text = f"{_kind(value)} at {path} has columns that a commit has expired: {', '.join(missing)}"
            advice = "await session.refresh(row) before you return it, or make the session with expire_on_commit=False"
            raise CannotFreeze(f"{text}\n    {advice}", path=path, kind=_kind(value))
        # Before its parts: a related row may lead back to this one, which is then written by this number.
        walk.rows[id(value)] = len(walk.rows)
        parts, stands = row_apart(value)
        row: list[Json] = [_kind(value), walk.write_fields(parts, {}, place)]
        return {"$row": [*row, walk.write(stands, None, place)] if stands else row}

    def write_instance(self, walk: Walk, value: Any, hint: Any, place: Any) -> Json:
        kind: Any = type(value)
        root: Any = hints.class_of(hint)
        shape = shape_of(kind)
        if shape is None or root is None or not issubclass(kind, root):
            return self.write_unknown(walk, value, place, "")
        if kind is not root and hints.find_class(root, _kind(value)) is not kind:
            return self.write_unknown(walk, value, place, "shares its name with a class loaded later")
        try:
            parts = shape.apart(value)
        except Exception as error:
            return self.write_unknown(walk, value, place, f"does not come apart: {type(error).__name__}: {error}")
        if shape.tag == "$object" and isinstance(parts, dict):
            data: Json = walk.write_fields(parts, hints.of_fields(hint, kind, shape.hints(kind)), place)
        else:
            data = walk.write(parts, None, place)
        # A list is the form of a subclass: the name that is looked up below the hint, and the parts.
        is_named = kind is not root or isinstance(data, list)
        return self._prove(value, {shape.tag: [_kind(value), data] if is_named else data}, hint, place)

    def _prove(self, value: Any, data: JsonObject, hint: Any, place: Any) -> JsonObject:
        if self.is_proving and not _comes_back(value, data, hint, self.codecs):
            raise refusal_of(self.root, value, place, _UNEQUAL)
        return data


def _kind(value: Any) -> str:
    return hints.dotted_name(type(value))


def refusal_of(root: Any, value: Any, place: Any, reason: str = "") -> CannotFreeze:
    """The error for `value`, met at `place` inside `root`; without a reason its class is one that no hint names."""
    kind, where = _kind(value), format_path(place)
    if not reason and any(hasattr(value, name) for name in ("__next__", "__anext__", "__await__")):
        text = "can be used only once, so it cannot be kept"
        advice = "return list(...) of it, or write the tool as a generator: those are kept item by item"
    else:
        text = reason or "would not come back as itself: no annotation names its class"
        advice = _write_advice(root, value, reason)
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return CannotFreeze(f"{article} {kind} at {where} {text}\n    {advice}", path=where, kind=kind)


def _write_advice(root: Any, value: Any, reason: str) -> str:
    """The line to paste: a hint where one reaches the value, else a codec."""
    kind: Any = type(value)
    shape = shape_of(kind)
    if not reason and shape is not None:
        reached: set[int] = set()
        expression = _spell_value(root, reached, 0)
        # Below a field of another class `returns=` does not reach: the field's own annotation decides there.
        if id(value) in reached:
            return f"agentreplay.tool(fn, returns={expression})"
    name = _code_name(kind)
    base = next((base for base in (str, int, float, bytes) if isinstance(value, base)), None)
    if shape is not None and shape.tag == "$enum":
        pair = f"lambda value: value.name, lambda name: {name}[name]"
    elif base is not None:
        pair = f"{base.__name__}, {name}"
    elif hasattr(value, "model_dump"):
        pair = f"{name}.model_dump, {name}.model_validate"
    elif hasattr(value, "__dict__"):
        pair = f"vars, lambda data: {name}(**data)"
    else:
        pair = f"lambda value: ..., lambda data: {name}(...)"
    return f"agentreplay.codec({name}, {pair})"


def _code_name(cls: type) -> str:
    """The class as code near it would name it; a class made inside a function has its last name only."""
    return hints.dotted_name(cls) if "<locals>" not in cls.__qualname__ else cls.__name__


def _spell_value(value: Any, reached: set[int], depth: int) -> str:
    """A hint that fits `value`. `reached` takes the ids of the instances that the hint reaches."""
    kind = type(value)
    if value is None or depth > 6:
        return "None" if value is None else "Any"
    if kind is tuple:
        return f"tuple[{', '.join(_spell_value(part, reached, depth + 1) for part in value)}]" if value else "tuple[()]"
    if kind not in (list, set, frozenset, dict):
        reached.add(id(value))
        return _code_name(kind)
    parts = (value, value.values()) if kind is dict else (value,)
    return (
        f"{kind.__name__}[{', '.join(_spell_arms(part, reached, depth) for part in parts)}]" if value else kind.__name__
    )


def _spell_arms(values: Iterable[Any], reached: set[int], depth: int) -> str:
    arms = dict.fromkeys(_spell_value(value, reached, depth + 1) for value in values)
    return " | ".join(arms) if len(arms) <= _MOST_ARMS else "Any"
