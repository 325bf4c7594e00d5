"""Ids that the client made itself: their value does not matter, their wiring does.

A fresh id is numbered inside the call that first carries it. From then on it is known by that call, so the next call
that carries it is tied to the first, in whatever order concurrent calls came. The placeholders of secrets are such ids
too, of whatever category: what the environment knew as a key here is known by its looks alone there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canon import canonical, digest
from pytest_agentreplay.core.redaction.placeholders import SHAPES, SIGNS

if TYPE_CHECKING:
    from collections.abc import Collection

SHORTEST = 8
"""Characters from which on an id is one of its kind; shorter ones, and numbers, count within a session only."""

_PLACEHOLDER = rf"(?P<placeholder>{'|'.join(SHAPES)})"
_PLACEHOLDERS = re.compile(_PLACEHOLDER)
# Escapes are taken first: in "\nabc" of a JSON text the n is no part of the word abc.
_WORD = r"[\w-]+"
_WORDS = re.compile(rf"\\.|{_PLACEHOLDER}|{_WORD}")
_IS_WORD = re.compile(_WORD)


@dataclass(slots=True)
class ClientIds:
    """What the calls of one run have taught about its client-made ids. Use one for a run, from one thread at a time.

    Placeholders of the categories in `exact` are no ids: they match as they stand.
    """

    exact: Collection[str] = frozenset()
    _names: dict[str, str] = field(default_factory=dict, init=False)
    _twins: dict[str, int] = field(default_factory=dict, init=False)
    _made: bool = field(default=False, init=False)

    def key(self, text: str, values: Collection[str] = ()) -> str:
        """The digest of a call's canonical `text`, in which the ids `values`, known ids and placeholders are renamed.

        An id is met wherever it stands as a whole word, inside other strings too.
        """
        made = {canonical(value)[1:-1] for value in values}
        self._made = self._made or bool(made)
        if not self._made and not any(sign in text for sign in SIGNS):
            return digest(text)
        fresh: dict[str, int] = {}

        def rename(found: re.Match[str]) -> str:
            value, secret = found[0], found["placeholder"] is not None
            if found["category"] in self.exact or (not secret and value not in made and value not in self._names):
                return value
            # No canonical text holds a raw NUL, so nothing else can read like a renamed id.
            known = self._names.get(value)
            return f"\0{secret}={known}" if known else f"\0{secret}+{fresh.setdefault(value, len(fresh))}"

        key = digest((_pattern(made) if self._made else _PLACEHOLDERS).sub(rename, text))
        if fresh:
            # Two calls that are alike but for their fresh ids must not lend them one name.
            twin = self._twins[key] = self._twins.get(key, -1) + 1
            self._names.update({value: f"{key[:16]}.{twin}.{number}" for value, number in fresh.items()})
        return key


def _pattern(made: Collection[str]) -> re.Pattern[str]:
    """What may be an id: every word, and those of `made` that are more than a word."""
    odd = sorted((value for value in made if not _IS_WORD.fullmatch(value)), key=len, reverse=True)
    if not odd:
        return _WORDS
    return re.compile(rf"\\.|{_PLACEHOLDER}|(?:{'|'.join(map(re.escape, odd))})(?![\w-])|{_WORD}")
