"""The copies of a case's files that go into a bundle, redacted under a policy. The case itself stays as it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.case_files.trace_cleaning import BARE, cleaned
from pytest_agentreplay.cases.case import RUN, SOURCE_TRACE
from pytest_agentreplay.codec.strict_yaml import values_of
from pytest_agentreplay.core.model import Header, Run
from pytest_agentreplay.errors import SnapshotEdited
from pytest_agentreplay.redact.rule_review import Review

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.core.redaction import Redaction
    from pytest_agentreplay.core.redaction.policy import Policy

REASON = "redacted for a bundle"


def redacted_copies(contents: Mapping[str, bytes], policy: Policy, environ: Mapping[str, str]) -> dict[str, bytes]:
    """Return `contents` without what `policy` finds. A value has the same placeholder in each file.

    The run comes first, so that its placeholders keep their numbers. It is sealed again.

    Raises:
        SnapshotError: The run cannot be read, or was edited.
        TraceError: A trace file cannot be opened.
    """
    snapshot = codec.loads(contents[RUN], file=RUN) if RUN in contents else None
    run = snapshot.run if snapshot is not None else Run(Header(""), ())
    review = Review(run, contents.get(RUN, b""), policy, environ)
    copies = dict(contents)
    if snapshot is not None and review.found:
        copies[RUN] = resealed(snapshot, review)
    for name, data in contents.items():
        if name.startswith(SOURCE_TRACE):
            copies[name], _ = cleaned(data, name, review.redaction)
        elif name != RUN:
            copies[name] = text_copy(name, data.decode(errors="replace"), review.redaction).encode()
    return copies


def resealed(snapshot: Snapshot, review: Review) -> bytes:
    """Return the file of the redacted run, with the revision that says so. Raises SnapshotEdited."""
    if not snapshot.sealed:
        raise SnapshotEdited("was edited after it was sealed; agentreplay verify says where", file=RUN)
    digest = codec.loads(codec.dumps(review.run), file=RUN).digest
    revision: JsonObject = {"from": snapshot.digest, "to": digest, "reason": REASON}
    return codec.dumps(review.run, revisions=[*snapshot.revisions, revision]).encode()


def text_copy(name: str, text: str, redaction: Redaction) -> str:
    """Return a text file without what the rules find; of YAML value by value, so that it stays YAML."""
    if name.endswith(".yaml"):
        for start, end, value in reversed(values_of(text)):
            if (stored := redaction.text(value)) != value:
                newline = "\n" if text[start:end].endswith("\n") else ""  # a block scalar ends behind its last line
                text = f"{text[:start]}{json.dumps(stored, ensure_ascii=False)}{newline}{text[end:]}"
    if not redaction.findings(text.encode()):
        return text
    return BARE.sub(lambda found: f"{found['before']}'{found['text']}'", redaction.text(text))  # in comments
