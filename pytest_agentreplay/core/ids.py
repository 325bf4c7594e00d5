"""Ids that the client made itself: their value does not matter, their wiring does.

A fresh id is numbered inside the call that first carries it. From then on it is known by that call, so the next call
that carries it is tied to the first, in whatever order concurrent calls came. The numbers of redaction placeholders,
`[[redacted:key:2]]`, are such ids too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canon import digest

if TYPE_CHECKING:
    from collections.abc import Collection

SHORTEST = 8
"""Characters from which on an id is one of its kind; shorter ones, and numbers, count within a session only."""

_PLACEHOLDER = r"\[\[redacted:(?P<category>[^:\[\]]+):[0-9]+\]\]"
_PLACEHOLDERS = re.compile(_PLACEHOLDER)


@dataclass(slots=True)
class ClientIds:
    """What the calls of one run have taught about its client-made ids. Use one for a run, from one thread at a time.

    Placeholders of the categories in `exact` are no ids: they match as they stand.
    """

    exact: Collection[str] = frozenset()
    _names: dict[str, str] = field(default_factory=dict, init=False)
    _twins: dict[str, int] = field(default_factory=dict, init=False)

    def key(self, text: str, values: Collection[str] = ()) -> str:
        """The digest of a call's canonical `text`, in which the ids `values` and all placeholders are renamed.

        An id is met wherever it stands as a whole word, inside other strings too.
        """
        pattern = _pattern(values) if values else _PLACEHOLDERS
        fresh: dict[str, int] = {}

        def rename(found: re.Match[str]) -> str:
            value, category = found[0], found["category"] or ""
            if category in self.exact:
                return value
            # No canonical text holds a raw NUL, so nothing else can read like a renamed id.
            known = self._names.get(value)
            return f"\0{category}={known}" if known else f"\0{category}+{fresh.setdefault(value, len(fresh))}"

        if not values and "[[redacted:" not in text:
            return digest(text)
        key = digest(pattern.sub(rename, text))
        if fresh:
            # Two calls that are alike but for their fresh ids must not lend them one name.
            twin = self._twins[key] = self._twins.get(key, -1) + 1
            self._names.update({value: f"{key[:16]}.{twin}.{number}" for value, number in fresh.items()})
        return key


def _pattern(values: Collection[str]) -> re.Pattern[str]:
    longest_first = sorted((json.dumps(value, ensure_ascii=False)[1:-1] for value in values), key=len, reverse=True)
    words = "|".join(map(re.escape, longest_first))
    return re.compile(rf"{_PLACEHOLDER}|(?<![\w-])(?:{words})(?![\w-])")
