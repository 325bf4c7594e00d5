"""What frozen tools change in the objects that they are given and belong to.

A tool that counts its calls or fills a cache does so while it is recorded, and not in a replay, where it does not run.
What it has changed is left out of the comparison from then on: known by instance, for the whole process, because a
test that is replayed may share its objects with one that was recorded before it.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytest_agentreplay.values import FrozenCall

_ABSENT = object()


class ChangedAttributes:
    """The attributes that frozen tools have changed, by instance."""

    def __init__(self) -> None:
        """Nothing has changed."""
        self._lock = threading.Lock()
        # By id, because a class may define == and no hash. The reference says that the id is still the instance's.
        self._known: dict[int, tuple[Callable[[], Any], frozenset[str]]] = {}

    def of(self, value: Any) -> Collection[str]:
        """The changed attributes of an instance."""
        if not self._known:
            return ()
        known = self._known.get(id(value))
        return known[1] if known is not None and known[0]() is value else ()

    def add(self, value: Any, names: Collection[str]) -> None:
        """Keep that a frozen tool has changed these attributes."""
        with self._lock:
            kept = frozenset(names) | frozenset(self.of(value))
            self._known[id(value)] = self._reference(value), kept

    def compare(self, before: FrozenCall, after: FrozenCall) -> None:
        """Keep what differs between two readings of one call's objects."""
        nodes = {id(node): id(value) for value, node in (*before.instances, *after.instances)}
        later = {id(value): node for value, node in after.instances}
        for value, node in before.instances:
            was, now = node[1], later.get(id(value), node)[1]
            names = {
                name for name in {**was, **now} if not _alike(was.get(name, _ABSENT), now.get(name, _ABSENT), nodes)
            }
            if names:
                self.add(value, {name[1:] if name[:1] == "$" else name for name in names})

    def _reference(self, value: Any) -> Callable[[], Any]:
        known, key = self._known, id(value)

        def forget(reference: object) -> None:
            if known.get(key, (None,))[0] is reference:
                del known[key]

        try:
            return weakref.ref(value, forget)
        except TypeError:  # slots without __weakref__: kept alive, so that its id is not given to another
            return lambda: value


def _alike(was: Any, now: Any, nodes: Mapping[int, int]) -> bool:
    """Whether two written states are equal, but for what has changed inside of an instance that both hold.

    `nodes` has the instance of each written one: that one is compared by itself.
    """
    if type(was) is not type(now):
        return False
    if isinstance(was, list):
        if id(was) in nodes and nodes[id(was)] == nodes.get(id(now)):
            return True
        return len(was) == len(now) and all(_alike(a, b, nodes) for a, b in zip(was, now, strict=True))
    if isinstance(was, dict):
        return was.keys() == now.keys() and all(_alike(part, now[name], nodes) for name, part in was.items())
    return bool(was == now)


CHANGED = ChangedAttributes()
"""Those of this process."""
