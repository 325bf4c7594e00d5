"""Whether a cache that outlives its test explains a divergence: another test has made the very same call."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Header, Run, ToolCall
from pytest_agentreplay.model.turns import label
from pytest_agentreplay.providers import READER
from pytest_agentreplay.runs.prompt_edits import find_edited_file
from pytest_agentreplay.snapshots.store import reading, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Call
    from pytest_agentreplay.runs.run_session import Location

MOST = 100  # snapshots that are read
CAUSE = "a cache that outlives its test had the answer when recorded; or your code now makes another test's call"
CLEAR = "clear the cache in the test or in a fixture (functools: cache_clear()), then record the test by itself"


def explain_cache(
    divergence: Divergence, run: Run, matching: Matching, place: Location, replayed: Sequence[Path]
) -> Divergence:
    """Return the divergence of `run`, which names the test that has made an added or missing call, if one has.

    `replayed` are the snapshots of the tests that were replayed in this process, the last one last.
    """
    now, replayed = divergence.now, [file for file in reversed(replayed) if file != place.snapshot]
    recorded, test = divergence.recorded.call if divergence.recorded is not None else None, ""
    sent = [READER.read_call(call).messages for call in (now, recorded) if call is not None]
    # The same messages with other settings are a changed call, whatever other tests call.
    if now is not None and not has_call(run, now, matching) and not (sent[0] and sent[1:] == sent[:1]):
        beside = snapshots.list_snapshots_in(place.snapshot.parent.parent, place.root)
        test = find_test(now, dict.fromkeys([*replayed, *beside]), matching, before=run.header.clock)
        edits = divergence.differences[:1] if divergence.kind is Kind.PROMPT else ()
        edited = any(find_edited_file(place.root, *map(str, edit[1:3])) for edit in edits if test)
        if test and not edited and not isinstance(now, ToolCall):  # many tests call one tool with the same arguments
            summary = f"{label(now, READER)} called; a cache was warm: {test} made this call before"
            return replace(divergence, kind=Kind.EXTRA, summary=summary, cause=CAUSE, hints=(), detail=(CLEAR,))
    test = find_test(recorded, replayed, matching) if recorded and divergence.kind is Kind.MISSING else test
    if test and divergence.kind in {Kind.EXTRA, Kind.MISSING}:
        perhaps = f"perhaps a cache: {test} made this call before; {CLEAR}"
        return replace(divergence, detail=(perhaps, *divergence.detail))
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
