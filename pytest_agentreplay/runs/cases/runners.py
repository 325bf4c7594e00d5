"""Runners: the trusted code that runs today's agent for a case, by the key that the case names.

A case is data and never names code. Its key is looked up among what the project's own ini file and conftest files
declare, and only when the case is run.
"""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import RunnerError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

HOOK = "pytest_agentreplay_runners"
EXAMPLE = "shop.cases:run_refund"
DECLARED = "in agentreplay_runners of the ini file, or by that hook of a conftest file"


class Runners:
    """What a project declares: `declared` are (key, "module:function") of its ini, `from_hooks` what its hooks gave.

    `written` makes of a message that ends with a setting one in the form of the project's file.
    """

    def __init__(
        self,
        declared: Iterable[tuple[str, str]],
        from_hooks: Iterable[object] = (),
        written: Callable[[str], str] = str,
    ) -> None:
        """Raises SettingsError for what a hook must not give."""
        self.written = written
        self._paths = dict(declared)
        self._functions: dict[str, Callable[..., Any]] = {}
        for rows in from_hooks:
            if not isinstance(rows, dict) or not all(isinstance(key, str) and callable(rows[key]) for key in rows):
                raise SettingsError(f'{HOOK} gives a dict of functions by key: {{"refunds": run_refund}}')
            self._functions |= rows

    def __getitem__(self, key: str) -> Callable[..., Any]:
        """The runner of this key.

        Raises SettingsError for a key that nobody declares, RunnerError for a function that is not there.
        """
        if key in self._functions:
            return self._functions[key]
        if key in self._paths:
            return import_function(key, self._paths[key])
        raise SettingsError(self.written(unknown(key, {**self._paths, **self._functions})))


def unknown(key: str, declared: Mapping[str, object]) -> str:
    """Return what is said of a key that nobody declares, with the nearest one that somebody does."""
    close = get_close_matches(key, declared, n=1)
    nearest = f": did you mean {close[0]}?" if close else f"; there are {', '.join(declared)}." if declared else "."
    return f"no runner {key!r} is declared{nearest} Declare it {DECLARED}: agentreplay_runners = {key} = {EXAMPLE}"


def import_function(key: str, path: str, kind: str = "runner") -> Callable[..., Any]:
    """The function at "module:function" (attributes of attributes too). Raises RunnerError with what is not there."""
    module, _, names = path.partition(":")
    advice = f"name the function in agentreplay_{kind}s: {key} = {EXAMPLE}"
    try:
        value: Any = importlib.import_module(module)
    except Exception as error:  # whatever the user's module does when it is loaded
        if not (isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")):
            advice = f'to see where: python -c "import {module}"'
        raise RunnerError(f"{kind} {key} = {path}: {module} cannot be imported: {error!r}; {advice}") from error
    for name in names.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            close = get_close_matches(name, vars(value), n=1) if hasattr(value, "__dict__") else []
            likely = f": did you mean {close[0]}?" if close else ";"
            raise RunnerError(f"{kind} {key} = {path}: there is no {name} in {module}{likely} {advice}") from None
    if not callable(value):
        raise RunnerError(f"{kind} {key} = {path}: is {type(value).__name__}, and no function; {advice}")
    return value  # type: ignore[no-any-return]
