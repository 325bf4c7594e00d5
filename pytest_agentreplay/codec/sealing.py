"""The seal of a file: whether its content is what was sealed, what was edited since, and sealing it anew.

An unkeyed digest finds accidents and unreviewed edits. Whoever can write the file can reseal it; reviews stop that.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.codec import parsing, v1
from pytest_agentreplay.codec.blobs import BlobWriter
from pytest_agentreplay.codec.pretty import pretty
from pytest_agentreplay.codec.values import protect_text
from pytest_agentreplay.core.model import FramesReply, HttpReply
from pytest_agentreplay.errors import SnapshotUnreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.core.model import JsonObject, Run

Stored = dict[str, Any]


def checked(doc: Stored, key: str, text: str, file: str) -> tuple[bool, str]:
    """Whether the seal under `key` fits, and the digest of the content. Raises SnapshotUnreadable."""
    seal = doc.get(key)
    if not isinstance(seal, dict | None):
        raise SnapshotUnreadable(f"`{key}` must be an object", file=file, place=key)
    if seal is not None and (seal.get("alg"), seal.get("form")) != ("sha256", v1.FORM):
        message = f"sealed as {seal.get('alg')!r:.20} {seal.get('form')!r:.20}, which is not known here"
        raise SnapshotUnreadable(message, file=file, place=key)
    digest = parsing.content_digest(doc, key, text, file)
    return seal is not None and seal.get("digest") == digest, digest


def revisions(doc: Stored, file: str) -> tuple[JsonObject, ...]:
    """Who resealed the file and why, oldest first. Raises SnapshotUnreadable."""
    found = (doc.get("integrity") or {}).get("revisions", [])
    if not (isinstance(found, list) and all(isinstance(revision, dict) for revision in found)):
        raise SnapshotUnreadable("`revisions` must be a list of objects", file=file, place="integrity")
    return tuple(found)


def edited(doc: Stored, text: str, file: str) -> list[str]:
    """What does not fit its own digest."""
    if checked(doc, "integrity", text, file)[0]:
        return []
    seal = doc.get("integrity")
    if seal is None:
        return ["the seal is gone"]
    now = v1.integrity({"header": {}, **doc, "exchanges": v1.Reading(doc, file).exchanges}, ())
    found = ["header"] if seal.get("header") != now["header"] else []
    before = seal.get("exchanges")
    if isinstance(before, list):
        found += _moved([str(digest) for digest in before], now["exchanges"])
    return found or ["the file outside of header and exchanges"]


def _moved(before: list[str], now: list[str]) -> Iterator[str]:
    for kind, i, j, at, end in SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        same = min(j - i, end - at)
        yield from (f"exchange {n}" for n in range(at + 1, at + same + 1))
        yield from (f"exchange {n} (added)" for n in range(at + same + 1, end + 1))
        if j - i > same:
            yield f"{j - i - same} gone after exchange {at + same}"


def resealed(doc: Stored, run: Run, reason: str, file: str) -> str:
    """`doc` under a new seal; `run` is what was read of it, with the bodies as they are now."""
    for stored, exchange in zip(doc["exchanges"], run.exchanges, strict=True):
        for place, body in v1.bodies_of(exchange):
            held = v1.side(stored, place)
            if "body" in held:
                held["body"] |= {"size": len(body), "sha256": body.sha256}
        outcome = exchange.outcome
        if isinstance(outcome, HttpReply | FramesReply) and "cuts" in (held := v1.side(stored, "response")):
            if outcome.cuts is None:
                del held["cuts"]
            else:
                held["cuts"] = list(outcome.cuts)
    old = doc.pop("integrity", None) or {}
    told = revisions({"integrity": old}, file)
    revision: JsonObject = {"from": str(old.get("digest", "")), "to": parsing.canonical_digest(doc), "reason": reason}
    return pretty({**doc, "integrity": v1.integrity(doc, [*told, revision])})


def restated(doc: Stored, test: str, file: str) -> str:
    """`doc` as the snapshot of `test`, under a seal that keeps its revisions."""
    told = revisions(doc, file)
    doc.pop("integrity", None)
    doc["header"]["test"] = protect_text(test, BlobWriter())  # a blob holds no "::", so that none is made
    return pretty({**doc, "integrity": v1.integrity(doc, told)})
