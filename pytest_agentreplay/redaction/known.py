"""Known values: the secrets of this run, found in every guise.

An agent sends its whole history again with each turn. Scanned from its beginning each time, a conversation costs the
square of its length. So what was found in an earlier text is kept, and only what stands between the common head and
the common tail is scanned.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from threading import Lock
from typing import TYPE_CHECKING

from pytest_agentreplay.redaction.encodings import (
    EncodedForm,
    as_bytes,
    find_everywhere,
    list_runs,
    mark_bytes,
    secret_guises,
)
from pytest_agentreplay.redaction.placeholders import CATEGORY_NAME
from pytest_agentreplay.redaction.secret_names import SHORTEST, worth_knowing
from pytest_agentreplay.redaction.views import View, squeeze, strip_cuts
from pytest_agentreplay.snapshots.codec.dedup_reader import count_shared

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from pytest_agentreplay.redaction.spans import Span

LONG_LINE = 16
"""Lines of a secret of this length are secrets by themselves; a shorter one is as likely a word."""
_LONGEST_RUN = 64
"""Runs of this length are read whatever is known; shorter ones, where a guise may be as short."""
_LONGEST_SPELLING = 8
"""So many bytes may spell one of a secret: `\\\\u0041` has seven."""
_FEW = 64
"""So many guises are looked for one by one. To look all words of a text up costs as much as 80 of these searches."""
_WORD = 4
_ESCAPED = re.compile(r"[\"'\\\x00-\x1f]")
_BASE64 = mark_bytes(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_=%\\-")
"""Bytes of base64, escaped or not, and of digits: what has a space or another sign is none."""
_DIGITS = mark_bytes(b"0123456789abcdefABCDEF :")
"""What programs list bytes with."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Secret:
    """One value to be kept out. Its repr tells nothing of it."""

    category: str
    value: str
    raw: bytes
    stripped: bytes
    """In lower case, without what `strip_cuts` leaves out of a text."""
    squeezed: bytes
    """In lower case, without what `squeeze` leaves out of a text."""


class GuiseIndex:
    """Guises of one kind, each with its secret. To look for many of them costs no more than to look for some."""

    def __init__(self) -> None:
        """Begin with none."""
        self._guises: list[tuple[EncodedForm, Secret]] = []
        self._by_end: dict[int, list[int]] = {-1: []}
        """Which guises have a gate that ends in a word, as a number; -1: in none. Beginnings are often equal."""

    def add(self, form: EncodedForm, secret: Secret) -> None:
        """Add a guise. One thread at a time; others may search meanwhile."""
        self._guises.append((form, secret))
        end = memoryview(form.gate[-_WORD:]).cast("I")[0] if len(form.gate) >= _WORD else -1
        self._by_end.setdefault(end, []).append(len(self._guises) - 1)

    def list_in(self, text: bytes) -> list[tuple[EncodedForm, Secret]]:
        """Return the guises whose gates stand in a text, in the order in which they were added."""
        guises = self._guises
        if len(guises) > _FEW:
            ends = {-1}
            # All words that begin at the first byte, at the second and so on, read by C as the numbers that they are.
            for first in range(min(_WORD, len(text))):
                words = memoryview(text)[first : len(text) - (len(text) - first) % _WORD].cast("I")
                ends |= self._by_end.keys() & words
            guises = [guises[number] for number in sorted(chain.from_iterable(map(self._by_end.__getitem__, ends)))]
        return [guise for guise in guises if guise[0].gate in text]


class Known:
    """The secrets learned so far. `generation` grows with each; safe from any thread.

    `may_reach` is how many bytes may spell the longest, `numeric` says whether a secret is a number, and `is_escaped`
    whether JSON or Python write one with a backslash.
    """

    def __init__(self) -> None:
        """Begin knowing nothing."""
        self.generation = 0
        self.may_reach = 0
        self.numeric = False
        self.is_escaped = False
        self._lock = Lock()
        self._shortest = _LONGEST_RUN
        self._secrets: dict[str, Secret] = {}
        self._plain = GuiseIndex()
        self._encoded = {"wide": GuiseIndex(), "listed": GuiseIndex(), "base64": GuiseIndex()}
        self._unencoded: list[tuple[str, Secret]] = []

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What is known."""
        with self._lock:
            return tuple(self._secrets.values())

    def learn(self, category: str, value: str, also: Iterable[str] = ()) -> bool:
        """Know `value` from now on; return whether it is long and rare enough. The lines of a long value count too.

        `also` are other spellings of it, which are known as the same.
        """
        if not CATEGORY_NAME.match(category):
            raise ValueError("a category is named with lower-case letters, digits and -")
        value = value.strip()
        if value in self._secrets:
            return True
        if not worth_knowing(value):
            return False
        raw = as_bytes(value)
        squeezed = squeeze(View(raw))
        secret = Secret(category, value, raw, strip_cuts(raw), (raw if squeezed is None else squeezed.text).lower())
        parts = [value, value.replace("\r\n", "\n"), value.replace("\n", "\r\n"), *filter(worth_knowing, also)]
        if len(lines := value.splitlines()) > 1:
            parts += [line for line in lines if len(line) >= LONG_LINE and not line.startswith("-----")]
        with self._lock:
            if value in self._secrets:
                return True
            for part in dict.fromkeys(parts):
                for raw in dict.fromkeys(as_bytes(case).lower() for case in (part, part.lower(), part.upper())):
                    self._plain.add(EncodedForm("plain", strip_cuts(raw), (raw,)), secret)
                    self._shortest = min(self._shortest, len(raw))
                self._unencoded.append((part, secret))
            self.may_reach = max(self.may_reach, _LONGEST_SPELLING * len(secret.raw))
            self.numeric = self.numeric or value.isdigit()
            self.is_escaped = self.is_escaped or _ESCAPED.search(value) is not None
            self._secrets[value] = secret
            self.generation += 1
        return True

    def find(self, view: View) -> Iterator[tuple[int, int, Secret]]:
        """Yield where secrets stand in a view, in no order: as they are, in every guise, and cut in pieces."""
        if not self._secrets:
            return
        data = view.text
        # A text that holds a secret, or its pieces, holds it without what may cut it: so one search clears most texts.
        plain = self._plain.list_in(strip_cuts(data))
        if plain:
            yield from find_needles(plain, data.lower())
        if b"\0" in data:
            yield from find_needles(self._list_encoded("wide", data.lower()), data.lower())
        # No guise is shorter than the secret; one that lists bytes takes two digits for each, and a space between.
        if runs := [*list_runs(data, _DIGITS, 3 * self._shortest - 1)]:
            listed = b"|".join(data[begin:end] for begin, end in runs).lower()
            yield from find_needles(self._list_encoded("listed", listed), data.lower())
        if runs := [*list_runs(data, _BASE64, self._shortest)]:
            base64 = b"|".join(data[begin:end] for begin, end in runs)
            yield from find_needles(self._list_encoded("base64", base64), data)
        if plain:
            yield from find_cut(view, [secret for form, secret in plain if form.gate == secret.stripped])

    def stands_in(self, data: bytes) -> bool:
        """Return whether a secret stands in a text as it is."""
        return any(secret.raw in data for _, secret in self._plain.list_in(strip_cuts(data)))

    def category(self, value: str, otherwise: str) -> str:
        """Return the category under which `value` is known, or the one given."""
        secret = self._secrets.get(value)
        return otherwise if secret is None else secret.category

    def _list_encoded(self, where: str, text: bytes) -> list[tuple[EncodedForm, Secret]]:
        """Return the guises of a kind that stand in a text. They are made for the first text that needs them."""
        if self._unencoded:
            with self._lock:
                unencoded, self._unencoded = self._unencoded, []
                for part, secret in unencoded:
                    for form in secret_guises(part):
                        self._encoded[form.where].add(form, secret)
        return self._encoded[where].list_in(text)


def find_needles(guises: list[tuple[EncodedForm, Secret]], text: bytes) -> Iterator[tuple[int, int, Secret]]:
    """Yield where guises stand in a text."""
    for form, secret in guises:
        for needle in form.needles:
            yield from ((at, at + len(needle), secret) for at in find_everywhere(needle, text))


def find_cut(view: View, secrets: Iterable[Secret]) -> Iterator[tuple[int, int, Secret]]:
    """Yield those of `secrets` that line ends, backslashes or quotes cut in pieces."""
    joined = squeeze(view)
    if joined is not None:
        folded = joined.text.lower()
        for secret in dict.fromkeys(secrets):
            for at in find_everywhere(secret.squeezed, folded) if len(secret.squeezed) >= SHORTEST else ():
                yield *joined.map_up(at, at + len(secret.squeezed)), secret


def is_bare_number(data: bytes, start: int, end: int) -> bool:
    """Return whether the digits stand as a JSON number, so that what replaces them needs quotes of its own."""
    before, after = data[:start].rstrip()[-1:], data[end:].lstrip()[:1]
    return before in {b":", b"[", b","} and after in {b",", b"]", b"}"} and data.lstrip()[:1] in {b"{", b"["}


# A smaller text costs less to search than to compare with those before.
SMALL = 4096
# An agent that calls several models has a conversation with each.
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
        shared = [(count_shared(last.text, data), last) for last in self._last if last.state == state]
        best, nearest = max(shared, key=itemgetter(0), default=((0, 0), SearchedText(b"", [], state)))
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
