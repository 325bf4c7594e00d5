"""Detecting: a text is decoded once into its views, every finder searches these, and what overlaps is one finding.

A `Finder` knows one kind of secret and no encoding: it searches plain bytes. `Detector` gives it the text itself and
each text that this says once an encoding is undone (`views`), and carries what it finds back to the bytes that spell
it: a `Finding`. There are four kinds of finders:

    known values      `known`: what this run has been told or has found before
    shapes      `vendors` and `shapes`: what looks like a key wherever it stands
    names      `named`: what stands beside a name that says it is a secret
    the project's own      personal values and patterns, when a policy asks for them

What two of them find in one place is one value, the wider of the two, and it is what the first of them in this order
says. None may touch what stands for a value that was redacted before.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_agentreplay.redaction.encodings import as_text
from pytest_agentreplay.redaction.named import WORDS, find_cookies, find_named, find_paths
from pytest_agentreplay.redaction.shapes import find_behind_schemes, find_in_paths, find_private_keys, find_userinfo
from pytest_agentreplay.redaction.vendors import find_vendors
from pytest_agentreplay.redaction.views import PAINT, View, ViewTooDeep, list_views

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

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


class Detector:
    """The finders of one run."""

    def __init__(self, policy: Policy, known_values: Known, placeholders: Placeholders) -> None:
        """`known_values` may learn more while this is used."""
        self._policy = policy
        self._known_values = known_values
        self._placeholders = placeholders
        by_name = partial(find_named, words=(*WORDS, *map(str.encode, policy.names)), names=policy.names)
        shapes: list[Finder] = [find_vendors, find_private_keys, find_userinfo, find_in_paths, find_behind_schemes]
        self._secret_finders: list[Finder] = [*shapes, find_cookies, by_name]
        self._policy_finders: list[Finder] = [shape.find for shape in policy.shapes]
        self._own_finders = [*self._policy_finders]
        if policy.pii or policy.strict:
            from pytest_agentreplay.redaction.pii import find_addresses, find_pii

            self._own_finders += [find_pii] if policy.pii else []
            self._own_finders += [find_addresses] if policy.strict else []

    def find_known(self, data: bytes) -> list[Finding]:
        """Return where known values stand, in order."""
        return self._search(data, [], [])

    def find_all(self, data: bytes) -> list[Finding]:
        """Return where known values stand, and what the rules find, in order."""
        at_paths: list[Finding] = []
        if self._policy.paths:
            at_paths = self._carry_back(View(data), find_by_rule(data, [partial(find_paths, paths=self._policy.paths)]))
        return self._search(data, self._secret_finders, self._own_finders, at_paths)

    def find_certain(self, data: bytes) -> list[Finding]:
        """Return where known values stand, and shapes that are nothing but secrets, in order."""
        return self._search(data, [find_certain_shapes], [])

    def find_leaks(self, data: bytes) -> list[Finding]:
        """Return what may not be written: known values in every guise, and shapes that are nothing but secrets."""
        return self._search(data, [find_certain_shapes], self._policy_finders)

    def _search(
        self, data: bytes, secret_finders: list[Finder], own_finders: list[Finder], at_paths: Iterable[Finding] = ()
    ) -> list[Finding]:
        """Return what is found in all views, in order; of two that overlap, what is known says what they are."""
        groups: list[list[Finding]] = []
        secrets: list[Finding] = []
        others: list[Finding] = []
        try:
            for view in list_views(data, deep=bool(own_finders) or self._known_values.is_escaped):
                if view.rules == "opaque":
                    start, end = view.map_back(0, 0)
                    groups.append([Finding(start, end, "opaque", as_text(data[start:end]), by_rule=False)])
                    continue
                values = self._known_values.find(view)
                hits = [Finding(start, end, x.category, x.value, by_rule=False) for start, end, x in values]
                groups.append(self._carry_back(view, hits))
                # What the text itself shows is whole: behind it a colour code ends a key, and no word is part of it.
                is_painted = view.escape is PAINT
                if view.rules != "own":
                    finders = [find_certain_shapes] if view.rules == "certain" and secret_finders else secret_finders
                    if hits := find_by_rule(view.text, finders, self._policy.without):
                        secrets += list_apart(self._carry_back(view, hits), secrets if is_painted else [])
                if own_finders and view.rules != "certain":
                    own = find_by_rule(view.text, own_finders)
                    others += list_apart(self._carry_back(view, own), others if is_painted else [])
        except ViewTooDeep as deep:
            text = as_text(data[deep.start : deep.end])
            groups.append([Finding(deep.start, deep.end, "opaque", text, by_rule=True)])
        secrets += at_paths
        if others:
            others = list_apart(others, unite_findings([secrets]))
        return unite_findings([*groups, secrets, others])

    def _carry_back(self, view: View, hits: list[Finding]) -> list[Finding]:
        """Return what was found in a view as findings in the bytes; none that touches a placeholder."""
        findings: list[Finding] = []
        placeholders = self._placeholders.inside(view.text) if hits else []
        for hit in hits:
            if hit.start < hit.end and not any(hit.start < stop and begin < hit.end for begin, stop in placeholders):
                start, end = view.map_back(hit.start, hit.end)
                findings.append(hit._replace(start=start, end=end))
        return findings


def find_certain_shapes(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield keys of vendors and private keys: whatever stands around them, nothing else looks like that."""
    yield from find_vendors(text)
    yield from find_private_keys(text)


def find_by_rule(text: bytes, finders: Iterable[Finder], without: Container[str] = ()) -> list[Finding]:
    """Return what rules find in a text, with its value, but of the categories in `without`."""
    findings = []
    for find in finders:
        for start, end, category in find(text):
            if category not in without:
                findings.append(Finding(start, end, category, as_text(text[start:end]), by_rule=True))
    return findings


def list_apart(hits: list[Finding], others: list[Finding]) -> list[Finding]:
    """Return the hits that overlap none of the others."""
    return [hit for hit in hits if not any(hit.start < other.end and other.start < hit.end for other in others)]


def unite_findings(groups: Iterable[Iterable[Finding]]) -> list[Finding]:
    """Return all findings in order.

    Those that overlap are one, as wide as all of them, and what the earliest group says.
    """
    ranked = [(hit, rank) for rank, group in enumerate(groups) for hit in group]
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
