"""Keys that a recording was made with and that this machine does not have: a replay sets placeholders for them.

SDKs refuse to start without a key (`openai.OpenAI()`, `genai.Client()`), and code asks whether there is one. A replay
sends nothing, so that any text will do. A variable that has a value keeps it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.secret_names import is_key_name

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Json

PLACEHOLDER = "replayed-and-never-sent"
MOST = 50
"""Variables of one recording: a file says which, and files are anyone's."""


class MissingKeys:
    """Placeholders for the variables in `stored` that are not set, or empty, as CI sets a secret that it withholds."""

    __slots__ = ("_before", "groups")

    def __init__(self, stored: Json) -> None:
        """`stored` is what `key_variables` returned; anything else in it is left out."""
        groups = stored if isinstance(stored, list) else []
        self.groups: dict[str, list[str]] = {}
        """The names of the variables that share a placeholder, by the placeholder."""
        for number, group in enumerate(groups[:MOST], 1):
            texts = [name for name in group if isinstance(name, str)] if isinstance(group, list) else []
            if names := [name for name in texts[:MOST] if is_key_name(name) and not os.environ.get(name)]:
                self.groups[f"{PLACEHOLDER}-{number}"] = names
        self._before: dict[str, str | None] = {}

    def start(self) -> None:
        """Set the placeholders; one that the test has deleted since is not set again."""
        for placeholder, names in self.groups.items():
            for name in names:
                if name not in self._before and not os.environ.get(name):
                    self._before[name] = os.environ.get(name)
                    os.environ[name] = placeholder

    def stop(self) -> None:
        """Remove the placeholders that are still there. A second call does nothing."""
        for placeholder, names in self.groups.items():
            for name in names:
                if name not in self._before or os.environ.get(name) != placeholder:
                    continue
                if (before := self._before[name]) is None:
                    del os.environ[name]
                else:
                    os.environ[name] = before
        self._before.clear()
