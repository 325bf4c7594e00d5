"""Tokens whose identity is known: which of them a call sends is wiring, as with any id that a reply minted.

Placeholders of secrets match up to renaming, because the keys of a desk are not those of CI. Two kinds are known
again: a token that a reply holds, because a replay serves its placeholder, so the agent sends that very one or another;
and the value of a variable of the environment that the recording names and that has a value today.

Veiled calls: where the recording held a secret, the test of today may send a stand-in, a dummy key or nothing.

A stand-in is no secret, so it comes without a placeholder, and the two calls look different; so they do where a secret
becomes known after it was sent, which a recording mends at its end. They are the same call when nothing else differs,
and what stands for one placeholder is the same wherever that stands. Any other text is a change: an agent that sent a
key where it sends a word now does something else.

Ids that the client made itself: their value does not matter, their wiring does.

A fresh id is numbered inside the call that first carries it. From then on it is known by that call, so the next call
that carries it is tied to the first, in whatever order concurrent calls came. Only the fields of the protocol count:
the same text in an argument is compared as it stands.

The placeholders of secrets are such ids too, of whatever category: what the environment knew as a key here is known by
its looks alone there.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay.core.canonical_json import canonical, digest
from pytest_agentreplay.core.model import FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.core.redaction.encodings import as_bytes
from pytest_agentreplay.core.redaction.placeholders import SHAPES, SIGNS
from pytest_agentreplay.core.redaction.secret_names import is_stand_in, looks_random

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pytest_agentreplay.core.model import Call, Exchange, Outcome

_PLACEHOLDER = re.compile("|".join(SHAPES).replace("(?P<category>", "(?:"))


class Tokens:
    """The placeholders that stand in the replies served so far; a reply is read when it first matters."""

    def __init__(self) -> None:
        """Begin without any."""
        self._unread: list[Outcome] = []
        self._found: set[str] = set()
        self._variables: frozenset[str] = frozenset()
        self._is_given: Callable[[str], bool] = lambda _: False

    def keep_apart(self, placeholders: frozenset[str], is_given: Callable[[str], bool]) -> None:
        """Know that these stand for the same variables of the environment as in the recording.

        `is_given` says that a placeholder stands for a value of today, whatever number a reply has for another one.
        """
        self._variables, self._is_given = placeholders, is_given

    def served(self, outcome: Outcome | None) -> None:
        """The agent has got this reply."""
        if outcome is not None:
            self._unread.append(outcome)

    def swapped(self, recorded: str, now: str) -> bool:
        """Whether one of two canonical texts, equal up to renaming, holds another token than the other."""
        if recorded == now:
            return False
        pairs = zip(_PLACEHOLDER.findall(recorded), _PLACEHOLDER.findall(now), strict=False)
        moved = [pair for pair in pairs if pair[0] != pair[1]]
        if any(old in self._variables and new in self._variables for old, new in moved):
            return True
        if moved:
            while self._unread:
                self._found.update(_PLACEHOLDER.findall(_text(self._unread.pop())))
        return any(old in self._found and new in self._found and not self._is_given(new) for old, new in moved)


def holds_placeholder(call: Call) -> bool:
    """Whether the placeholder of a secret stands in a call as it was sent: a few scans of its bytes."""
    text = canonical(call.tree) if isinstance(call, ToolCall) else f"{call.url}\n{call.body.data.decode('latin-1')}"
    return any(sign in text for sign in SIGNS)


def _text(outcome: Outcome) -> str:
    if isinstance(outcome, HttpReply | FramesReply):
        return outcome.body.data.decode("utf-8", "replace")
    if isinstance(outcome, ToolReply):
        return canonical([outcome.value, *(outcome.items or ())])
    return outcome.message


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
