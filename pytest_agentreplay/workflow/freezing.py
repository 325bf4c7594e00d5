"""`agentreplay freeze`: the failing run that a test has just had, as a case of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.cases.case import CaseSource
from pytest_agentreplay.core.drift import table, texts
from pytest_agentreplay.core.shell import quoted, selecting
from pytest_agentreplay.errors import SnapshotEdited, SnapshotMissing
from pytest_agentreplay.store import files, layout, nearby, reading
from pytest_agentreplay.store.projects import ini_value
from pytest_agentreplay.store.shown import shown
from pytest_agentreplay.workflow.reviewing import Review
from pytest_agentreplay.workflow.scaffolding import scaffold

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Literal

    from pytest_agentreplay.core.redaction.policy import Policy
    from pytest_agentreplay.workflow.scaffolding import Scaffold, Told

FIDELITIES: tuple[Literal["bytes", "body-json", "semantic"], ...] = ("bytes", "body-json", "semantic")


def latest(root: Path, nodeid: str) -> Path:
    """The file of the latest run of a test: its pending one, else its snapshot. Raises SnapshotMissing."""
    module = nodeid.partition("::")[0]
    directory = ini_value(root, "agentreplay_dir") or layout.DIRECTORY
    if layout.names_test(nodeid):
        snapshot = layout.snapshot_path(root, module, nodeid, directory)
        for file in (layout.pending_path(root, snapshot), snapshot):
            if files.exists(file):
                return file
    for file in (*files.below(layout.pending_folder(root), layout.SUFFIX), *files.below(root, layout.SUFFIX)):
        if nearby.test_of(file) == nodeid:  # under another name: its parameters held a secret, or it was moved
            return file
    message = f"no run of this test is kept; record it: pytest --snapshot-record {selecting(nodeid)}"
    raise SnapshotMissing(message, file=nodeid)


def from_snapshot(file: Path, told: Told, policy: Policy, environ: Mapping[str, str]) -> Scaffold:
    """The case of the run in a snapshot, redacted again by today's rules.

    Raises SnapshotError, SnapshotEdited for one that was edited, Leak.
    """
    data = reading.data(file)
    snapshot = codec.loads(data, file=shown(file))
    if not snapshot.sealed:
        how = f"agentreplay reseal {quoted(shown(file))} --reason WHY"
        raise SnapshotEdited(f"was edited after it was sealed; if the edit is meant: {how}", file=shown(file))
    review = Review(snapshot.run, data, policy, environ)
    run = review.run
    stated = table(run.header.kit, "case")
    fidelity = next((one for one in FIDELITIES if one == stated.get("fidelity")), FIDELITIES[0])
    source = CaseSource(
        id=run.header.test, fidelity=fidelity, imported=told.today, losses=tuple(texts(stated.get("losses")))
    )
    run = replace(run, header=replace(run.header, test=told.test))
    return scaffold(run, source, told, review.redaction, missing=tuple(texts(stated.get("missing"))))
