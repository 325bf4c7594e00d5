"""Calls a function when a library arrives: now if it is loaded, else right after its import. Imports nothing itself.

The finder stays for good, so that a module that is reloaded, or dropped and imported anew, is patched again; for every
other import it costs one look-up.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    Act = Callable[[ModuleType], None]

_acts: dict[str, list[Act]] = {}
_lock = threading.Lock()


class _Watch(MetaPathFinder):
    """Finds what the other finders find, with a loader that tells us when it is done."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _acts:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Telling(spec.loader)
                return spec
        return None


class _Telling(Loader):
    """The real loader for everybody who asks, until it loads: then the real one is put back in its place."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._real.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if (spec := module.__spec__) is not None:
            name = spec.name
            spec.loader = self._real
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._real
        self._real.exec_module(module)
        for act in list(_acts.get(name, ())):
            # A module may put another one in its own place while it loads.
            act(sys.modules.get(name, module))


_watch = _Watch()


def is_watching(names: Iterable[str]) -> bool:
    """Whether imports are watched, those of all `names` among them."""
    return _watch in sys.meta_path and all(name in _acts for name in names)


def when_imported(name: str, act: Act) -> None:
    """Call `act(module)` now if module `name` is loaded, and after each import of it from now on.

    Asking again with the same pair does nothing. `act` runs inside the import, so what it raises fails that import.
    """
    with _lock:
        known = _acts.setdefault(name, [])
        # Asked each time: test tools save and restore sys.meta_path.
        if _watch not in sys.meta_path:
            sys.meta_path.insert(0, _watch)
        if act in known:
            return
        known.append(act)
    # Another thread may be in this very import already, past the finders; the lock of the import says when it is done.
    importlib._bootstrap._lock_unlock_module(name)  # type: ignore[attr-defined]
    module = sys.modules.get(name)
    if module is not None:
        act(module)
