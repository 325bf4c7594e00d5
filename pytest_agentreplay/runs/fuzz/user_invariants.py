"""The invariants of a project: plain functions of a run that raise where it is wrong, named in the ini file."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.runs.fuzz.invariants import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.cases.view import RunView


def ask_invariants(names: Iterable[str], view: RunView) -> Iterator[Violation]:
    """Yield the user's invariants that do not hold of a run: those that raise. Raises SettingsError as below."""
    for name, invariant in [(name, find_invariant(name)) for name in names]:
        try:
            invariant(view)
        except Exception as error:
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            yield Violation(name, text)


def find_invariant(name: str) -> Callable[[RunView], object]:
    """Return the function "module:function" of the user. Raises SettingsError where there is none."""
    module, _, function = name.partition(":")
    if not (module and function):
        raise SettingsError(f"the invariant {name} is no function: write module:function in agentreplay_invariants")
    try:
        invariant: Callable[[RunView], object] = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the user's module does when it is loaded
        raise SettingsError(f"the invariant {name} cannot be imported: {type(error).__name__}: {error}") from None
    if not callable(invariant):
        raise SettingsError(f"the invariant {name} is {type(invariant).__name__}, and no function")
    return invariant
