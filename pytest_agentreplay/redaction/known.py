"""Known values: the secrets of this run, found in every guise.

An agent sends its whole history again with each turn. Scanned from its beginning each time, a conversation costs the
square of its length. So what was found in an earlier text is kept, and only what stands between the common head and
the common tail is scanned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.encodings import (
    View,
    as_bytes,
    extract_runs,
    list_respelled,
    secret_guises,
    squeeze,
    strip_cuts,
)
from pytest_agentreplay.redaction.placeholders import CATEGORY_NAME
from pytest_agentreplay.redaction.secret_names import SHORTEST, worth_knowing
from pytest_agentreplay.snapshots.codec.dedup_reader import count_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from pytest_agentreplay.redaction.encodings import ViewText
    from pytest_agentreplay.redaction.spans import Span

LONG_LINE = 16
_LONGEST_RUN = 64
"""Runs of this length are read whatever is known; shorter ones, where a guise may be as short."""
_STARS = re.compile(rb"\*{3,}")
_MASK_SHOWS = 4
_MASK_SIDE = 64


@dataclass(frozen=True, slots=True, eq=False)
class Secret:
    """One value to be kept out. Its repr tells nothing of it."""

    category: str
    value: str
    raw: bytes
    stripped: bytes
    """In lower case, without what `strip_cuts` leaves out of a text."""

    def __repr__(self) -> str:
        return f"Secret({self.category})"


class Known:
    """The secrets learned so far. `generation` grows with each; safe from any thread.

    `reach` is the length of the longest guise in bytes, `numeric` says whether a secret is a number.
    """

    def __init__(self) -> None:
        """Begin knowing nothing."""
        self.generation = 0
        self.may_reach = 0
        self.numeric = False
        self._lock = Lock()
        self._shortest_run = _LONGEST_RUN
        self._secrets: dict[str, Secret] = {}
        self._guises: dict[tuple[str, bytes], list[tuple[bytes, tuple[bytes, ...], Secret]]] = {}

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What is known."""
        return tuple(self._secrets.values())

    def learn(self, category: str, value: str, also: Iterable[str] = ()) -> bool:
        """Know `value` from now on; return whether it is long and rare enough. The lines of a long value count too.

        `also` are other spellings of it, which are known as the same.
        """
        if not CATEGORY_NAME.match(category):
            raise ValueError("a category is named with lower-case letters, digits and -")
        value = value.strip()
        if not worth_knowing(value):
            return False
        if value in self._secrets:
            return True
        secret = Secret(category, value, as_bytes(value), strip_cuts(as_bytes(value)))
        parts = {value: None, value.replace("\r\n", "\n"): None, value.replace("\n", "\r\n"): None}
        parts.update((other, None) for other in also if worth_knowing(other))
        lines = value.splitlines()
        if len(lines) > 1:
            parts.update((line, None) for line in lines if len(line) >= LONG_LINE and not line.startswith("-----"))
        with self._lock:
            if value not in self._secrets:
                guises = {key: list(group) for key, group in self._guises.items()}
                for guise in (guise for part in parts for guise in secret_guises(part)):
                    guises.setdefault((guise.where, guise.sign), []).append((guise.backend, guise.needles, secret))
                    self.may_reach = max(self.may_reach, *map(len, guise.needles))
                    if guise.where == "run":
                        self._shortest_run = min(self._shortest_run, *map(len, guise.needles))
                self.numeric = self.numeric or value.isdigit()
                self._guises = guises
                self._secrets = {**self._secrets, value: secret}
                self.generation += 1
        return True

    def find(self, view: ViewText) -> Iterator[tuple[int, int, Secret]]:
        """Yield where secrets stand in a view, in no order: in every guise at its top, as they are in decoded text."""
        if not self._secrets:
            return
        if view.above is None:
            yield from self._find_guises(view.text)
            if b"***" in view.text:
                yield from self._find_masked(view.text)
        else:
            yield from self._find_plain(view.text)
        yield from self._find_cut(view)
        for other in list_respelled(view):
            yield from ((*other.map_up(start, end), secret) for start, end, secret in self._find_plain(other.text))

    def category(self, value: str, otherwise: str) -> str:
        """Return the category under which `value` is known, or the one given."""
        secret = self._secrets.get(value)
        return otherwise if secret is None else secret.category

    def _find_guises(self, data: bytes) -> Iterator[tuple[int, int, Secret]]:
        texts = {"folded": data.lower(), "exact": data, "run": extract_runs(data, self._shortest_run)}
        for (where, sign), group in self._guises.items():
            text = texts[where]
            if not text or sign not in text:  # most texts hold no run that is long enough
                continue
            searched = data if where == "run" else text
            for _, needles, secret in [entry for entry in group if entry[0] in text]:
                for needle in needles:
                    yield from ((start, end, secret) for start, end in find_everywhere(needle, searched))

    def _find_plain(self, data: bytes) -> Iterator[tuple[int, int, Secret]]:
        folded = data.lower()
        for secret in self._secrets.values():
            yield from ((start, end, secret) for start, end in find_everywhere(secret.raw.lower(), folded))

    def _find_cut(self, view: ViewText) -> Iterator[tuple[int, int, Secret]]:
        """Yield values that line ends, backslashes or quotes cut in pieces."""
        tight, shortest = strip_cuts(view.text), SHORTEST - 2
        secrets = [
            secret for secret in self._secrets.values() if len(secret.stripped) >= shortest and secret.stripped in tight
        ]
        if not secrets or (joined := squeeze(view)) is None:
            return
        text = joined.text.lower()
        for secret in secrets:
            needle = squeeze(View(secret.raw))
            raw = (secret.raw if needle is None else needle.text).lower()
            if len(raw) >= SHORTEST:
                yield from ((*joined.map_up(*span), secret) for span in find_everywhere(raw, text))

    def _find_masked(self, data: bytes) -> Iterator[tuple[int, int, Secret]]:
        """Yield values with their middle starred out: head and tail still tell which key it is."""
        for stars in _STARS.finditer(data):
            head = data[max(0, stars.start() - _MASK_SIDE) : stars.start()]
            tail = data[stars.end() : stars.end() + _MASK_SIDE]
            for secret in self._secrets.values():
                head_size, tail_size = count_common_tail(head, secret.raw), count_common_head(tail, secret.raw)
                if head_size >= _MASK_SHOWS and tail_size >= _MASK_SHOWS and head_size + tail_size < len(secret.raw):
                    yield stars.start() - head_size, stars.end() + tail_size, secret


def find_everywhere(needle: bytes, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where `needle` stands in `data`."""
    at = data.find(needle)
    while at >= 0:
        yield at, at + len(needle)
        at = data.find(needle, at + len(needle))


def count_common_tail(head: bytes, value: bytes) -> int:
    """Return how many bytes at the end of `head` are those that `value` begins with."""
    return next((size for size in range(min(len(head), len(value)), 0, -1) if head.endswith(value[:size])), 0)


def count_common_head(tail: bytes, value: bytes) -> int:
    """Return how many bytes at the beginning of `tail` are those that `value` ends with."""
    return next((size for size in range(min(len(tail), len(value)), 0, -1) if tail.startswith(value[-size:])), 0)


def is_bare_number(data: bytes, start: int, end: int) -> bool:
    """Return whether the digits stand as a JSON number, so that what replaces them needs quotes of its own."""
    before, after = data[:start].rstrip()[-1:], data[end:].lstrip()[:1]
    return before in {b":", b"[", b","} and after in {b",", b"]", b"}"} and data.lstrip()[:1] in {b"{", b"["}


SMALL = 4096
MOST_TEXTS = 4


@dataclass(frozen=True, slots=True)
class SearchedText:
    """A text, what was found in it, and under which state."""

    text: bytes = field(repr=False)
    spans: list[Span]
    state: Hashable


class SpanMemory:
    """Return what `find` returns, for texts that grow; remembers the last few large ones. Safe from any thread."""

    def __init__(self, find: Callable[[bytes], list[Span]]) -> None:
        """`find` must tell a span from the `reach` bytes around it alone."""
        self._find = find
        self._last: tuple[SearchedText, ...] = ()

    def __call__(self, data: bytes, reach: int, state: Hashable) -> list[Span]:
        """The spans in `data`. Findings are used again only under an equal `state`."""
        if len(data) < SMALL:
            return self._find(data)
        best = (0, 0)
        nearest = SearchedText(b"", [], state)
        for searched in self._last:
            if searched.state == state and (same := count_shared(searched.text, data)) > best:
                best, nearest = same, searched
        spans = self._search_between(data, nearest, best, reach) if sum(best) > reach * 4 else self._find(data)
        self._last = (SearchedText(data, spans, state), *self._last[: MOST_TEXTS - 1])
        return spans

    def _search_between(self, data: bytes, searched: SearchedText, same: tuple[int, int], reach: int) -> list[Span]:
        head, tail = same
        spans = searched.spans
        left = max(0, head - reach)
        right = len(data) - max(0, tail - reach)
        grown = len(data) - len(searched.text)
        # A border never runs through what was found before.
        left = min((start for start, end, _ in spans if start < left < end), default=left)
        right = max((end + grown for start, end, _ in spans if start + grown < right < end + grown), default=right)
        begin, finish = max(0, left - reach), min(len(data), right + reach)
        window = self._find(data[begin:finish])
        return [
            *(span for span in spans if span[1] <= left),
            *((start + begin, end + begin, text) for start, end, text in window if left <= start + begin < right),
            *((start + grown, end + grown, text) for start, end, text in spans if start + grown >= right),
        ]
