"""Runs that were not written: the journal of an interrupted recording, and what a refused write has left.

Both were redacted when they were kept. A policy is applied to them again, and nothing is written that is not clean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.codec import journal
from pytest_agentreplay.core.paths import quoted, selecting
from pytest_agentreplay.core.redaction.policy import PLAIN, Policy
from pytest_agentreplay.errors import SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.redact.final_scan import CUT, checked
from pytest_agentreplay.redact.rule_review import Review
from pytest_agentreplay.store import files, layout, projects, reading
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.snapshots import Store

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_agentreplay.core.model import Run


def recover(file: Path, environ: Mapping[str, str], policy: Policy = PLAIN) -> str:
    """Make a pending run of the journal `file` (absolute), redacted again; it is never promoted by itself.

    A pending run is redacted again under `policy`; one that was refused becomes the snapshot of its test.
    Return the lines to print. Raises SnapshotUnreadable for what is neither, Leak for what is not clean yet.
    """
    home = layout.home_path(file)
    if home is not None and file.name.endswith(layout.SUFFIX):
        return finish(file, home, environ, policy)
    if files.growing(file):
        raise SnapshotUnreadable("is still being recorded; wait until its session is over", file=format_path(file))
    run, torn = journal.read(files.read(file))
    if run is None or home is None:
        wrong = "holds no complete record" if home is not None else "is no journal; agentreplay recover lists them"
        raise SnapshotUnreadable(wrong, file=format_path(file))
    text = clean(replace(run, header=replace(run.header, outcome={"status": "interrupted"})), environ, policy, home)
    root = next(up for up in file.parents if up.name == layout.PRIVATE).parent
    path = Store(root).save_pending(home, text)
    files.remove(file)
    return (
        f"{format_path(path)}: {count(len(run.exchanges))} recovered{torn_off(torn)}\n"
        f"agentreplay accept {quoted(format_path(path))}"
    )


def finish(file: Path, home: Path, environ: Mapping[str, str], policy: Policy) -> str:
    """Redact the pending run `file` again; the rest of a refused one goes to `home`, unless a passing run is there."""
    run = codec.loads(reading.data(file), file=format_path(file)).run
    cut = run.header.kit.get(CUT)
    text = clean(run, environ, policy, home)
    if not isinstance(cut, list) or keeps(home, run):
        files.write_whole(file, text)
        return f"{format_path(file)}: redacted again\nagentreplay accept {quoted(format_path(file))}"
    files.write_whole(home, text)
    files.remove(file)
    places = f"; a placeholder stands for {'; '.join(map(str, cut))}" if cut else ""
    test = projects.recorded_id(file, home, run.header.test)
    return f"{format_path(home)}: written for {test}{places}\npytest {selecting(test)}"


def clean(run: Run, environ: Mapping[str, str], policy: Policy, home: Path) -> str:
    """The text of `run`, redacted again under `policy`. Raises Leak."""
    review = Review(run, codec.dumps(run).encode(), policy, environ)
    return checked(review.redaction, review.run, format_path(home))


def keeps(home: Path, run: Run) -> bool:
    """Whether a run that passed is there, and `run` did not."""
    try:
        there = codec.loads(reading.data(home), file=format_path(home)).run.header
    except SnapshotMissing:
        return False
    return there.outcome.get("status") == "passed" != run.header.outcome.get("status")


def count(calls: int) -> str:
    """So many calls, in words."""
    return f"{calls} call{'s' * (calls != 1)}"


def torn_off(torn: int) -> str:
    """What a kill has cost, if anything."""
    return f", {torn} bytes of an unfinished record dropped" if torn else ""
