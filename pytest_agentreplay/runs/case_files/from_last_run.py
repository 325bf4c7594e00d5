"""`agentreplay case new`: the failing run that a test has just had, as a case of its own."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import CaseSource
from pytest_agentreplay.errors import SnapshotMissing
from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.runs.case_files.scaffold import scaffold
from pytest_agentreplay.runs.redact.final_scan import CUT
from pytest_agentreplay.runs.redact.rule_review import review_snapshot
from pytest_agentreplay.snapshots.kit import table, texts
from pytest_agentreplay.snapshots.store import files, layout, projects, reading, snapshots
from pytest_agentreplay.snapshots.store.projects import ini_value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Literal

    from pytest_agentreplay.model.exchanges import JsonObject
    from pytest_agentreplay.redaction.policy import Policy
    from pytest_agentreplay.runs.case_files.scaffold import Scaffold, ScaffoldOptions

MOST_NAMED = 3
FIDELITIES: tuple[Literal["bytes", "body-json", "semantic"], ...] = ("bytes", "body-json", "semantic")


def latest(root: Path, nodeid: str) -> Path:
    """Return the file of the latest run of a test: its pending one, else its snapshot.

    Raises SnapshotMissing with the tests that may be meant: those of a class or file, of other parameters, of a slip.
    """
    module = nodeid.partition("::")[0]
    directory = ini_value(root, "agentreplay_dir") or layout.DIRECTORY
    if layout.names_test(nodeid):
        snapshot = projects.snapshot_path(root, module, nodeid, directory)
        for file in (layout.pending_path(root, snapshot), snapshot):
            if files.exists(file):
                return file
    tests: dict[str, None] = {}
    for file in (*files.list_below(layout.pending_folder(root), layout.SUFFIX), *files.list_below(root, layout.SUFFIX)):
        test = snapshots.find_test(file, root)
        if test == nodeid:  # under another name: its parameters held a secret, or it was moved
            return file
        if test is not None:
            tests[test] = None
    if several := [test for test in tests if test.startswith((f"{nodeid}::", f"{nodeid}["))]:
        more = f" and {len(several) - MOST_NAMED} more" if len(several) > MOST_NAMED else ""
        raise SnapshotMissing(f"is no test by itself: name {', or '.join(several[:MOST_NAMED])}{more}", file=nodeid)
    raise SnapshotMissing(unknown(root, nodeid, [*tests]), file=nodeid)


def unknown(root: Path, nodeid: str, recorded: list[str]) -> str:
    """Return why there is no run of a test, and a command that works; `recorded` are the tests that have a run."""
    module, _, name = nodeid.partition("::")
    in_file = projects.list_tests(root / module, module) if layout.names_test(nodeid) and module.endswith(".py") else []
    close = find_near(nodeid, recorded)
    if name and (in_file is None or nodeid.partition("[")[0] in in_file):
        record = f"no run of this test is kept; record it: pytest --snapshot-record {selecting(nodeid)}"
        return record + (f"; or take one that is near: agentreplay case new {selecting(close[0])}" if close else "")
    if close:
        return f"there is no such test; near are {', '.join(close)}: agentreplay case new {selecting(close[0])}"
    if in_file and (others := find_near(nodeid, in_file)):
        listed = ", ".join(others)
        return (
            f"there is no such test; near are {listed}, without a run: pytest --snapshot-record {selecting(others[0])}"
        )
    return "there is no such test; these are all: pytest --collect-only -q"


def find_near(nodeid: str, tests: list[str]) -> list[str]:
    """Return the tests whose ids resemble `nodeid`, the nearest first; else the first ones of the same file."""
    module = nodeid.partition("::")[0]
    same = [test for test in tests if test.startswith(f"{module}::")]
    return get_close_matches(nodeid, tests, n=MOST_NAMED, cutoff=0.8) or same[:MOST_NAMED]


def from_snapshot(
    file: Path,
    options: ScaffoldOptions,
    policy: Policy,
    environ: Mapping[str, str],
    outcome: Mapping[str, str] | None = None,
) -> Scaffold:
    """Return the case of the run in a snapshot, redacted again by today's rules. `outcome` is how its test ends by now.

    Raises SnapshotError, SnapshotEdited for one that was edited, Leak.
    """
    _, review = review_snapshot(file, reading.data(file), policy, environ)
    run = review.run
    stated = table(run.header.kit, "case")
    fidelity = next(
        (fidelity_name for fidelity_name in FIDELITIES if fidelity_name == stated.get("fidelity")), FIDELITIES[0]
    )
    capture = table(run.header.kit, "capture")
    source = CaseSource(
        format="capture" if capture else "snapshot",
        id=run.header.test,
        fidelity=fidelity,
        imported=options.today,
        losses=tuple(texts(stated.get("losses"))),
    )
    ended: JsonObject = {name: review.redaction.redact_text(text) for name, text in (outcome or {}).items()}
    run = replace(run, header=replace(run.header, test=options.test, outcome=ended or run.header.outcome))
    missing = (*texts(stated.get("missing")), *texts(run.header.kit.get(CUT)))
    cold = str(capture.get("cold") or "")
    return scaffold(run, source, options, review.redaction, missing=missing, reason=cold)
