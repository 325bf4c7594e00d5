"""When a value that came back is the one that was frozen: by the values themselves, without what writes or reads them.

Equal and of the same types all the way down; nan equals nan, 0.0 is not -0.0.
"""

from __future__ import annotations

import collections
from datetime import datetime, time, timezone
from decimal import Decimal
from math import copysign
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.values.objects import shape_of
from pytest_agentreplay.values.rows import is_row_class, row_apart

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pytest_agentreplay.values import Codec


def equals_whole(a: Any, b: Any, *, codecs: Sequence[Codec] = ()) -> bool:
    """Return whether `b` could stand for `a`.

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
