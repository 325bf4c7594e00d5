"""Credentials: which of the run's a call sends is wiring, as with any id that a reply minted.

Placeholders of secrets match up to renaming, because the keys of a desk are not those of CI. Two kinds are known
again: a token that a reply holds, because a replay serves its placeholder, so the agent sends that very one or another;
and the value of a variable of the environment that the recording names and that has a value today. Of all others the
first may be any; what was one credential stays one, and what were two stay two, but for dummies.

A header's credential is kept by its placeholder where calls to its host have sent several; where it is the only one,
nothing is kept.

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
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Protocol

from pytest_agentreplay.compare.matching.address import split
from pytest_agentreplay.model.canonical_json import canonical, digest
from pytest_agentreplay.model.exchanges import FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.redaction.encodings import as_bytes
from pytest_agentreplay.redaction.headers import MADE_ANEW
from pytest_agentreplay.redaction.placeholders import CREDENTIAL, PLACEHOLDER_TEXT, SHAPES, SIGNS, describe_other
from pytest_agentreplay.redaction.secret_names import is_stand_in, looks_random

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pytest_agentreplay.model.exchanges import Call, Exchange, Headers, Outcome, WireCall


class KnownToday(Protocol):
    """What a replay knows of the secrets of today."""

    def is_given(self, placeholder: str) -> bool:
        """Whether a placeholder stands for a value that this run itself has redacted, whatever a reply has by it."""

    def may_be_shared(self, placeholder: str) -> bool:
        """Return whether that value may stand for several recorded ones."""

    def is_stand_in(self, placeholder: str) -> bool:
        """Return whether that value only says where a secret would be."""


class Tokens:
    """Which credential of now stands for which recorded one; what was served is read when it first matters."""

    def __init__(self, text: Callable[[Call], str], *, wired: bool) -> None:
        """`text` gives the canonical text of a call; `wired` says that the recording keeps what headers carry."""
        self._text, self._wired = text, wired
        self._unread: list[tuple[Exchange, Call]] = []
        self._replied: set[str] = set()
        self._now: dict[str, str] = {}
        self._recorded: dict[str, str] = {}
        self._variables: frozenset[str] = frozenset()
        self._of_today: KnownToday | None = None

    def keep_apart(self, placeholders: frozenset[str], of_today: KnownToday) -> None:
        """Know that these stand for the same variables of the environment as in the recording."""
        self._variables, self._of_today = placeholders, of_today

    def note_served(self, exchange: Exchange, call: Call) -> None:
        """Note that `call` has got the answer of this exchange."""
        self._unread.append((exchange, call))

    def find_swap(self, recorded: Call, now: Call, *, unread: bool = False) -> str:
        """Return where one of two calls, equal up to renaming, sends another credential: "headers.authorization: ...".

        "" where it does not. The body and arguments are left `unread` where their bytes are the same.
        """
        pairs = self._pair_carried(recorded, now)
        if not unread and holds_placeholder(now):
            pairs += self._pair_written(recorded, now)
        for _, old, new in pairs:
            if self._now.get(old) != new:
                break
        else:
            return ""
        self._learn()
        return next(
            (f"{where}: {describe_other(old, new)}" for where, old, new in pairs if self._is_another(old, new)), ""
        )

    def _is_another(self, old: str, new: str) -> bool:
        today = self._of_today
        if old != new and old in self._variables and new in self._variables:
            return True
        if old != new and old in self._replied and new in self._replied and not (today and today.is_given(new)):
            return True
        if not self._wired or today is None or MINTED in new:  # one that a client has made by itself is new each time
            return False
        if self._now.get(old, new) != new:
            return not today.is_stand_in(new)
        return self._recorded.get(new, old) != old and not today.may_be_shared(new)

    def _learn(self) -> None:
        """Learn from what was served since."""
        unread, self._unread = self._unread, []
        for exchange, call in unread:
            pairs = self._pair_carried(exchange.call, call)
            if holds_placeholder(call):
                pairs += self._pair_written(exchange.call, call)
            for _, old, new in pairs:
                if self._of_today is not None and self._of_today.is_stand_in(new):
                    continue
                self._now.setdefault(old, new)
                self._recorded.setdefault(new, old)
            if exchange.outcome is not None:
                self._replied.update(PLACEHOLDER_TEXT.findall(read_text(exchange.outcome)))

    def _pair_written(self, recorded: Call, now: Call) -> list[tuple[str, str, str]]:
        """Return the placeholders in two canonical texts, in pairs, where there are as many in both."""
        old, new = (PLACEHOLDER_TEXT.findall(self._text(call)) for call in (recorded, now))
        return [("body", *pair) for pair in zip(old, new, strict=True)] if len(old) == len(new) else []

    def _pair_carried(self, recorded: Call, now: Call) -> list[tuple[str, str, str]]:
        """Return the credentials beside what is compared, in pairs; the only one of its kind was not recorded."""
        pairs: list[tuple[str, str, str]] = []
        if isinstance(recorded, ToolCall) or isinstance(now, ToolCall) or not self._wired:
            return pairs
        if mine := read_carried(now.headers, now.url):
            theirs = read_carried(recorded.headers, recorded.url)
            for (where, host), values in mine.items():
                pairs += zip(repeat(where), theirs.get((where, host), (f"the only {where} of {host}",)), values)
        return pairs


@lru_cache(maxsize=512)
def read_carried(headers: Headers, url: str) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the placeholders in the headers, query and user info of a request, by their place and host."""
    parts = split(url)
    host = "localhost" if parts.loopback else parts.host
    texts = [(f"headers.{name.lower()}", value) for name, value in headers] + [("url.userinfo", parts.userinfo)]
    texts += [(f"query.{name}", value) for name, value in parts.query if not MADE_ANEW.search(name.lower())]
    placeholders = {(where, host): tuple(PLACEHOLDER_TEXT.findall(text)) for where, text in texts}
    return {kind: values for kind, values in placeholders.items() if values}


def without_lone(exchanges: Iterable[Exchange]) -> tuple[Exchange, ...]:
    """Return the exchanges without the credential of a header that is the only one of its kind and host.

    One that stands anywhere else stays: it is compared there, and would be taken for another.
    """
    exchanges = tuple(exchanges)
    kinds: dict[tuple[str, str], set[str]] = defaultdict(set)
    for x in exchanges:
        if not isinstance(x.call, ToolCall):
            for kind, values in read_carried(x.call.headers, x.call.url).items():
                kinds[kind].update(values)
    texts = (
        text for x in exchanges for text in (_read_sent(x.call), "" if x.outcome is None else read_text(x.outcome))
    )
    stays = {placeholder for text in texts if _CREDENTIAL in text for placeholder in PLACEHOLDER_TEXT.findall(text)}
    stays.update(*(values for values in kinds.values() if len(values) > 1))
    lone = {kind for kind, values in kinds.items() if _CREDENTIAL in next(iter(values)) and not values & stays}
    return tuple(x if isinstance(x.call, ToolCall) else replace(x, call=_without(x.call, lone)) for x in exchanges)


def _without(call: WireCall, lone: Collection[tuple[str, str]]) -> WireCall:
    places = {where for where, _ in lone & read_carried(call.headers, call.url).keys()}
    kept = tuple(pair for pair in call.headers if f"headers.{pair[0].lower()}" not in places)
    return call if len(kept) == len(call.headers) else replace(call, headers=kept)


def holds_placeholder(call: Call) -> bool:
    """Return whether the placeholder of a secret stands in a call as it was sent: a few scans of its bytes."""
    return _SIGNS.search(_read_sent(call)) is not None


def _read_sent(call: Call) -> str:
    return canonical(call.tree) if isinstance(call, ToolCall) else f"{call.url}\n{call.body.data.decode('latin-1')}"


def read_text(outcome: Outcome) -> str:
    """Return what an outcome says, as one text."""
    if isinstance(outcome, HttpReply | FramesReply):
        return outcome.body.data.decode("utf-8", "replace")
    if isinstance(outcome, ToolReply):
        return canonical([outcome.value, *(outcome.items or ())])
    return outcome.message


_CREDENTIAL = f":{CREDENTIAL}:"
_SIGNS = re.compile("|".join(map(re.escape, SIGNS)))
LONGEST = 512
MINTED = ".redacted-jwt-"


class PlaceholderMatch:
    """The recorded calls that hold placeholders of secrets, by what the others of them are."""

    def __init__(self, calls: Iterable[tuple[Exchange, str]], personal: Collection[str] = ()) -> None:
        """Take each exchange with the canonical text of its call. Nothing stands in for what is `personal`."""
        self._secret = secrets_but(personal)
        self._calls = deque((x, self._secret.split(text)) for x, text in calls if any(sign in text for sign in SIGNS))

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return bool(self._calls)

    def find(self, text: str, lane: str, served: Collection[int]) -> Exchange | None:
        """Return the first unserved one for whose placeholders `text` has stand-ins, of its lane before any other."""
        for mine in (True, False):
            for x, parts in self._calls:
                if x.start not in served and (x.lane == lane) is mine and stands_for(parts, text, self._secret):
                    return x
        return None


def secrets_but(personal: Collection[str]) -> re.Pattern[str]:
    """Return a placeholder of a secret, in a group: of any category that is not `personal`."""
    others = f"(?:(?!(?:{'|'.join(map(re.escape, sorted(personal)))}):)" if personal else "(?:"
    return re.compile(f"({'|'.join(shape.replace('(?P<category>', others) for shape in SHAPES)})")


def stands_for(parts: list[str], text: str, secret: re.Pattern[str]) -> bool:
    """Whether `text` is the texts at even places of `parts` with a stand-in for each placeholder between them."""
    if not text.startswith(parts[0]) or not text.endswith(parts[-1]):
        return False
    at, last = len(parts[0]), len(text) - len(parts[-1])
    values: dict[str, str] = {}
    for placeholder, after in zip(parts[1::2], parts[2::2], strict=True):
        final = after is parts[-1]
        end = last if final else text.find(after, at, at + LONGEST + len(after)) if after else -1
        if not at <= end <= at + LONGEST:
            return False
        value = text[at:end]
        if values.setdefault(placeholder, value) != value or not may_stand_in(value, placeholder, secret):
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
        """Return the digest of a call's canonical `text`, in which marked ids and placeholders are renamed."""
        if _SIGN not in text and not any(sign in text for sign in SIGNS):
            return digest(text)
        fresh: dict[str, int] = {}

        def rename(match: re.Match[str]) -> str:
            secret = match["placeholder"] is not None
            value = match[0] if secret else match["id"]
            name = self._names.get(value)
            if match["category"] in self.exact or (match["made"] == "meant" and not name):
                return value
            # No canonical text holds a raw NUL, so nothing else can read like a renamed id.
            return f"\0{secret}={name}" if name else f"\0{secret}+{fresh.setdefault(value, len(fresh))}"

        key = digest(_RENAMED.sub(rename, text))
        if fresh:
            # Two calls that are alike but for their fresh ids must not lend them one name.
            twin = self._twins[key] = self._twins.get(key, -1) + 1
            self._names.update({value: f"{key[:16]}.{twin}.{number}" for value, number in fresh.items()})
        return key
