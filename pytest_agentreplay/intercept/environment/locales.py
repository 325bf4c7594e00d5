"""The locale of one run: what is told by it (names of days, decimal commas, orders of names) comes back elsewhere.

Kept are the locales in force and the variables that an agent's own `setlocale(LC_ALL, "")` would read. They come back
from a file, so they are held to the letters of a locale's name. What this machine does not have is told, not guessed.
"""

from __future__ import annotations

import locale
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.core.model import Json, JsonObject

LOCALE_NAME = re.compile(r"[A-Za-z][\w.@+ -]{0,63}", re.ASCII)
CATEGORIES = ("LC_COLLATE", "LC_MONETARY", "LC_NUMERIC", "LC_TIME")
"""Not LC_CTYPE: Python has its own letters, and the encoding of files that are opened hangs on it."""
VARIABLES = ("LC_ALL", *CATEGORIES, "LC_MESSAGES", "LANG")


def locale_here(environ: Mapping[str, str]) -> JsonObject:
    """The locales in force by category, and the variables that would choose others."""
    named = {name: environ[name] for name in VARIABLES if LOCALE_NAME.fullmatch(environ.get(name, ""))}
    return {"now": dict(in_force()), "variables": dict(named)}


def in_force() -> dict[str, str]:
    """The locale of each category."""
    return {name: locale.setlocale(getattr(locale, name)) for name in CATEGORIES}


class Locale:
    """The locale of a recording in the place of today's, where it is another. `missing`: what this machine lacks."""

    __slots__ = ("_before", "_now", "_set", "_variables", "missing")

    def __init__(self, stored: Json) -> None:
        """`stored` is what `locale_here` gave; anything else, and the locale of today stays."""
        fields = stored if isinstance(stored, dict) else {}
        self._now = names(fields.get("now"), CATEGORIES)
        variables = names(fields.get("variables"), VARIABLES)
        self._variables = {name: variables.get(name) for name in VARIABLES} if "variables" in fields else {}
        self._before: dict[str, str | None] = {}
        self._set: dict[str, tuple[str, str]] = {}
        self.missing: list[str] = []

    def start(self) -> None:
        """The locale is that of the recording, as far as this machine has it."""
        self.missing.clear()  # it may be started again after a pause
        self._before = {name: os.environ.get(name) for name in self._variables}
        put(self._variables)
        for category, today in in_force().items():
            name = self._now.get(category, today)
            if name == today:
                continue
            if choose(category, name):
                self._set[category] = today, in_force()[category]
            else:
                self.missing.append(f"{category}={name}")

    def stop(self) -> None:
        """The locale is today's again, but for what the agent chose itself. A second call does nothing."""
        put(self._before)
        for category, (today, ours) in self._set.items():
            if in_force()[category] == ours:
                choose(category, today)
        self._before, self._set = {}, {}


def names(stored: Json, known: tuple[str, ...]) -> dict[str, str]:
    """What of `stored` is the name of a locale, under a key of `known`."""
    fields = stored if isinstance(stored, dict) else {}
    return {key: name for key in known if isinstance(name := fields.get(key), str) and LOCALE_NAME.fullmatch(name) is not None}


def choose(category: str, name: str) -> bool:
    """Set one category; gives whether the machine has that locale."""
    try:
        locale.setlocale(getattr(locale, category), name)
    except locale.Error:
        return False
    return True


def put(variables: Mapping[str, str | None]) -> None:
    """Set variables of the environment, or take them away, where they are not so already."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        elif os.environ.get(name) != value:
            os.environ[name] = value
