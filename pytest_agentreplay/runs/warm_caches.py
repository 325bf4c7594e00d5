"""Whether a cache that outlives its test explains a divergence: another test has made the very same call."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.model import Header, Run
from pytest_agentreplay.core.turns import label
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.runs.offline_session import make_matching
from pytest_agentreplay.runs.prompt_edits import find_edited_file
from pytest_agentreplay.store import reading, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Call
    from pytest_agentreplay.runs.replay_session import ReplaySession

MOST = 100  # snapshots that are read
CAUSE = "a cache that outlives its test had the answer when recorded; or your code now makes another test's call"
CLEAR = "clear the cache in the test or in a fixture (functools: cache_clear()), then record the test by itself"


def explain_cache(session: ReplaySession, divergence: Divergence, replayed: Sequence[Path]) -> Divergence:
    """Return the divergence of `session`, which names the test that has made an added or missing call, if one has.

    `replayed` are the snapshots of the tests that were replayed in this process, the last one last.
    """
    now, run, place = divergence.now, session.snapshot.run, session.place
    matching = make_matching(place, session.settings)
    replayed = [file for file in reversed(replayed) if file != place.snapshot]
    if now is not None and not has_call(run, now, matching):
        files = snapshots.snapshots_in(place.snapshot.parent.parent, place.root)
        beside = (file for file in files if file not in {place.snapshot, *replayed})
        test = find_test(now, replayed, matching) or find_test(now, beside, matching, before=run.header.clock)
        if test and not is_edited(divergence, place.root):
            summary = f"{label(now, READER)} called; a cache was warm: {test} made this call before"
            return replace(divergence, kind=Kind.EXTRA, summary=summary, cause=CAUSE, hints=(), detail=(CLEAR,))
    missing = divergence.recorded if divergence.kind is Kind.MISSING else None
    if missing and (test := find_test(missing.call, replayed, matching)):
        likely = f"or a cache answered, since {test} made this call before: {CLEAR}"
        return replace(divergence, detail=(likely, *divergence.detail))
    return divergence


def has_call(run: Run, call: Call, matching: Matching) -> bool:
    """Return whether the run holds the call, byte for byte but for what is never compared."""
    return any(matching.fingerprint(x.call) == matching.fingerprint(call) for x in run.exchanges)


def find_test(call: Call, files: Iterable[Path], matching: Matching, before: int = sys.maxsize) -> str:
    """Return the test of the first snapshot that holds the call and was recorded `before`; "" for none."""
    for run in map(read_run, islice(files, MOST)):
        if run.header.clock < before and has_call(run, call, matching):
            return run.header.test
    return ""


@lru_cache(maxsize=MOST)
def read_run(file: Path) -> Run:
    """Return what a snapshot holds, read once however many tests diverge; an empty run where it cannot be read."""
    with suppress(AgentReplayError):
        return reading.load(file).run
    return Run(Header(""))


def is_edited(divergence: Divergence, root: Path) -> bool:
    """Return whether a file of the project holds the words of now, and none the recorded ones."""
    sides = divergence.differences[0][1:3] if divergence.kind is Kind.PROMPT else ()
    return bool(sides and find_edited_file(root, *map(str, sides)))
