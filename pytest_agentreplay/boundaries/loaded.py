"""A class by its dotted name, among what is loaded already: data never imports, and never runs a module's code."""

from __future__ import annotations

import sys
from typing import Any

from pytest_agentreplay.core.hints import named


def loaded_exception(path: str) -> type | None:
    """The loaded exception class that is called `path`, made inside a function or not; None when there is none."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:cut]))
        for name in parts[cut:]:
            # Not getattr: a module's own __getattr__ may import or warn.
            found = getattr(found, "__dict__", {}).get(name)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    return named(BaseException, path)
