"""The invariants of a project: plain functions of a run that raise where it is wrong, named in the ini file."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.fuzz.invariants import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.cases.view import RunView


def ask_invariants(names: Iterable[str], view: RunView) -> Iterator[Violation]:
    """Yield the user's invariants that do not hold of a run: those that raise."""
    for name in names:
        try:
            find_invariant(name)(view)
        except SettingsError:
            raise
        except Exception as error:
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            yield Violation(name, text)


def find_invariant(name: str) -> Callable[[RunView], object]:
    """Return the function "module:function" of the user. Raises SettingsError where there is none."""
    module, colon, function = name.partition(":")
    try:
        found: Callable[[RunView], object] = getattr(importlib.import_module(module), function) if colon else None  # type: ignore[assignment]
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"the invariant {name} cannot be imported: {error}") from None
    if not callable(found):
        raise SettingsError(f"the invariant {name} is no function: write module:function")
    return found
