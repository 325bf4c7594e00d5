"""Ids that the client made itself: their value does not matter, their wiring does.

A fresh id is numbered inside the call that first carries it. From then on it is known by that call, so the next call
that carries it is tied to the first, in whatever order concurrent calls came. Only the fields of the protocol count:
the same text in an argument is compared as it stands.

The placeholders of secrets are such ids too, of whatever category: what the environment knew as a key here is known by
its looks alone there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import digest
from pytest_agentreplay.core.redaction.placeholders import SHAPES, SIGNS

if TYPE_CHECKING:
    from collections.abc import Collection

SHORTEST = 8
"""Characters from which on an id is one of its kind; shorter ones, and numbers, count within a session only."""

MADE, MEANT = "\0made", "\0meant"
"""Members that stand instead of an id: one that the client made, and one that may be such an id."""

_ID = r'\{"\\u0000(?P<made>made|meant)":"(?P<id>(?:[^"\\]|\\.)*)"\}'
_RENAMED = re.compile(rf"{_ID}|(?P<placeholder>{'|'.join(SHAPES)})")
_SIGN = '{"\\u0000m'


@dataclass(slots=True)
class ClientIds:
    """What the calls of one run have taught about its client-made ids. Use one for a run, from one thread at a time.

    Placeholders of the categories in `exact` are no ids: they match as they stand.
    """

    exact: Collection[str] = frozenset()
    _names: dict[str, str] = field(default_factory=dict, init=False)
    _twins: dict[str, int] = field(default_factory=dict, init=False)

    def key(self, text: str) -> str:
        """The digest of a call's canonical `text`, in which marked ids and placeholders are renamed."""
        if _SIGN not in text and not any(sign in text for sign in SIGNS):
            return digest(text)
        fresh: dict[str, int] = {}

        def rename(found: re.Match[str]) -> str:
            secret = found["placeholder"] is not None
            value = found[0] if secret else found["id"]
            known = self._names.get(value)
            if found["category"] in self.exact or (found["made"] == "meant" and not known):
                return value
            # No canonical text holds a raw NUL, so nothing else can read like a renamed id.
            return f"\0{secret}={known}" if known else f"\0{secret}+{fresh.setdefault(value, len(fresh))}"

        key = digest(_RENAMED.sub(rename, text))
        if fresh:
            # Two calls that are alike but for their fresh ids must not lend them one name.
            twin = self._twins[key] = self._twins.get(key, -1) + 1
            self._names.update({value: f"{key[:16]}.{twin}.{number}" for value, number in fresh.items()})
        return key
