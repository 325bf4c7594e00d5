"""One walk over one value, which writes it down as JSON: `Walk`, and the `ValuePolicy` that it asks.

The walk knows plain JSON, leaves and containers of the standard library, and unions of hints. Results and arguments
differ in what follows, which is for the policy to say: what of an instance counts, whether an object that nobody knows
is described or refused, what stands for a value that is met inside itself, how much is read.

A place is a chain of (place above, step) with None for the root. It is spelled only where a message needs it: most
walks need none.
"""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.values import hints, tags
from pytest_agentreplay.values.rows import is_row_class

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.values.objects import Codec

CONTAINERS: dict[str, type] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$deque": collections.deque,
    "$dict": dict,
    "$ordereddict": collections.OrderedDict,
    "$counter": collections.Counter,
    "$defaultdict": collections.defaultdict,
}
"""By tag. A list and a dict whose keys are texts need no tag."""
_TAG_OF = {kind: tag for tag, kind in CONTAINERS.items()}
FACTORIES = {f.__name__: f for f in (list, dict, set, int, float, str, bool, tuple, frozenset, bytes)}
"""What a defaultdict may be filled by: code of a user's has no name in a file."""


class Gap(NamedTuple):
    """A place that is compared by class alone: its path, the class, and why."""

    path: str
    kind: str
    why: str


class TooManyObjects(Exception):
    """A value has more containers and instances than a walk may read."""


class ValuePolicy(Protocol):
    """What results and arguments differ in. Each method returns what stands for a value, or refuses the value.

    A method gets the walk, to write parts by, and the place of the value, for messages.
    """

    def write_unknown(self, walk: Walk, value: Any, place: Any, reason: str) -> Json:
        """A leaf or a container that has no exact form, for that reason."""

    def write_cycle(self, walk: Walk, value: Any, place: Any) -> Json:
        """A container or an instance that is met inside itself."""

    def write_coded(self, walk: Walk, value: Any, codec: Codec, place: Any) -> Json:
        """An instance of a class that a codec is registered for."""

    def write_row(self, walk: Walk, value: Any, place: Any) -> Json:
        """A row of a database."""

    def write_instance(self, walk: Walk, value: Any, hint: Any, place: Any) -> Json:
        """An instance of any other class."""


class Walk:
    """One walk over one value, and what was met on it.

    Attributes:
        policy: What is decided otherwise of results and of arguments.
        codecs: How instances of single classes are written, by class.
        limit: Containers and instances that are read before TooManyObjects is raised.
        scalars: By class, what stands for a scalar; None where it is written as any other.
        open: The ids of the containers and instances that are being written, outermost first.
        rows: The rows of a database by id, in the order in which they were met.
        has_objects: Whether something was met that is neither JSON nor a leaf or a container of the standard library.
        gaps: The places that are described and not compared.
        instances: Each instance that is written by its attributes, with what was written.
    """

    __slots__ = ("codecs", "count", "gaps", "has_objects", "instances", "limit", "open", "policy", "rows", "scalars")

    def __init__(self, policy: ValuePolicy, codecs: Sequence[Codec], *, limit: float = math.inf) -> None:
        self.policy = policy
        self.codecs = {codec.type: codec for codec in codecs}
        self.limit = limit
        self.scalars: dict[type, Callable[[Walk, Any], Json]] = {}
        self.open: dict[int, None] = {}
        self.rows: dict[int, int] = {}
        self.count = 0
        self.has_objects = False
        self.gaps: list[Gap] = []
        self.instances: list[tuple[Any, list[Any]]] = []

    def write(self, value: Any, hint: Any, place: Any) -> Json:
        """Write one value, which stands at `place` below the root."""
        kind = type(value)
        write_scalar = self.scalars.get(kind)
        if write_scalar is not None and (written := write_scalar(self, value)) is not None:
            return written
        # Most values are these three: they are not worth a call.
        if value is None or kind is bool or (kind is str and value.isascii()) or tags.is_plain(value):
            return value  # type: ignore[no-any-return]
        if id(value) in self.rows:
            return {"$row": self.rows[id(value)]}
        if id(value) in self.open:
            return self.policy.write_cycle(self, value, place)
        hint = hints.narrow(hint)
        if isinstance(hint, hints.Arms):
            return self._write_union(value, hint, place)
        self.count += 1
        if self.count > self.limit:
            raise TooManyObjects
        self.open[id(value)] = None
        try:
            return self._write_parts(value, kind, hint, place)
        finally:
            self.open.pop(id(value), None)

    def _write_parts(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        if kind is list:
            return self.write_items(value, hint, place)
        if kind is dict:
            return self._write_dict(value, hint, place)
        codec = self.codecs.get(kind)
        if codec is None and kind in tags.TAG_OF:
            try:
                return tags.write_leaf(value)
            except ValueError as error:
                return self.policy.write_unknown(self, value, place, f"has no exact form: {error}")
        if codec is None and kind in _TAG_OF:
            return self._write_container(value, kind, hint, place)
        self.has_objects = True
        if codec is not None:
            return self.policy.write_coded(self, value, codec, place)
        if is_row_class(kind):
            return self.policy.write_row(self, value, place)
        return self.policy.write_instance(self, value, hint, place)

    def write_items(self, items: Collection[Any], hint: Any, place: Any) -> list[Json]:
        """Write the items of a container, each at its index."""
        below = hints.of_items(hint, type(items), len(items))
        return [self.write(item, inner, (place, i)) for i, (item, inner) in enumerate(zip(items, below, strict=False))]

    def write_fields(self, fields: Mapping[str, Any], below: Mapping[str, Any], place: Any) -> JsonObject:
        """Write the parts of an instance by name, with the hints `below` of those that have one."""
        return {name: self.write(part, below.get(name), (place, name)) for name, part in fields.items()}

    def _write_dict(self, value: dict[Any, Any], hint: Any, place: Any) -> Json:
        if not all(type(key) is str and tags.is_plain(key) for key in value):
            return self._write_container(value, dict, hint, place)
        by_key, rest = hints.of_keys(hint)
        fields: JsonObject = {}
        for key, part in value.items():
            name = "$" + key if key[:1] == "$" else key
            fields[name] = self.write(part, by_key.get(key, rest), (place, key))
        return fields

    def _write_container(self, value: Any, kind: type, hint: Any, place: Any) -> Json:
        tag, factory = _TAG_OF[kind], getattr(value, "default_factory", None)
        if factory is not None and FACTORIES.get(getattr(factory, "__name__", "")) is not factory:
            reason = "has a default_factory of its own; return a dict"
            return self.policy.write_unknown(self, value, place, reason)
        if issubclass(kind, dict):
            for_key, for_value = hints.of_pairs(hint)
            content: list[Json] = [
                [self.write(key, for_key, place), self.write(part, for_value, (place, (key,)))]
                for key, part in value.items()
            ]
            return {tag: [factory and factory.__name__, content] if kind is collections.defaultdict else content}
        content = self.write_items(value, hint, place)
        if kind is set or kind is frozenset:
            # Sets come in another order in each process; a snapshot has one.
            content.sort(key=repr)
        return {tag: [content, value.maxlen] if kind is collections.deque else content}

    def _write_union(self, value: Any, union: hints.Arms, place: Any) -> Json:
        """Write a value by the arm of the union whose class it has; what needs no class is written as it is."""
        failures: list[CannotFreeze] = []
        rows = self.rows
        for index, arm in sorted(enumerate((None, *union.hints), -1), key=lambda pair: _rank_arm(value, pair[1])):
            self.rows = dict(rows)  # without those that an arm which failed has numbered
            try:
                data = self.write(value, arm, place)
            except CannotFreeze as failure:
                failures.append(failure)
            else:
                return data if arm is None else {"$arm": [index, hints.spell_hint(arm), data]}
        raise failures[0]


def _rank_arm(value: Any, arm: Any) -> int:
    """How late an arm is tried: the value as it is, then its own class, then a base of it, then the rest."""
    cls = hints.class_of(arm)
    if cls is None:
        return 0 if arm is None else 3
    return 1 if cls is type(value) else 2 if isinstance(value, cls) else 4


def format_path(place: Any) -> str:
    """Return a place as a JSON path: "$.orders[0].total"."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        if isinstance(step, str):
            steps.append(f".{step}" if step.isidentifier() else f"[{step!r}]")
        else:
            # The key of a pair is a tuple of one, so that it is not taken for an index or a name.
            steps.append(f"[{step[0]!r}]" if isinstance(step, tuple) else f"[{step}]")
    return "$" + "".join(reversed(steps))
