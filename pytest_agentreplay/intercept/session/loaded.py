"""A class by its dotted name, among what is loaded already: data never imports, and never runs a module's code.

Nor may a file name a signal of a test runner: it could skip a test or end the session.
"""

from __future__ import annotations

import sys
from typing import Any

RUNNERS = frozenset({"_pytest", "pytest", "unittest"})


def loaded_exception(path: str) -> type | None:
    """The loaded exception class that is called `path`, made inside a function or not; None when there is none."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:cut]))
        for name in parts[cut:]:
            # Not getattr: a module's own __getattr__ may import or warn.
            found = getattr(found, "__dict__", {}).get(name)
        if isinstance(found, type) and issubclass(found, BaseException):
            return None if is_signal(found) else found
    from pytest_agentreplay.core.serialize.hints import named

    found = named(BaseException, path)
    return None if found is None or is_signal(found) else found


def is_exception(value: Any) -> bool:
    """Whether a value is an exception class that a file may name."""
    return isinstance(value, type) and issubclass(value, BaseException) and not is_signal(value)


def is_signal(kind: type) -> bool:
    """Whether a class is, or derives from, a test runner's own."""
    return any(base.__module__.partition(".")[0] in RUNNERS for base in kind.__mro__)
