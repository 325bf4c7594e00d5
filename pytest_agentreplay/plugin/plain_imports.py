"""Import our modules by Python's own loader, not by pytest's assertion rewriting.

pytest rewrites every module of a distribution that has a plugin, so that asserts in helpers for tests are explained
(`Config._mark_plugins_for_rewrite` and `AssertionRewritingHook`, pytest 8.4 to 9.2). We have no such asserts. Rewriting
parses and compiles a module anew unless it can keep the result, and it cannot where PYTHONDONTWRITEBYTECODE is set, as
in many container images, although the wheel's byte code is there: 0.8 s of each session. `PYTEST_DONT_REWRITE` in a
docstring only leaves the asserts alone, it does not spare the compilation. A finder that answers before pytest's does,
and it works for wheels and editable installs alike. Of ours only this module and the two packages above it are
imported before it.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PREFIX = f"{__name__.partition('.')[0]}."


class PlainImports:
    """A finder for `sys.meta_path` that finds our modules as Python does."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a module of ours; None for every other module."""
        return PathFinder.find_spec(name, path, target) if name.startswith(PREFIX) else None


def install() -> None:
    """Put the finder before pytest's. Each pytest that is started in a process puts its own in front."""
    if sys.meta_path[0] is not PlainImports:
        sys.meta_path[:] = [PlainImports, *(finder for finder in sys.meta_path if finder is not PlainImports)]


install()
