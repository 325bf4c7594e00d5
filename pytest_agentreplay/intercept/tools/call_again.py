"""Tools that are made anew: after `importlib.reload`, or when their module was dropped and is imported again.

A tool is a function object, and the module makes another one. So the import paths of the tools of a test are kept, and
what they lead to after each import is frozen as well, for as long as the test.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import CannotRedirect
from pytest_agentreplay.intercept.registry import when_imported

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from pytest_agentreplay.core.serialize import Codec
    from pytest_agentreplay.intercept.tools.tool import Redirection

_watched: list[Redirections] = []


class Redirections(list["Redirection"]):
    """The tools of one test, and of each the import paths by which it would be found again."""

    def __init__(self, codecs: Sequence[Codec]) -> None:
        """Nothing is watched before `start`."""
        super().__init__()
        self._codecs = codecs
        self._paths: dict[str, dict[tuple[str, ...], Redirection]] = {}

    def start(self) -> None:
        """Freeze again what is imported again, from now until `stop`."""
        _watched.append(self)

    def stop(self) -> None:
        """Watch no longer; a second call does nothing."""
        if self in _watched:
            _watched.remove(self)

    def add(self, redirection: Redirection, path: str = "") -> None:
        """Keep `redirection`, which was named by `path` or is found where its function was defined."""
        self.append(redirection)
        function = redirection.held()
        for module, names in ((function.__module__, function.__qualname__), split(path)):
            if module and ".<locals>" in names:
                self._paths.setdefault(module, {})[(names,)] = redirection
                when_imported(module, imported)
            elif module and names and "<" not in names:
                self._paths.setdefault(module, {})[tuple(names.split("."))] = redirection
                when_imported(module, imported)

    def again(self, module: ModuleType) -> None:
        """Freeze what the paths of this test lead to in `module`, as far as that is new."""
        from pytest_agentreplay.intercept.tools.tool import is_redirected, redirect

        for names, redirection in [*self._paths.get(module.__name__, {}).items()]:
            if ".<locals>" in names[0]:
                redirection.follow(vars(module))
                continue
            found: Any = module
            for name in names:
                found = inspect.getattr_static(found, name, None) if isinstance(found, type) else vars_of(found, name)
            try:
                if found is not None and not is_redirected(found):
                    self.append(redirect(replace(redirection.tool, function=found), self._codecs))
            except CannotRedirect:
                continue  # the module has another thing under that name now, which is no tool


def imported(module: ModuleType) -> None:
    """Tell the tests that run of an import."""
    for redirections in _watched:
        redirections.again(module)


def vars_of(owner: Any, name: str) -> Any:
    """What a module or an object has under `name`, without running a `__getattr__`."""
    return getattr(owner, "__dict__", {}).get(name)


def split(path: str) -> tuple[str, str]:
    """An import path as its module and the names within it; the module is loaded by then."""
    module, _, names = path.rpartition(".")
    while module and module not in sys.modules:
        module, _, name = module.rpartition(".")
        names = f"{name}.{names}"
    return module, names
