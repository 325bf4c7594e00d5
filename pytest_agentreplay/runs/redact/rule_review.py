"""What rules find in what is there: in a snapshot by exchange and field, in any other text by line and column.

A snapshot is redacted again piece by piece, and what changes is reported: so what is reported is what would be done,
and what `agentreplay redact` writes, sealed again with the reason. A value is never printed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.errors import Leak, SnapshotEdited
from pytest_agentreplay.model.canonical_json import NotJson, parse
from pytest_agentreplay.model.exchanges import Body, Exchange, Failure, Header, Headers, Json, JsonObject, Run
from pytest_agentreplay.model.json_paths import Place, show
from pytest_agentreplay.model.paths import accepting_edit
from pytest_agentreplay.runs.redact.redaction_setup import redacted_by, redaction_for
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import unwrap
from pytest_agentreplay.snapshots.kit import table
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.redaction.redaction import Redaction

PLACEHOLDER = re.compile(rb"\[\[redacted:([a-z][a-z0-9-]*):([0-9]{1,9})\]\]|\buser([0-9]{1,9})@redacted\.invalid")
# What of a header, a call and an outcome may hold text of an agent, in the order in which people are told of it. The
# rest are numbers, words of ours, and names of classes, which a replay looks up.
FIELDS = (
    *("outcome", "kit", "name", "url", "message", "args", "reason", "arguments", "facts", "value", "headers", "body"),
    *("items", "failure"),
)
# What is found late may stand in an earlier exchange: a run that was changed is looked through once more.
PASSES = 3
MOST_FIELDS = 3
"""Fields that are listed of one part of an exchange."""


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
        self._left_out = policy.headers
        self._counts: Counter[tuple[str, str]] = Counter()
        headers = {name for x in run.exchanges for part in (x.call, x.outcome) for name, _ in get_headers(part)}
        self.redaction = redaction_for(environ, headers=headers, policy=policy)
        self.redaction.run.recall({"redactions": {"tags": list_placeholders(run, text)}})
        for _ in range(PASSES):
            before = self._counts.total()
            header = self._redact(Run(run.header), "header", attrgetter("header")).header
            exchanges = (self._redact_exchange(x, f"exchange {n}") for n, x in enumerate(run.exchanges, 1))
            run = Run(header, tuple(exchanges))
            if self._counts.total() == before:
                break
        self.hits = [RuleHit(place, category, count) for (place, category), count in self._counts.items()]
        self.run = note_redaction(run, self.redaction, policy) if self.hits else run

    def _redact_exchange(self, exchange: Exchange, place: str) -> Exchange:
        """Return the request first; then, behind a request in which nothing is left to find, the reply."""
        call: Any = self._leave_headers_out(exchange.call, f"{place}, request")
        request = Run(Header(""), (replace(exchange, call=call, outcome=None),))
        redacted = self._redact(request, f"{place}, request", lambda run: run.exchanges[0].call).exchanges[0]
        if exchange.outcome is None:
            return redacted
        outcome: Any = self._leave_headers_out(exchange.outcome, f"{place}, reply")
        answered = Run(Header(""), (replace(redacted, outcome=outcome),))
        return self._redact(answered, f"{place}, reply", lambda run: run.exchanges[0].outcome).exchanges[0]

    def _leave_headers_out(self, part: Any, place: str) -> Any:
        """Return a call or an outcome without the headers that the policy leaves out."""
        headers = get_headers(part)
        kept = tuple(pair for pair in headers if pair[0].lower() not in self._left_out)
        if len(kept) == len(headers):
            return part
        self._counts[f"{place}: headers", "header"] += len(headers) - len(kept)
        return replace(part, headers=kept)

    def _redact(self, run: Run, place: str, get_part: Callable[[Run], Any]) -> Run:
        """Return a run of one part redacted again; count what is new in it, under the fields of it that changed."""
        before = count_placeholders(self.redaction)
        redacted = self.redaction.rescan(run)
        if new := count_placeholders(self.redaction) - before:
            fields = format_changes(list_fields(get_part(run)), list_fields(get_part(redacted)))
            for category, count in new.items():
                self._counts[f"{place}{f': {fields}' if fields else ''}", category] += count
        return redacted


def get_headers(part: Any) -> Headers:
    """Return the headers of a call or an outcome; none where it has none."""
    return cast("Headers", getattr(part, "headers", ()))


def list_placeholders(run: Run, text: bytes) -> JsonObject:
    """Return the placeholders that a run has given out ("key:3"), each with its tag, "" for those that have none."""
    record = table(run.header.kit, "redactions")
    counts, tags = (value if isinstance(value := record.get(name), dict) else {} for name in ("placeholders", "tags"))
    # Addresses have a form of their own, so that what parses them still does.
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


def list_fields(part: Any) -> dict[str, Any]:
    """Return what people would look at of a header, a call or an outcome, as a tree: bodies as JSON where they are."""
    fields: dict[str, Any] = {}
    for name in FIELDS:
        match getattr(part, name, None):
            case Body(data=data):
                tree = parse(data)
                fields[name] = data.decode(errors="replace") if isinstance(tree, NotJson) else tree
            case Failure() as failure:
                fields[name] = list_fields(failure)
            case value if value:
                fields[name] = dict(value) if name == "headers" else value
    return fields


def format_changes(before: Json, after: Json) -> str:
    """Return the fields that differ, as people write them; the first few.

    Names are those of `after`, which hold no secret.
    """
    places = [show(place).removeprefix("$").removeprefix(".") for place in list_changes(before, after, ())]
    more = f" and {len(places) - MOST_FIELDS} more" if len(places) > MOST_FIELDS else ""
    return ", ".join(filter(None, places[:MOST_FIELDS])) + more


def list_changes(before: Any, after: Any, place: Place) -> Iterator[Place]:
    """Yield the places where two trees of the same shape differ."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
        # A name can hold a secret too: members are compared by their order.
        for (old, value), (name, new) in zip(before.items(), after.items(), strict=True):
            if old != name and value == new:
                yield (*place, name)
            yield from list_changes(value, new, (*place, name))
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple) and len(before) == len(after):
        for at, (value, new) in enumerate(zip(before, after, strict=True)):
            yield from list_changes(value, new, (*place, at))
    else:
        yield place


def in_text(data: bytes, redaction: Redaction) -> list[RuleHit]:
    """Return what the rules find in a text, by line and column."""
    hits: list[RuleHit] = []
    line, start, at = 1, 0, 0
    for begin, category in sorted({begin: category for begin, _, category in redaction.text.findings(data)}.items()):
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
        how = accepting_edit(format_path(file))
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
    text = codec.revise(review.run, snapshot, reason)
    if leaks := review.redaction.text.leaks(unwrap(text).encode()):
        raise Leak(
            f"{format_path(file)}: not written, because {', '.join(leaks)} would still be in it, in an encoding that "
            "redaction does not reach.\nRecord the test again: pytest --snapshot-record"
        )
    return Redacted(file, review.hits, text, reason)


def write(every: Iterable[Redacted]) -> None:
    """Put all of them in their places, or none. Raises CannotWrite."""
    files.move_all([(rewrite.file, rewrite.file, rewrite.text) for rewrite in every if rewrite.text])
