"""What is replaced: in a text secrets and, where they are marked, places; in a tree what its names tell.

What a rule finds once is known from then on, in whatever guise it comes next. Text that stands in pieces is joined
first: what runs over a border is taken first, and of what else is found only what lies beside that. A text that only
grew since the last one is searched where it grew.

The rules of trees see values, not text: a short password or a number is replaced where its name, a path of the policy
or the agent itself says so.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.redaction.detecting import REACH, find_by_rule, find_certain_shapes, unite_findings
from pytest_agentreplay.redaction.encodings import as_bytes, as_text
from pytest_agentreplay.redaction.headers import ENCODED
from pytest_agentreplay.redaction.known import SpanMemory
from pytest_agentreplay.redaction.named import find_arranged
from pytest_agentreplay.redaction.rewriting import map_tree
from pytest_agentreplay.redaction.secret_names import get_strength
from pytest_agentreplay.redaction.spans import merge_disjoint, splice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.model.exchanges import Json
    from pytest_agentreplay.redaction.channels import Pieces, Records
    from pytest_agentreplay.redaction.detecting import Detector, Finding
    from pytest_agentreplay.redaction.joined import FindSpans, JoinedSpans
    from pytest_agentreplay.redaction.places import Places
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.run_values import RunValues
    from pytest_agentreplay.redaction.spans import Span


class TextSearch:
    """Finds what is replaced in the texts of one run."""

    def __init__(self, detector: Detector, run: RunValues, places: Places, *, marks_places: bool) -> None:
        """`marks_places`: today's places are found too. Once per text, since marks are protected anew each time."""
        self._detector = detector
        self._run = run
        self._places = places
        self._marks_places = marks_places
        self._began: int | None = None
        self.forget()

    def forget(self) -> None:
        """Search texts that grow from their beginning again: other places are marked from now on."""
        self._memory = SpanMemory(self.find_whole)

    @property
    def has_learnt(self) -> bool:
        """Whether a value has become known since the first text was searched."""
        return self._began is None or self._began != self._run.secrets.generation

    def find(self, data: bytes, pieces: Pieces) -> list[Span]:
        """Return what is replaced in a text that stands in such `pieces`."""
        if self._began is None:
            self._began = self._run.secrets.generation
        records, tree = None, None
        if pieces != "none":
            # A replay that knows each request byte for byte starts without this.
            from pytest_agentreplay.redaction.channels import shape_of

            records, tree = shape_of(data) if isinstance(pieces, str) else (pieces, None)
            if records is not None and (tree is None or pieces == "any"):
                across, inside = self._join(data, records, self.find_whole)
                return merge_disjoint(across, self.find_whole(data, across), inside)
        # Whether a number needs quotes shows at the beginning of the text, which a window of it does not hold.
        if self._run.secrets.numeric:
            spans = self.find_whole(data)
        else:
            # What a guise may be drawn out by, colour codes, counts twice; escapes and marks are short.
            reach = 2 * max(self._run.secrets.may_reach, self._places.may_reach, REACH) + 64
            spans = self._memory(data, reach, self._run.secrets.generation)
        if tree is None or not (scattered := self._find_scattered(data, tree)):
            return spans
        return merge_disjoint(scattered, self.find_whole(data, scattered))

    def find_whole(self, data: bytes, taken: Iterable[Span] = ()) -> list[Span]:
        """Return what stands in one piece and is no part of what is `taken`. What a rule finds is known from now on."""
        findings = self._detector.find_all(data)
        if taken:
            findings = [part for finding in findings for part in cut_taken(data, finding, taken)]
        # A value that has just become known may stand in the same text in other guises.
        if findings and self._run.learn_findings(findings):
            findings = unite_findings([self._detector.find_known(data), findings])
        spans = self._replace(data, findings) if findings else []
        # An agent may send a placeholder back in a URL: it is written as it was, so that it matches.
        if b"%5" in data and b"redacted" in data:
            encoded = [(hit.start(), hit.end(), b"[[redacted:%b:%b]]" % hit.groups()) for hit in ENCODED.finditer(data)]
            spans = merge_disjoint(spans, encoded)
        if self._marks_places and (marks := self._places.marks_in(data)):
            return merge_disjoint(spans, marks)
        return spans

    def find_joined(self, data: bytes, records: Records | None) -> list[Span]:
        """Return what only the joined text of several strings shows: of records, or of one JSON value (None)."""
        if records is not None:
            return merge_disjoint(*self._join(data, records, self.find_whole))
        findings = find_by_rule(data, [find_arranged])
        self._run.learn_findings(findings)
        return merge_disjoint(
            self._find_scattered(data, json.loads(data)), self._replace(data, unite_findings([findings]))
        )

    def leaks(self, data: bytes) -> tuple[str, ...]:
        """Return the categories of what serialised text still holds; empty when it may be written. Never the values."""
        return tuple(sorted({finding.category for finding in self._detector.find_leaks(data)}))

    def findings(self, data: bytes) -> list[tuple[int, int, str]]:
        """Return (start, end, category) of the secrets in a text, and of personal values if the policy names them."""
        return [(finding.start, finding.end, finding.category) for finding in self._detector.find_all(data)]

    def find_leaks(self, data: bytes) -> list[Span]:
        """Return what replaces known values and keys of vendors: what may not even be shown."""
        return self._replace(data, self._detector.find_leaks(data))

    def _find_scattered(self, data: bytes, tree: Json) -> list[Span]:
        """Return known values that stand in several strings of one value at the same path, as an agent keeps a stream.

        Nothing else that its strings show together: they are whole. A list of bytes is a text that no other rule reads.
        """
        from pytest_agentreplay.redaction.channels import list_scattered_texts

        joined = []
        for texts in list_scattered_texts(tree):
            if not texts[0]:
                self._run.learn_findings(find_by_rule(as_bytes("\n".join(texts)), [find_certain_shapes]))
            joined.append("".join(texts))
        together = as_bytes("\n".join(joined))
        if not self._run.secrets.stands_in(together):
            return []
        return self._join(data, [(0, len(data))], None).across

    def _join(self, data: bytes, records: Records, find_in_one_text: FindSpans | None) -> JoinedSpans:
        """Return what the pieces of the channels in `records` show together."""
        # Most runs have no stream: a replay of one starts without this.
        from pytest_agentreplay.redaction.joined import JoinedFinders, find_joined

        exact, sure = (
            lambda text, look=look: self._replace(text, look(text))
            for look in (self._detector.find_known, self._detector.find_certain)
        )
        return find_joined(data, records, JoinedFinders(find_in_one_text, exact, sure, self._places.part))

    def _replace(self, data: bytes, findings: Iterable[Finding]) -> list[Span]:
        return [self._run.replace_finding(data, finding) for finding in findings]


def cut_taken(data: bytes, finding: Finding, taken: Iterable[Span]) -> list[Finding]:
    """Return a finding, or what is left of it beside the spans that are taken: nothing that runs over a quote."""
    parts = [(finding.start, finding.end)]
    for start, end, _ in taken:
        if start < finding.end and finding.start < end:
            beside = [((first, min(last, start)), (max(first, end), last)) for first, last in parts]
            parts = [(low, high) for pair in beside for low, high in pair if low < high]
    if parts == [(finding.start, finding.end)]:
        return [finding]
    # The rest of a finding that ran over a quote is another string, or none of it.
    return [
        finding._replace(start=low, end=high, by_rule=False)
        for low, high in parts
        if b'"' not in data[low:high] and b"\n" not in data[low:high]
    ]


class TreeRules:
    """Replaces values of JSON trees by where they stand."""

    def __init__(self, policy: Policy, run: RunValues, text: TextSearch) -> None:
        """`text` finds what the name of a member gives away, as it would in JSON text."""
        self._policy = policy
        self._run = run
        self._text = text

    def apply(self, tree: Any) -> Any:
        """Return a tree without the values that the paths of the policy name, or their own names; the same if none."""
        for category, path in self._policy.paths:
            tree = path.replace(tree, functools.partial(self._replace_scalars, category))
        return map_tree(tree, self._replace_member)

    def _replace_scalars(self, category: str, tree: Any) -> Any:
        """Return what a path names without every value in it."""

        def replace(_: str | None, value: Any) -> Any:
            if isinstance(value, dict | list | bool) or value in (None, ""):
                return value
            return self._run.replace(category, str(value), learn=category not in self._run.personal)

        return map_tree(tree, replace)

    def _replace_member(self, name: str | None, value: Any) -> Any:
        """Return the value of a member as it would be in JSON text behind its name."""
        if name is None or not isinstance(value, str | int) or isinstance(value, bool) or not value:
            return value
        if (
            get_strength(name) in {"", "parameter"}
            and name.lower() not in self._policy.names
            and not self._is_personal(name)
        ):
            return value
        data = as_bytes(json.dumps({name: value}, ensure_ascii=False))
        # What stands in the name itself is found when keys are rewritten.
        first = len(as_bytes(json.dumps(name, ensure_ascii=False))) + 1
        spans = [span for span in self._text.find_whole(data) if span[0] > first]
        if not spans:
            return value
        self._run.count(spans)
        [changed] = json.loads(as_text(splice(data, spans))).values()
        return changed

    def _is_personal(self, name: str) -> bool:
        if not self._policy.pii:
            return False
        # The finders of numbers load python-stdnum.
        from pytest_agentreplay.redaction.pii import names_a_person

        return names_a_person(name)

    def replace_declared(self, tree: Any) -> Any:
        """Return a frozen value without what the agent itself calls secret (a SecretStr), however short."""

        def replace(_: str | None, value: Any) -> Any:
            if isinstance(value, dict) and (secret := value.get("$secret")) is not None:
                changed = self._replace_secret(secret)
                return value if changed is secret else {"$secret": changed}
            return value

        return map_tree(tree, replace)

    def _replace_secret(self, secret: Any) -> Any:
        match secret:
            case str(text):
                return self._run.replace("secret", text)
            case {"$bytes": str(text) | [str(text)]}:  # as text, or as base64
                return {"$bytes": self._run.replace("secret", text)}
            case [str(kind), value]:  # of a class that no annotation names
                return [kind, self._replace_secret(value)]
            case _:
                return secret
