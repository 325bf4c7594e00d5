"""Credentials: which of the run's a call sends has to be the recorded one, though its value is another today.

Placeholders of secrets match up to renaming, because the keys of a desk are not those of CI. Two kinds are known
again: a token that a reply holds, because a replay serves its placeholder, so the agent sends that very one or another;
and the value of a variable of the environment that the recording names and that has a value today. Of all others the
first may be any; what was one credential stays one, and what were two stay two, but for dummies.

A header's credential is kept by its placeholder where calls to its host have sent several; where it is the only one,
nothing is kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pytest_agentreplay.compare.matching.address import split
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.exchanges import FramesReply, HttpReply, ToolCall, ToolReply
from pytest_agentreplay.redaction.headers import MADE_ANEW
from pytest_agentreplay.redaction.placeholders import CREDENTIAL, PLACEHOLDER_TEXT, SIGNS, describe_other

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pytest_agentreplay.model.exchanges import Call, Exchange, Headers, Outcome, WireCall


_CREDENTIAL = f":{CREDENTIAL}:"
_SIGNS = re.compile("|".join(map(re.escape, SIGNS)))
# In the placeholder of a token that a client makes by itself, as `redaction` writes it: it is new each time.
_MINTED = ".redacted-jwt-"


Carried: TypeAlias = dict[tuple[str, str], tuple[str, ...]]
"""Placeholders by their place ("headers.authorization") and the host that they are sent to."""


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
        # Read only when two calls send different credentials: to read every reply would restore every body.
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
        pairs = self._pair_placeholders(recorded, now, unread=unread)
        # Nearly every call sends what the calls before it have sent, and nothing has to be learned for that.
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
        if not self._wired or today is None or _MINTED in new:
            return False
        if self._now.get(old, new) != new:
            return not today.is_stand_in(new)
        return self._recorded.get(new, old) != old and not today.may_be_shared(new)

    def _learn(self) -> None:
        """Learn from what was served since."""
        unread, self._unread = self._unread, []
        for exchange, call in unread:
            for _, old, new in self._pair_placeholders(exchange.call, call):
                # One dummy key may stand for several secrets, so it says of none which one it is.
                if self._of_today is None or not self._of_today.is_stand_in(new):
                    self._now.setdefault(old, new)
                    self._recorded.setdefault(new, old)
            if exchange.outcome is not None:
                self._replied.update(PLACEHOLDER_TEXT.findall(read_text(exchange.outcome)))

    def _pair_placeholders(self, recorded: Call, now: Call, *, unread: bool = False) -> list[tuple[str, str, str]]:
        """Return where two calls have placeholders, with the recorded one and that of now: (place, recorded, now).

        Those of the body or arguments are paired where there are as many in both; they may be left `unread`.
        """
        pairs: list[tuple[str, str, str]] = []
        sent: Carried = {}
        stored: Carried = {}
        if self._wired and not isinstance(recorded, ToolCall) and not isinstance(now, ToolCall):
            sent = list_carried(now.headers, now.url)
            stored = list_carried(recorded.headers, recorded.url) if sent else {}
        for (where, host), values in sent.items():
            # The only one of its kind was not recorded: a name of its own stands for it.
            pairs += zip(repeat(where), stored.get((where, host), (f"the only {where} of {host}",)), values)
        if not unread and _SIGNS.search(_read_sent(now)) is not None:
            written = [PLACEHOLDER_TEXT.findall(self._text(call)) for call in (recorded, now)]
            if len(written[0]) == len(written[1]):
                pairs += zip(repeat("body"), *written)
        return pairs


@lru_cache(maxsize=512)
def list_carried(headers: Headers, url: str) -> Carried:
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
            for kind, values in list_carried(x.call.headers, x.call.url).items():
                kinds[kind].update(values)
    texts = (
        text for x in exchanges for text in (_read_sent(x.call), "" if x.outcome is None else read_text(x.outcome))
    )
    stays = {placeholder for text in texts if _CREDENTIAL in text for placeholder in PLACEHOLDER_TEXT.findall(text)}
    stays.update(*(values for values in kinds.values() if len(values) > 1))
    lone = {kind for kind, values in kinds.items() if _CREDENTIAL in next(iter(values)) and not values & stays}
    return tuple(x if isinstance(x.call, ToolCall) else replace(x, call=_without(x.call, lone)) for x in exchanges)


def _without(call: WireCall, lone: Collection[tuple[str, str]]) -> WireCall:
    places = {where for where, _ in lone & list_carried(call.headers, call.url).keys()}
    kept = tuple(pair for pair in call.headers if f"headers.{pair[0].lower()}" not in places)
    return call if len(kept) == len(call.headers) else replace(call, headers=kept)


def _read_sent(call: Call) -> str:
    return canonical(call.tree) if isinstance(call, ToolCall) else f"{call.url}\n{call.body.data.decode('latin-1')}"


def read_text(outcome: Outcome) -> str:
    """Return what an outcome says, as one text."""
    if isinstance(outcome, HttpReply | FramesReply):
        return outcome.body.data.decode("utf-8", "replace")
    if isinstance(outcome, ToolReply):
        return canonical([outcome.value, *(outcome.items or ())])
    return outcome.message
