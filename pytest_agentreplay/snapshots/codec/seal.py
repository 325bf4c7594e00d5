"""What was edited since a file was sealed, and sealing it anew.

An unkeyed digest finds accidents and unreviewed edits. Whoever can write the file can reseal it; reviews stop that.
"""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.model.exchanges import FramesReply, HttpReply
from pytest_agentreplay.snapshots.codec import seal_digest, v1
from pytest_agentreplay.snapshots.codec.dedup_reader import count_shared
from pytest_agentreplay.snapshots.codec.styles import BlobWriter
from pytest_agentreplay.snapshots.codec.values import protect_text
from pytest_agentreplay.snapshots.codec.volatile_reader import LINES
from pytest_agentreplay.snapshots.codec.volatile_writer import set_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import JsonObject, Run
    from pytest_agentreplay.snapshots.codec.seal_digest import Stored

LIKENESS = 500
"""Exchanges that are told apart one by one where the list of them was rearranged."""
NAMED = 6


def list_edits(doc: Stored, data: bytes, file: str) -> list[str]:
    """Return what does not fit its own digest."""
    sealed, digest = seal_digest.check_seal(doc, data, file)
    if sealed:
        return []
    seal = doc.get(seal_digest.KEY)
    if seal is None:
        return ["the seal is gone"]
    edits = [*_parts(doc, seal), *_exchanges(seal.get("exchanges"), doc)]
    if edits:
        return edits
    if seal_digest.is_own_digest_right({seal_digest.KEY: seal}):
        return ["its version, or the order of its keys"]
    return ["the revisions"] if seal.get("digest") == digest else ["the seal itself"]


def _parts(doc: Stored, seal: Stored) -> Iterator[str]:
    """Yield the top-level values but the exchanges that are not as they were sealed."""
    before = seal.get("parts")
    if not isinstance(before, dict):
        yield "the seal itself"
        return
    now = seal_digest.parts(doc)
    for key in now:
        if key in before and before[key] != now[key]:
            yield _format_key(key)
        elif key not in before:
            yield f"{_format_key(key)} (added)"
    yield from (f"{_format_key(key)} (gone)" for key in before if key not in now)


def _format_key(key: str) -> str:
    """Return a key as it may be shown; it was not written by us."""
    return key[:40] if key.isascii() and key.isprintable() else ascii(key[:40])


def _exchanges(before: Any, doc: Stored) -> list[str]:
    now = seal_digest.exchanges(doc)
    numbers = v1.number_by_start(doc.get(LINES) or doc["exchanges"])
    if not isinstance(before, list):
        return ["the seal itself"]
    before = [str(digest) for digest in before]
    if len(before) == len(now) and Counter(before) == Counter(now):
        moved = [n for n, was, is_ in zip(numbers, before, now, strict=True) if was != is_]
        names = f" {', '.join(map(str, sorted(moved)))}" if len(moved) <= NAMED else ""
        return [f"the order of exchanges{names}"] if moved else []
    return list(_list_moves(before, now, numbers))


def _list_moves(before: list[str], now: list[str], numbers: list[int]) -> Iterator[str]:
    """Yield which exchanges are others, new or gone."""
    head, tail = count_shared(before, now)
    before, now = before[head : len(before) - tail], now[head : len(now) - tail]
    if max(len(before), len(now)) > LIKENESS:
        yield f"exchanges from {head + 1} on"
        return
    for kind, i, j, at, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        same, first = min(j - i, end - at), head + at
        yield from (f"exchange {numbers[n]}" for n in range(first, first + same))
        yield from (f"exchange {numbers[n]} (added)" for n in range(first + same, head + end))
        if j - i > same:
            yield f"{j - i - same} gone after exchange {first + same}"


def reseal(doc: Stored, run: Run, reason: str, file: str, at: str = "") -> str:
    """Return `doc` under a new seal; `run` is what was read of it, with the bodies as they are now."""
    if LINES not in doc:
        doc = set_apart(doc)
    for number, line in zip(v1.number_by_start(doc[LINES]), doc[LINES], strict=True):
        exchange = run.exchanges[number - 1]
        for place, body in v1.bodies_of(exchange):
            if place in line:
                line[place] = [len(body), body.digest]
        if isinstance(outcome := exchange.outcome, HttpReply | FramesReply) and "cuts" in line:
            if outcome.cuts is None:
                del line["cuts"]
            else:
                line["cuts"] = list(outcome.cuts)
    return _add_revision(doc, reason, file, at)


def restate(doc: Stored, test: str, file: str) -> str:
    """Return `doc` as the snapshot of `test`, under a seal that keeps its revisions and adds that of the new name."""
    was = doc["header"]["test"]
    doc["header"]["test"] = protect_text(test, BlobWriter())  # a blob holds no "::", so that none is made
    if seal_digest.revisions(doc, file):
        return _add_revision(doc, f"renamed from {was}", file)
    doc.pop(seal_digest.KEY, None)
    return seal_digest.write_sealed(doc)


def _add_revision(doc: Stored, reason: str, file: str, at: str = "") -> str:
    """Return `doc` sealed with one more revision, which begins where the last one ended."""
    revisions = seal_digest.revisions(doc, file)
    old = doc.pop(seal_digest.KEY, None) or {}
    begin = revisions[-1].get("to") if revisions else old.get("digest")  # that of the content alone, before the first
    revision: JsonObject = {"from": str(begin or ""), "to": seal_digest.digest_content(doc), "reason": reason}
    return seal_digest.write_sealed(doc, [*revisions, revision | ({"at": at} if at else {})])
