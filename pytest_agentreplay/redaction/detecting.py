"""Detecting: every rule tried on every reading of a text, and what overlaps brought together.

Known values come first, then shapes; what two rules find in one place is one value, the wider of the two. Personal
values are looked for when a policy says so, and give way to secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_agentreplay.redaction.credentials import (
    find_credentials,
    find_nearby,
    find_paths,
    find_private_keys,
    find_spoken,
)
from pytest_agentreplay.redaction.encodings import (
    PAINT,
    View,
    ViewTooDeep,
    as_text,
    list_percent_views,
    list_views_below,
    list_views_beside,
    spells_letters,
)
from pytest_agentreplay.redaction.named import find_arranged, find_named
from pytest_agentreplay.redaction.packed import PackedText, Unreadable, list_packed
from pytest_agentreplay.redaction.vendors import find_vendors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_agentreplay.redaction.known import Known
    from pytest_agentreplay.redaction.placeholders import Placeholders
    from pytest_agentreplay.redaction.policy import Policy

    Finder: TypeAlias = Callable[[bytes], Iterable[tuple[int, int, str]]]
    """What searches a text: it yields where a value begins and ends in it, in bytes, and of which category it is."""

REACH = 320
"""How far around a change a finding may depend on, in bytes: what is longer is found by its beginning already."""


class Finding(NamedTuple):
    """A value that has to go: where it stands in the bytes, of which category it is, and what it says.

    `by_rule`: a rule has found it, and it was not known before. `also` is how else it is spelled there: with its
    percent signs, or its backslashes.
    """

    start: int
    end: int
    category: str
    value: str
    by_rule: bool
    also: tuple[str, ...] = ()


class TextReading(NamedTuple):
    """One reading of a text. `back` returns the bytes that spell a part of it; `shaped`: keys are looked for."""

    view: View | PackedText | Unreadable
    back: Callable[[int, int], tuple[int, int]]
    shaped: bool


class Detector:
    """The rules of one run."""

    def __init__(self, policy: Policy, known_values: Known, placeholders: Placeholders) -> None:
        """`known_values` may learn more while this is used."""
        self._policy = policy
        self._known_values = known_values
        self._placeholders = placeholders
        self._projects = bool(policy.pii or policy.strict or policy.shapes)

    def find_known(self, data: bytes) -> list[Finding]:
        """Return where known values stand, in order."""
        return unite_findings(self._search(data, None, None))

    def find_all(self, data: bytes) -> list[Finding]:
        """Return where known values stand, and what the rules find, in order."""
        return unite_findings(self._search(data, self._find_shapes, self._find_own if self._projects else None))

    def find_certain(self, data: bytes) -> list[Finding]:
        """Return where known values stand, and shapes that are nothing but secrets, in order."""
        return unite_findings(self._search(data, find_certain_shapes, None))

    def find_leaks(self, data: bytes) -> list[Finding]:
        """Return what may not be written: known values in every guise, and shapes that are nothing but secrets."""
        return unite_findings(
            self._search(data, find_certain_shapes, self._find_policy_shapes if self._policy.shapes else None)
        )

    def _search(self, data: bytes, shapes: Finder | None, find_own: Finder | None) -> Iterator[Iterable[Finding]]:
        """Yield what is found, in groups; of two that overlap the one given first says what it is."""
        findings: list[Finding] = []
        others: list[Finding] = []
        try:
            for reading in list_readings(data, deep=find_own is not None):
                text = reading.view.text
                if isinstance(reading.view, Unreadable):
                    start, end = reading.back(0, 0)
                    yield [Finding(start, end, "opaque", as_text(data[start:end]), by_rule=False)]
                    continue
                placeholders = self._placeholders.inside(text) if self._placeholders.may_be_in(text) else []
                known_hits = [
                    Finding(a, z, x.category, x.value, by_rule=False)
                    for a, z, x in self._known_values.find(reading.view)
                ]
                if known_hits:
                    yield map_hits_back(reading, known_hits, placeholders)
                packed = isinstance(reading.view, PackedText)
                # What the text itself shows is whole: behind it a colour code ends a key, and no word is part of it.
                painted = getattr(reading.view, "escape", None) is PAINT
                if shapes is not None and reading.shaped:
                    hits = self._by_rule(text, find_certain_shapes if packed else shapes)
                    findings += list_apart(map_hits_back(reading, hits, placeholders), findings if painted else [])
                if find_own is not None and not packed:
                    others += list_apart(
                        map_hits_back(reading, find_by_rule(text, find_own), placeholders), others if painted else []
                    )
        except ViewTooDeep as deep:
            yield [Finding(deep.start, deep.end, "opaque", as_text(data[deep.start : deep.end]), by_rule=True)]
        if self._policy.paths and shapes == self._find_shapes:
            placeholders = self._placeholders.inside(data)
            findings += map_hits_back(
                TextReading(View(data), keep_span, True), find_by_rule(data, self._find_paths), placeholders
            )
        yield findings
        yield list_apart(others, unite_findings([findings]))

    def _by_rule(self, text: bytes, shapes: Finder) -> Iterator[Finding]:
        findings = find_by_rule(text, shapes)
        return (
            (hit for hit in findings if hit.category not in self._policy.without) if self._policy.without else findings
        )

    def _find_shapes(self, text: bytes) -> Iterator[tuple[int, int, str]]:
        yield from find_vendors(text)
        yield from find_credentials(text)
        yield from find_named(text, self._policy.names)
        yield from find_arranged(text)
        yield from find_spoken(text)
        yield from find_nearby(text)

    def _find_own(self, text: bytes) -> Iterator[tuple[int, int, str]]:
        """Yield what a policy asks for."""
        yield from self._find_policy_shapes(text)
        if self._policy.pii or self._policy.strict:
            from pytest_agentreplay.redaction.pii import find_addresses, find_pii

            if self._policy.pii:
                yield from find_pii(text)
            if self._policy.strict:
                yield from find_addresses(text)

    def _find_policy_shapes(self, text: bytes) -> Iterator[tuple[int, int, str]]:
        for shape in self._policy.shapes:
            yield from shape.find(text)

    def _find_paths(self, data: bytes) -> Iterator[tuple[int, int, str]]:
        return find_paths(data, self._policy.paths)


def find_certain_shapes(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield keys of vendors and private keys: whatever stands around them, nothing else looks like that."""
    yield from find_vendors(text)
    yield from find_private_keys(text)


def find_by_rule(text: bytes, find: Finder) -> Iterator[Finding]:
    """Yield what a rule finds, with its value."""
    for start, end, category in find(text):
        yield Finding(start, end, category, as_text(text[start:end]), by_rule=True)


def keep_span(start: int, end: int) -> tuple[int, int]:
    """Return the bytes of the text itself."""
    return start, end


def list_readings(data: bytes, *, deep: bool) -> Iterator[TextReading]:
    """Yield every way to read a text.

    Layers of backslashes are undone when letters are escaped, or it is to be `deep`.
    """
    top = View(data)
    yield from list_readings_of(top, shaped=True)
    yield from (TextReading(packed, packed.map_back, True) for packed in list_packed(top))
    letters = spells_letters(data)
    if letters or (deep and b"\\" in data):
        for view in list_views_below(data):
            yield from list_readings_of(view, shaped=letters)


def list_readings_of(view: View, *, shaped: bool) -> Iterator[TextReading]:
    """Yield a view, and what is undone beside it."""
    yield TextReading(view, view.map_back, shaped)
    for other in list_views_beside(view):
        yield TextReading(other, other.map_back, True)
    for begin, word in list_percent_views(view.text):
        yield TextReading(word, Shifted(begin, word, view).map_back, True)


@dataclass(frozen=True, slots=True)
class Shifted:
    """A word that begins at `begin` of `of`."""

    begin: int
    word: View
    of: View

    def map_back(self, start: int, end: int) -> tuple[int, int]:
        """Return the bytes that spell a part of the word."""
        start, end = self.word.map_back(start, end)
        return self.of.map_back(self.begin + start, self.begin + end)


def map_hits_back(reading: TextReading, hits: Iterable[Finding], placeholders: list[tuple[int, int]]) -> list[Finding]:
    """Return the hits of a reading as findings in the bytes; none that touches a placeholder."""
    kept = []
    for hit in hits:
        if hit.start < hit.end and not any(hit.start < stop and begin < hit.end for begin, stop in placeholders):
            start, end = reading.back(hit.start, hit.end)
            kept.append(hit._replace(start=start, end=end))
    return kept


def list_apart(hits: list[Finding], others: list[Finding]) -> list[Finding]:
    """Return the hits that overlap none of the others."""
    return [hit for hit in hits if not any(hit.start < other.end and other.start < hit.end for other in others)]


def unite_findings(groups: Iterable[Iterable[Finding]]) -> list[Finding]:
    """Return all findings in order.

    Those that overlap are one, as wide as all of them, and what the earliest group says.
    """
    ranked = [(hit, rank) for rank, group in enumerate(groups) for hit in group]
    if len(ranked) < 2:
        return [hit for hit, _ in ranked]
    ranked.sort(key=lambda pair: (pair[0].start, -pair[0].end, pair[1]))
    findings: list[tuple[Finding, int]] = []
    for hit, rank in ranked:
        if findings and hit.start < findings[-1][0].end:
            last, first = findings[-1]
            best, other, lead = (hit, last, rank) if rank < first else (last, hit, first)
            also = best.also
            if (hit.start, hit.end) == (last.start, last.end) and other.value not in {best.value, *also}:
                also += (other.value,)
            findings[-1] = best._replace(start=last.start, end=max(last.end, hit.end), also=also), lead
        else:
            findings.append((hit, rank))
    return [hit for hit, _ in findings]
