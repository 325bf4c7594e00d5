"""What rules find in what is there: in a snapshot by exchange and field, in any other text by line and column.

A snapshot is redacted again piece by piece, and what changes is reported: so what is reported is what would be done,
and what `agentreplay redact` writes, sealed again with the reason. A value is never printed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.errors import Leak, SnapshotEdited
from pytest_agentreplay.model.exchanges import Header, HttpReply, Run, ToolCall
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.model.rules import show
from pytest_agentreplay.runs.redact.redaction_setup import redacted_by, redaction_for
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import unwrap
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import Exchange, Headers, Json, JsonObject
    from pytest_agentreplay.model.rules import Place
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.redaction import Redaction

PLACEHOLDER = re.compile(rb"\[\[redacted:([a-z][a-z0-9-]*):([0-9]{1,9})\]\]|\buser([0-9]{1,9})@redacted\.invalid")
PASSES = 3
"""What is found late may stand in an earlier exchange, so a changed run is looked through once more."""
TOLD = 3
"""Fields that are told of one part of an exchange."""


@dataclass(frozen=True, slots=True)
class RuleHit:
    """Something that a rule has found: where, of which category, how often. Never what."""

    place: str
    category: str
    count: int = 1


class Review:
    """One snapshot, redacted again under `policy`: `run` is what it would be, `hits` what is found in it.

    The same run, and nothing, where it is as it would be recorded now.
    """

    def __init__(self, run: Run, text: bytes, policy: Policy, environ: Mapping[str, str]) -> None:
        """`text` is that of the snapshot: numbers go on where its own have stopped."""
        self._policy = policy
        self._counts: Counter[tuple[str, str]] = Counter()
        headers = {
            name for x in run.exchanges for side in (x.call, x.outcome) for name, _ in getattr(side, "headers", ())
        }
        self.redaction = redaction_for(environ, headers=headers, policy=policy)
        self.redaction.recall({"redactions": {"tags": list_placeholders(run, text)}})
        for _ in range(PASSES):
            before = self._counts.total()
            run = self._run(run)
            if self._counts.total() == before:
                break
        self.hits = [RuleHit(place, category, count) for (place, category), count in self._counts.items()]
        self.run = note_redaction(run, self.redaction, policy) if self.hits else run

    def _run(self, run: Run) -> Run:
        header = self._redact_again(Run(run.header, ()), "header").header
        return Run(header, tuple(self._exchange(x, f"exchange {n}") for n, x in enumerate(run.exchanges, 1)))

    def _exchange(self, exchange: Exchange, place: str) -> Exchange:
        """Return the request first; then, behind a request in which nothing is left to find, the reply."""
        request = self._part(replace(exchange, outcome=None), f"{place}, request")
        return (
            request
            if exchange.outcome is None
            else self._part(replace(request, outcome=exchange.outcome), f"{place}, reply")
        )

    def _part(self, exchange: Exchange, place: str) -> Exchange:
        exchange = self._without_headers(exchange, place)
        return self._redact_again(Run(Header(""), (exchange,)), place).exchanges[0]

    def _without_headers(self, exchange: Exchange, place: str) -> Exchange:
        """Return the exchange without the headers that the policy leaves out."""
        if not self._policy.headers:
            return exchange
        call, outcome = exchange.call, exchange.outcome
        if not isinstance(call, ToolCall):
            call = replace(call, headers=self._keep_headers(call.headers, place))
        if isinstance(outcome, HttpReply):
            outcome = replace(outcome, headers=self._keep_headers(outcome.headers, place))
        return replace(exchange, call=call, outcome=outcome)

    def _keep_headers(self, headers: Headers, place: str) -> Headers:
        kept = tuple(pair for pair in headers if pair[0].lower() not in self._policy.headers)
        if gone := len(headers) - len(kept):
            self._counts[f"{place}: headers", "header"] += gone
        return kept

    def _redact_again(self, part: Run, place: str) -> Run:
        before = count_placeholders(self.redaction)
        after = self.redaction.rescan(part)
        if new := count_placeholders(self.redaction) - before:
            where = fields_between(fields_of(part), fields_of(after))
            for category, count in new.items():
                self._counts[f"{place}{f': {where}' if where else ''}", category] += count
        return after


def list_placeholders(run: Run, text: bytes) -> JsonObject:
    """Return the placeholders that a run has given out ("key:3"), each with its tag, "" for those that have none."""
    record = table(run.header.kit, "redactions")
    counts, tags = (value if isinstance(value := record.get(name), dict) else {} for name in ("placeholders", "tags"))
    hits = ((hit[1] or b"email", hit[2] or hit[3]) for hit in PLACEHOLDER.finditer(text))
    # No number is higher than the count of all that were given; bodies under a coding do not show theirs.
    return {
        **{f"{category}:{count}": "" for category, count in counts.items() if isinstance(count, int)},
        **{f"{category.decode()}:{int(number)}": "" for category, number in hits},
        **{name: str(tag) for name, tag in tags.items()},
    }


def note_redaction(run: Run, redaction: Redaction, policy: Policy) -> Run:
    """Return the run with what was done now beside what it told of its redaction before."""
    before, now = table(run.header.kit, "redactions"), redaction.record
    merged: JsonObject = {**before, **redacted_by(policy)}
    for name in ("placeholders", "tags", "variables"):
        old, new = (cast("dict[str, Any]", record.get(name) or {}) for record in (before, now))
        added = {key: old[key] + new[key] if name == "placeholders" and key in old else new[key] for key in new}
        if both := {**old, **added}:
            merged[name] = dict(sorted(both.items()))
    return replace(run, header=replace(run.header, kit={**run.header.kit, "redactions": merged}))


def count_placeholders(redaction: Redaction) -> Counter[str]:
    """Return how often a redaction has put a placeholder, by category."""
    return Counter(cast("dict[str, int]", redaction.record["placeholders"]))


def fields_of(run: Run) -> dict[str, Any]:
    """Return what people would look at of a header, or of one exchange, as a tree: bodies as JSON where they are."""
    if not run.exchanges:
        return {"outcome": run.header.outcome, "kit": run.header.kit}
    sides = (fields_of_side(side) for x in run.exchanges for side in (x.call, x.outcome))
    return {name: value for side in sides for name, value in side.items()}


def fields_of_side(side: Any) -> dict[str, Any]:
    """Return the fields of a call or an outcome that it has; none for no outcome."""
    names = ("url", "message", "args", "reason", "arguments", "facts", "value")
    fields = {name: value for name in names if (value := getattr(side, name, None))}
    if headers := getattr(side, "headers", None):
        fields["headers"] = dict(headers)
    if (body := getattr(side, "body", None)) is not None:
        fields["body"] = as_json(body.data)
    if items := getattr(side, "items", None):
        fields["items"] = list(items)
    if failure := getattr(side, "failure", None):
        fields["failure"] = fields_of_side(failure)
    return fields


def as_json(data: bytes) -> Json:
    """Return a body as a tree, or as text."""
    text = data.decode(errors="replace")
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError):
        return text


def fields_between(before: Json, after: Json) -> str:
    """The fields that differ, as people write them; the first few. Names are those of `after`, which hold no secret."""
    places = [show(place).removeprefix("$").removeprefix(".") for place in differing(before, after, ())]
    more = f" and {len(places) - TOLD} more" if len(places) > TOLD else ""
    return ", ".join(filter(None, places[:TOLD])) + more


def differing(before: Any, after: Any, place: Place) -> Iterator[Place]:
    """Yield the places where two trees of the same shape differ."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
        for (old, value), (name, new) in zip(before.items(), after.items(), strict=True):
            if old != name and value == new:
                yield (*place, name)
            yield from differing(value, new, (*place, name))
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for at, (value, new) in enumerate(zip(before, after, strict=True)):
            yield from differing(value, new, (*place, at))
    else:
        yield place


def in_text(data: bytes, redaction: Redaction) -> list[RuleHit]:
    """Return what the rules find in a text, by line and column."""
    hits: list[RuleHit] = []
    line, start, at = 1, 0, 0
    for begin, category in sorted({begin: category for begin, _, category in redaction.findings(data)}.items()):
        if breaks := data.count(b"\n", at, begin):
            line, start = line + breaks, data.rfind(b"\n", at, begin) + 1
        at = begin
        hits.append(RuleHit(f"{line}:{len(data[start:begin].decode(errors='replace')) + 1}", category))
    return hits


@dataclass(frozen=True, slots=True)
class Redacted:
    """A snapshot as it would be now: the `hits` in it, its new `text` with the `reason`, "" for nothing."""

    file: Path
    hits: list[RuleHit]
    text: str = ""
    reason: str = ""


def review_snapshot(
    file: Path, data: bytes, policy: Policy, environ: Mapping[str, str]
) -> tuple[codec.Snapshot, Review]:
    """The snapshot whose text is `data`, and its run, redacted again. Raises SnapshotEdited for one that was edited."""
    snapshot = codec.loads(data, file=format_path(file))
    if not snapshot.sealed:
        how = f"agentreplay accept {quote_word(format_path(file))} --edited --reason WHY"
        raise SnapshotEdited(f"was edited after it was recorded; if the edit is meant: {how}", file=format_path(file))
    return snapshot, Review(snapshot.run, data, policy, environ)


def redact_snapshot(file: Path, policy: Policy, environ: Mapping[str, str], reason: str) -> Redacted:
    """Return the snapshot in `file`, redacted again; nothing is written yet.

    Raises SnapshotError for one that cannot be read or was edited, Leak for one that would still hold a secret.
    """
    snapshot, review = review_snapshot(file, files.read_file(file), policy, environ)
    if not review.hits:
        return Redacted(file, [])
    reason = review.redaction.redact_text(reason)
    text = reseal(snapshot, review, reason, file=format_path(file))
    if leaks := review.redaction.leaks(unwrap(text).encode()):
        raise Leak(
            f"{format_path(file)}: not written, because {', '.join(leaks)} would still be in it, in an encoding that "
            "redaction does not reach.\nRecord the test again: pytest --snapshot-record"
        )
    return Redacted(file, review.hits, text, reason)


def reseal(snapshot: codec.Snapshot, review: Review, reason: str, *, file: str) -> str:
    """Return the text of the redacted run, with the revision that says so; `file` is for errors."""
    digest = codec.loads(codec.dumps(review.run), file=file).digest
    revision: JsonObject = {"from": snapshot.digest, "to": digest, "reason": reason}
    return codec.dumps(review.run, revisions=[*snapshot.revisions, revision])


def write(every: Iterable[Redacted]) -> None:
    """Put all of them in their places, or none. Raises CannotWrite."""
    files.move_all([(rewrite.file, rewrite.file, rewrite.text) for rewrite in every if rewrite.text])
