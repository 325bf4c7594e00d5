"""What to tell about a value that cannot be frozen: where it is, what it is, and the line to paste.

`fn` in the line stands for the tool; the boundary, which knows it, fills it in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values.deserializer import shown
from pytest_agentreplay.values.hints import dotted
from pytest_agentreplay.values.objects import shape_of
from pytest_agentreplay.values.tags import TAG_OF

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_ARMS = 6


def refusal_of(root: Any, value: Any, place: Any, why: str = "") -> CannotFreeze:
    """The error for `value`, met at `place` inside `root`."""
    kind, where = dotted(type(value)), shown(place)
    if not why and any(hasattr(value, name) for name in ("__next__", "__anext__", "__await__")):
        text = f"{_article(kind)} at {where} can be used only once, so it cannot be kept"
        return _error(
            text, "return list(...) of it, or write the tool as a generator: those are kept item by item", where, kind
        )
    text = f"{_article(kind)} at {where} {why or 'would not come back as itself: no annotation names its class'}"
    return _error(text, _line(root, value, why), where, kind)


def unequal(root: Any, value: Any, place: Any) -> CannotFreeze:
    """The error for a value that came back as another one."""
    return refusal_of(root, value, place, "comes back unequal when it is built from what was kept")


def _article(kind: str) -> str:
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"


def _error(text: str, advice: str, where: str, kind: str) -> CannotFreeze:
    return CannotFreeze(f"{text}\n    {advice}", path=where, kind=kind)


def _line(root: Any, value: Any, why: str) -> str:
    kind: Any = type(value)
    if not why and shape_of(kind) is not None:
        met: set[int] = set()
        expression = _spell(root, met, 0)
        # Below a field of another class `returns=` does not reach: the field's own annotation decides there.
        if id(value) in met:
            return f"agentreplay.tool(fn, returns={expression})"
    name = _code_name(kind)
    return f"agentreplay.codec({name}, {_pair(value, name)})"


def _pair(value: Any, name: str) -> str:
    kind: Any = type(value)
    shape = shape_of(kind) if kind not in TAG_OF else None
    if shape is not None and shape.tag == "$enum":
        return f"lambda value: value.name, lambda name: {name}[name]"
    base = next((base for base in (str, int, float, bytes) if isinstance(value, base)), None)
    if base is not None:
        return f"{base.__name__}, {name}"
    if hasattr(value, "model_dump"):
        return f"{name}.model_dump, {name}.model_validate"
    if hasattr(value, "__dict__"):
        return f"vars, lambda data: {name}(**data)"
    return f"lambda value: ..., lambda data: {name}(...)"


def _code_name(cls: type) -> str:
    """The class as code near it would name it; a class made inside a function has its last name only."""
    return dotted(cls) if "<locals>" not in cls.__qualname__ else cls.__name__


def _spell(value: Any, met: set[int], depth: int) -> str:
    """A hint that fits `value`. `met` takes the ids of the instances that the hint reaches."""
    kind = type(value)
    if value is None:
        return "None"
    if depth > 6:
        return "Any"
    if kind is tuple:
        return f"tuple[{', '.join(_spell(part, met, depth + 1) for part in value)}]" if value else "tuple[()]"
    if kind in (list, set, frozenset):
        return f"{kind.__name__}[{_union(value, met, depth)}]" if value else kind.__name__
    if kind is dict:
        return f"dict[{_union(value, met, depth)}, {_union(value.values(), met, depth)}]" if value else "dict"
    met.add(id(value))
    return _code_name(kind)


def _union(values: Iterable[Any], met: set[int], depth: int) -> str:
    arms = dict.fromkeys(_spell(value, met, depth + 1) for value in values)
    return " | ".join(arms) if len(arms) <= _MOST_ARMS else "Any"
