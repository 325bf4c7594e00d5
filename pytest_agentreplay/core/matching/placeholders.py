"""Veiled calls: where the recording held a secret, the test of today may send a stand-in, a dummy key or nothing.

A stand-in is no secret, so it comes without a placeholder, and the two calls look different; so they do where a secret
becomes known after it was sent, which a recording mends at its end. They are the same call when nothing else differs,
and what stands for one placeholder is the same wherever that stands. Any other text is a change: an agent that sent a
key where it sends a word now does something else.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from pytest_agentreplay.core.redaction.encodings import as_bytes
from pytest_agentreplay.core.redaction.fields import is_stand_in, looks_random
from pytest_agentreplay.core.redaction.placeholders import SHAPES, SIGNS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytest_agentreplay.core.model import Exchange

LONGEST = 512


class PlaceholderMatch:
    """The recorded calls that hold placeholders of secrets, by what the others of them are."""

    def __init__(self, calls: Iterable[tuple[Exchange, str]], personal: Collection[str] = ()) -> None:
        """Take each exchange with the canonical text of its call. Nothing stands in for what is `personal`."""
        self._secret = secrets_but(personal)
        self._calls = deque((x, self._secret.split(text)) for x, text in calls if any(sign in text for sign in SIGNS))

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._calls)

    def find(self, text: str, lane: str, served: Collection[int]) -> Exchange | None:
        """The first unserved one for whose placeholders `text` has stand-ins, of its lane before any other."""
        for mine in (True, False):
            for x, parts in self._calls:
                if x.start not in served and (x.lane == lane) is mine and stands_for(parts, text, self._secret):
                    return x
        return None


def secrets_but(personal: Collection[str]) -> re.Pattern[str]:
    """A placeholder of a secret, in a group: of any category that is not `personal`."""
    others = f"(?:(?!(?:{'|'.join(map(re.escape, sorted(personal)))}):)" if personal else "(?:"
    return re.compile(f"({'|'.join(shape.replace('(?P<category>', others) for shape in SHAPES)})")


def stands_for(parts: list[str], text: str, secret: re.Pattern[str]) -> bool:
    """Whether `text` is the texts at even places of `parts` with a stand-in for each placeholder between them."""
    if not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return False
    at, last = len(parts[0]), len(text) - len(parts[-1])
    said: dict[str, str] = {}
    for placeholder, after in zip(parts[1::2], parts[2::2], strict=True):
        final = after is parts[-1]
        end = last if final else text.find(after, at, at + LONGEST + len(after)) if after else -1
        if not at <= end <= at + LONGEST:
            return False
        value = text[at:end]
        if said.setdefault(placeholder, value) != value or not may_stand_in(value, placeholder, secret):
            return False
        at = end + len(after)
    return True


def may_stand_in(value: str, placeholder: str, secret: re.Pattern[str]) -> bool:
    """Whether a value of today may be what a placeholder stands for: itself, nothing, a stand-in, or another secret."""
    if not value or value == placeholder or secret.fullmatch(value) is not None:
        return True
    return is_stand_in(as_bytes(value)) or looks_random(as_bytes(value))
