"""The arguments and the receiver of one call, serialized to be compared, and watched while the tool runs.

A tool that counts its calls or fills a cache changes objects while it is recorded, and not in a replay, where it does
not run. What it has changed is left out of the comparison from then on: by instance, for the whole process, because a
test that is replayed may share its objects with one that was recorded before it.
"""

from __future__ import annotations

import dis
import functools
import re
import threading
import weakref
from dataclasses import replace
from itertools import islice
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.intercept.environment.clock import is_reading
from pytest_agentreplay.intercept.tools import factories
from pytest_agentreplay.intercept.tools.argument_values import content, content_in_closure, is_framework
from pytest_agentreplay.model.exchanges import SELF
from pytest_agentreplay.values.arguments import ArgumentPolicy, FrozenCall, freeze_call
from pytest_agentreplay.values.fitting import CLOSURE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import CellType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.values import Codec


_ABSENT = object()


class ChangedAttributes:
    """The attributes that frozen tools have changed, by instance."""

    def __init__(self) -> None:
        """Nothing has changed."""
        self._lock = threading.Lock()
        # By id, because a class may define == and no hash. The reference says that the id is still the instance's.
        self._changed: dict[int, tuple[Callable[[], Any], frozenset[str]]] = {}

    def names_of(self, value: Any) -> Collection[str]:
        """Return the changed attributes of an instance."""
        if not self._changed:
            return ()
        entry = self._changed.get(id(value))
        return entry[1] if entry is not None and entry[0]() is value else ()

    def add(self, value: Any, names: Collection[str]) -> None:
        """Keep that a frozen tool has changed these attributes."""
        with self._lock:
            kept = frozenset(names) | frozenset(self.names_of(value))
            self._changed[id(value)] = self._reference(value), kept

    def compare(self, before: FrozenCall, after: FrozenCall) -> None:
        """Keep what differs between two readings of one call's objects."""
        nodes = {id(node): id(value) for value, node in (*before.instances, *after.instances)}
        later = {id(value): node for value, node in after.instances}
        for value, node in before.instances:
            was, now = node[1], later.get(id(value), node)[1]
            names = {
                name for name in {**was, **now} if not _is_equal(was.get(name, _ABSENT), now.get(name, _ABSENT), nodes)
            }
            if names:
                self.add(value, {name[1:] if name[:1] == "$" else name for name in names})

    def _reference(self, value: Any) -> Callable[[], Any]:
        changed, key = self._changed, id(value)

        def forget(reference: object) -> None:
            if changed.get(key, (None,))[0] is reference:
                del changed[key]

        try:
            return weakref.ref(value, forget)
        except TypeError:  # slots without __weakref__: kept alive, so that its id is not given to another
            return lambda: value


def _is_equal(was: Any, now: Any, nodes: Mapping[int, int]) -> bool:
    """Return whether two written states are equal, but for what has changed inside of an instance that both hold.

    `nodes` has the instance of each written one: that one is compared by itself.
    """
    if type(was) is not type(now):
        return False
    if isinstance(was, list):
        if id(was) in nodes and nodes[id(was)] == nodes.get(id(now)):
            return True
        return len(was) == len(now) and all(_is_equal(a, b, nodes) for a, b in zip(was, now, strict=True))
    if isinstance(was, dict):
        return was.keys() == now.keys() and all(_is_equal(part, now[name], nodes) for name, part in was.items())
    return bool(was == now)


CHANGED = ChangedAttributes()
"""Those of this process."""


_INDEX = re.compile(r"\[\d+\]")

NESTED = 100
"""Containers in a container of a closure that are looked at."""


class ArgumentFreezing:
    """One call as it is compared."""

    __slots__ = ("_cells", "_closure", "_codecs", "_frozen", "_hidden", "_holder", "_values")

    def __init__(  # noqa: PLR0917  as it is known of a call
        self,
        arguments: Mapping[str, Any],
        receiver: Any = None,
        function: Any = None,
        codecs: Sequence[Codec] = (),
        cells: Mapping[str, CellType] | None = None,
        hidden: Collection[str] = (),
    ) -> None:
        """`function` is the method that the `receiver` is called by; `hidden` of its attributes are not compared.

        `cells` are what the closures of the tool hold.
        """
        self._hidden = hidden
        self._values = arguments, receiver
        self._codecs = codecs
        self._holder = _holder(function)
        self._cells, self._closure = cells or {}, _Closure()
        self._frozen = self._freeze()
        if running := {
            (*map(id, call._cells.values()),): call for call in reversed([*_RUNNING] if self._cells else [])
        }:
            for call in running.values():
                call.compare()  # the first call of each closure beside this one: what it has changed was just read
            self._frozen = self._freeze()

    @property
    def arguments(self) -> JsonObject:
        """The arguments by name."""
        return self._frozen.arguments

    @property
    def receiver(self) -> Json:
        """The receiver and the closure; None where they say no more than the tool's own name."""
        return self._unless_empty(self._frozen.receiver)

    def _unless_empty(self, written: Json) -> Json:
        nothing = [[self._holder, {}], ["type", {"class": self._holder}], [CLOSURE, {}]]
        if isinstance(written, dict) and any(part in nothing for part in written.values()):
            return None
        return written

    def watch(self, interception: Interception, intercepted: PendingCall, tool: str) -> None:
        """Recording: report what is not compared, and see at the call's end what the tool has changed."""
        for gap in self._frozen.gaps:
            interception.tools.uncompared.setdefault((tool, _INDEX.sub("[*]", gap.path), gap.kind), gap.why)
        if self._frozen.instances:
            intercepted.settled = self.settle
            _RUNNING.update({self: None} if self._cells else {})

    def settle(self) -> None:
        """Keep what the call has changed."""
        _RUNNING.pop(self, None)
        self.compare()

    def compare(self) -> None:
        """Keep what has changed since the call began."""
        CHANGED.compare(self._frozen, self._freeze())
        for name in CHANGED.names_of(self._closure):
            for holder in _list_holders(self._cells[name]):
                CHANGED.add(holder, (name,))

    def _freeze(self) -> FrozenCall:
        policy = ArgumentPolicy(self._codecs, content, CHANGED.names_of, is_reading, self._hidden)
        frozen = freeze_call(*self._values, policy)
        if self._cells:
            if changed := {
                name for name, cell in self._cells.items() if any(map(CHANGED.names_of, _list_holders(cell)))
            }:
                CHANGED.add(self._closure, changed)
            vars(self._closure).update({name: factories.content(cell) for name, cell in self._cells.items()})
            closure = freeze_call({}, self._closure, replace(policy, content=content_in_closure, hidden=()))
            if (written := self._unless_empty(frozen.receiver)) is not None:
                cast("Any", closure.receiver)["$state"][1][SELF] = written
            frozen.receiver = closure.receiver
            frozen.gaps += [gap for gap in closure.gaps if gap.kind != "function"]
            frozen.instances += closure.instances
        return frozen


class _Closure(SimpleNamespace):
    """What a closure holds. It can be referred to weakly, and is written as its base."""


_Closure.__module__, _Closure.__qualname__ = CLOSURE.split(".")

_RUNNING: dict[ArgumentFreezing, None] = {}
"""Calls under way of tools with closures, while they are recorded."""


def _list_holders(cell: CellType) -> tuple[Any, ...]:
    """Return a cell, and the containers in it, of many the first ones, which another cell may hold as well."""
    value = factories.content(cell)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (cell, *(part for part in (value, *islice(parts, NESTED)) if isinstance(part, list | dict | set)))


def receiver_of(function: Any) -> Any:
    """The user's object, or class, whose method a framework was given as a tool; None of a function.

    Instances of a framework's own classes are none: what these hold changes with each release.
    """
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        return None
    kind = owner if isinstance(owner, type) else type(owner)
    return None if any(is_framework(base) for base in kind.__mro__) else owner


def framework_attributes(tool: Any) -> frozenset[str] | None:
    """Return the attributes of a framework's tool object that are the framework's own.

    None where the class of the object is one of the framework's: it has no fields of a user's.
    """
    kind: Any = type(tool)
    return _framework_attributes(kind)


@functools.lru_cache(maxsize=256)
def _framework_attributes(kind: Any) -> frozenset[str] | None:
    bases = [base for base in kind.__mro__[:-1] if is_framework(base)]
    if is_framework(kind) or not bases:
        return None
    names = {
        name for base in bases for name in (*vars(base).get("__annotations__", ()), *vars(base), *_list_assigned(base))
    }
    return frozenset(names.union(*(getattr(base, "__private_attributes__", ()) for base in bases)))


def _list_assigned(kind: type) -> Iterator[str]:
    """Return the attributes that the class's `__init__` assigns: LlamaIndex and pydantic-ai declare few of theirs."""
    init = vars(kind).get("__init__")
    if isinstance(init, FunctionType):
        yield from (step.argval for step in dis.get_instructions(init) if step.opname == "STORE_ATTR")


def _holder(function: Any) -> str:
    """The class in whose body a method stands: "shop.Account"."""
    name: str = getattr(function, "__qualname__", "").rpartition(".")[0]
    return f"{getattr(function, '__module__', '')}.{name}"
