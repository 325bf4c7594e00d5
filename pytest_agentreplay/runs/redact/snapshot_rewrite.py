"""`agentreplay redact`: today's rules on snapshots of yesterday, sealed again with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import Leak, SnapshotEdited
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.runs.redact.rule_review import Review
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec.styles import unwrapped
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.runs.redact.rule_review import RuleHit


@dataclass(frozen=True, slots=True)
class Redacted:
    """A snapshot as it would be now: what is `found` in it, its new `text` with the `reason`, "" for nothing."""

    file: Path
    found: list[RuleHit]
    text: str = ""
    reason: str = ""


def reviewed(file: Path, data: bytes, policy: Policy, environ: Mapping[str, str]) -> tuple[codec.Snapshot, Review]:
    """The snapshot whose text is `data`, and its run, redacted again. Raises SnapshotEdited for one that was edited."""
    snapshot = codec.loads(data, file=format_path(file))
    if not snapshot.sealed:
        how = f"agentreplay accept {quoted(format_path(file))} --edited --reason WHY"
        raise SnapshotEdited(f"was edited after it was recorded; if the edit is meant: {how}", file=format_path(file))
    return snapshot, Review(snapshot.run, data, policy, environ)


def redacted(file: Path, policy: Policy, environ: Mapping[str, str], reason: str) -> Redacted:
    """The snapshot in `file`, redacted again; nothing is written yet.

    Raises SnapshotError for one that cannot be read or was edited, Leak for one that would still hold a secret.
    """
    snapshot, review = reviewed(file, files.read(file), policy, environ)
    if not review.found:
        return Redacted(file, [])
    digest = codec.loads(codec.dumps(review.run), file=format_path(file)).digest
    revision: JsonObject = {
        "from": snapshot.digest,
        "to": digest,
        "reason": (reason := review.redaction.redact_text(reason)),
    }
    text = codec.dumps(review.run, revisions=[*snapshot.revisions, revision])
    if leaks := review.redaction.leaks(unwrapped(text).encode()):
        raise Leak(
            f"{format_path(file)}: not written, because {', '.join(leaks)} would still be in it, in an encoding that "
            "redaction does not reach.\nRecord the test again: pytest --snapshot-record"
        )
    return Redacted(file, review.found, text, reason)


def write(every: Iterable[Redacted]) -> None:
    """Put all of them in their places, or none. Raises CannotWrite."""
    files.move_all([(one.file, one.file, one.text) for one in every if one.text])
