"""Run <-> text of a snapshot, one module per format version.

`dumps` and `loads` are the way in and out; `reseal` and `list_edits` are for people who edit files by hand, `restate`
for those who rename tests. Nothing here opens a file: `file` is only the name that errors show.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SnapshotEdited, SnapshotTooNew, SnapshotUnreadable
from pytest_agentreplay.model.paths import accepting_edit
from pytest_agentreplay.snapshots.codec import parsing, seal_digest, v1, volatile_reader
from pytest_agentreplay.snapshots.codec.styles import BlobReader
from pytest_agentreplay.snapshots.codec.values import reveal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.model.exchanges import JsonObject, Run

__all__ = [
    "Snapshot",
    "cut_volatile",
    "dumps",
    "identity",
    "list_edits",
    "loads",
    "read_head",
    "read_tail",
    "reseal",
    "restate",
    "revise",
]

HEAD = 2048
"""So many bytes of a file hold what a list of captured runs shows of it, and what a choice among them reads."""

_VERSION = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})", re.ASCII)
_KEY = re.compile(r'\s*[{,]?\s*"(\w+)"\s*:\s*')
_SEALED = re.compile(rb'"exchanges":\s*\[([^\]{}]*)\]')
_RECORDED = re.compile(rb'\n "recording": \{"recorded":"([^"\\]*)"')
_ANEW = {volatile_reader.LINES, volatile_reader.RUN, seal_digest.KEY}
_scan = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot file that was read.

    Attributes:
        run: The run that it holds.
        version: The version of the format that it was written in.
        notes: What to know of the file, for people.
        sealed: Whether the content is the one that its digest was made of.
        revisions: Who accepted an edit and why: `{"from": digest, "to": digest, "reason": text, "at": day}`.
        digest: The digest of the content as it is now.
    """

    run: Run
    version: str
    notes: tuple[str, ...] = ()
    sealed: bool = True
    revisions: tuple[JsonObject, ...] = ()
    digest: str = ""

    @property
    def broken(self) -> str:
        """Where the chain of revisions breaks; "" for a whole one."""
        return seal_digest.broken(self.revisions, self.digest)


def dumps(run: Run, *, revisions: Sequence[JsonObject] = ()) -> str:
    """Return the text of `run` in the newest format, every body proven to come back. Raises CannotWrite."""
    return v1.write(run, revisions)


def loads(text: str | bytes, *, file: str) -> Snapshot:
    """Read a snapshot of any released format. Raises SnapshotUnreadable or SnapshotTooNew, naming `file` and place.

    Bodies are restored, and proven by their sha256, when they are read; that may raise SnapshotUnreadable too.
    """
    data = parsing.to_bytes(text)
    doc = _parse(data, file)
    version: str = doc["schemaVersion"]
    notes: tuple[str, ...] = ()
    if unknown := v1.unknown_keys(doc):
        if version == v1.VERSION:
            message = f"format {version} has no top-level key {unknown[0]!r:.40}; keys of your own begin with `x-`"
            raise SnapshotUnreadable(message, file=file, place=unknown[0][:40])
        notes = (f"written as format {version}; kept without reading: {', '.join(unknown)}",)
    sealed, digest = seal_digest.check_seal(doc, data, file)
    revisions = seal_digest.revisions(doc, file)
    run = v1.read_run(doc, file, proven=sealed)
    return Snapshot(run if sealed else v1.read_edited(run), version, notes, sealed, revisions, digest)


def read_head(data: bytes, *, file: str) -> JsonObject:
    """Return what the first bytes of a file say of its run: the fields of its header, and "capture" of its kit.

    What begins beyond `data` is missing. It is read without a look at the seal: for lists, and to choose among runs.
    Raises SnapshotUnreadable or SnapshotTooNew.
    """
    text = data.decode(errors="replace")
    fields: dict[str, Any] = {}
    at = 0
    while "capture" not in fields and (key := _KEY.match(text, at)):
        at = key.end()
        if key[1] in {"header", "kit"} and text.startswith("{", at):
            continue
        try:
            value, at = _scan(text, at)
            if at < len(text):  # else a number may go on
                fields.setdefault(key[1], reveal(value, BlobReader()) if '"$' in text else value)
        except (ValueError, TypeError, RecursionError):
            break
    _refuse_version(fields, file)
    return fields


def cut_volatile(text: str) -> str:
    """Return what a sealed file says, without what each recording has anew, whatever a formatter made of its layout."""
    return json.dumps({key: value for key, value in json.loads(text).items() if key not in _ANEW})


def read_tail(data: bytes) -> tuple[int, str] | None:
    """Return how many exchanges the last bytes of a file count, and when it was recorded, "" where they do not say it.

    None where they do not hold the whole seal, or are laid out in another way.
    """
    above, mark, seal = data.rpartition(b'"integrity"')
    match = _SEALED.search(seal) if mark else None
    recorded = _RECORDED.search(above)
    if match is None or (recorded is None and b'"recording"' in above):
        return None
    return match[1].count(b'"') // 2, recorded[1].decode(errors="replace") if recorded else ""


def list_edits(text: str | bytes, *, file: str) -> list[str]:
    """Return what was edited after the seal: "exchange 3", "header", "blobs"; empty for a sealed file.

    Raises like `loads`.
    """
    data = parsing.to_bytes(text)
    doc = _parse(data, file)
    from pytest_agentreplay.snapshots.codec import seal

    try:
        return seal.list_edits(doc, data, file)
    except RecursionError:
        raise parsing.too_deep(file) from None


def identity(data: bytes, *, file: str) -> tuple[str, int]:
    """The digest over a sealed file and its seal, "" for one that is not sealed; and the number of its exchanges.

    Raises like `loads`.
    """
    doc = _parse(data, file)
    return seal_digest.identity(doc, data, file), len(v1.list_exchanges(doc, file))


def reseal(text: str | bytes, reason: str, *, file: str, at: str = "") -> str:
    """The same content under a new seal, with `reason` and the day `at` among its revisions. Raises like `loads`.

    The sizes and sha256 of edited bodies are brought up to date. A sealed file comes back as it is.
    """
    data = parsing.to_bytes(text)
    snapshot = loads(data, file=file)
    if snapshot.sealed:
        return data.decode()
    from pytest_agentreplay.snapshots.codec import seal

    return seal.reseal(parsing.parse_object(data, file), snapshot.run, reason, file, at)


def revise(run: Run, previous: Snapshot, reason: str, *, at: str = "") -> str:
    """Return the text of a run that takes the place of `previous`, with the day and the reason among its revisions.

    Raises CannotWrite.
    """
    digest = loads(dumps(run), file="the new snapshot").digest
    revision: JsonObject = {"from": previous.digest, "to": digest, "reason": reason, **({"at": at} if at else {})}
    return dumps(run, revisions=[*previous.revisions, revision])


def restate(text: str | bytes, test: str, *, file: str) -> str:
    """Return the same content as the snapshot of `test`, sealed.

    Raises like `loads`, and SnapshotEdited for a file that is not as it was sealed.
    """
    data = parsing.to_bytes(text)
    snapshot = loads(data, file=file)
    if not snapshot.sealed:
        how = accepting_edit(file)
        raise SnapshotEdited(f"was edited after it was recorded; if the edit is meant: {how}", file=file)
    from pytest_agentreplay.snapshots.codec import seal

    return seal.restate(parsing.parse_object(data, file), test, file)


def _parse(data: bytes, file: str) -> dict[str, Any]:
    """Return the JSON object of a file in a format that can be read here.

    Raises SnapshotUnreadable or SnapshotTooNew.
    """
    doc = parsing.parse_object(data, file)
    _refuse_version(doc, file)
    return doc


def _refuse_version(doc: dict[str, Any], file: str) -> None:
    """Raise SnapshotUnreadable or SnapshotTooNew for a format that cannot be read here."""
    version = doc.get("schemaVersion")
    if not (isinstance(version, str) and (match := _VERSION.fullmatch(version))):
        message = "`schemaVersion` is missing or no version; is this a snapshot?"
        raise SnapshotUnreadable(message, file=file, place="schemaVersion")
    if int(match[1]) > 1:
        needs = doc.get("needs")
        reader = needs if isinstance(needs, str) and len(needs) < 80 else "a newer frozen-agentreplay"
        message = (
            f"written in format {version}, this version reads up to {v1.VERSION}; it needs {reader}: "
            "pip install --upgrade frozen-agentreplay"
        )
        raise SnapshotTooNew(message, file=file, place="schemaVersion")
    if int(match[1]) == 0:
        message = f"there is no format {version}; this version reads 1.x"
        raise SnapshotUnreadable(message, file=file, place="schemaVersion")
