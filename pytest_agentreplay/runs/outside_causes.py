"""What outside the test explains a divergence: a cache that outlives its test, or an edited prompt.

A cache was warm where another test has made the very same call. A prompt was edited where a file of the project holds
its words of now, and none holds the recorded ones.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.compare.diagnose.classify import STATE_CAUSE
from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Call, Header, Run, ToolCall
from pytest_agentreplay.model.turns import label
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots.store import files, reading, snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_agentreplay.compare.matching import Matching
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


AROUND, SHORTEST = 10, 8  # characters on both sides of a change that are looked up with it, and of all that is
FILES, LARGEST = 2000, 1 << 20  # files that are read, and bytes of one
WRITTEN = {".j2", ".jinja2", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}

_BETWEEN = re.compile(r"""(?:\\n|[\s"'\\])+""")  # what stands between the parts of a text in source code


def explain_edit(divergence: Divergence, root: Path) -> Divergence:
    """Return the divergence, which says of a prompt that may show a tool's state in which file it was edited."""
    if divergence.cause.startswith(STATE_CAUSE):
        recorded, now = map(str, divergence.differences[0][1:3])
        if edited := find_edited_file(root, recorded, now):
            return replace(divergence, cause=f"the prompt was edited: {edited} holds the words of now")
    return divergence


def find_edited_file(root: Path, recorded: str, now: str) -> str:
    """Return the file, from `root`, that holds what `now` has in place of `recorded`; "" for none, or if one has both.

    A text that the state of a program is put into stands in no file as it is sent, or both sides of it do.
    """
    start, old, new = texts.hunk(recorded, now)
    before = recorded[:start].rpartition("\n")[2][-AROUND:]
    after = recorded[start + len(old) :].partition("\n")[0][:AROUND]
    was, words = (_BETWEEN.sub(" ", f"{before}{text}{after}").strip() for text in (old, new))
    if len(words) < SHORTEST or not (new.strip() or (before.strip() and after.strip())):
        return ""
    edited = ""
    folders = ((here, names) for here, names in snapshots.walk(root) if not here.name.startswith("__"))
    sources = (here / name for here, names in folders for name in names if Path(name).suffix in WRITTEN)
    for file in islice(sources, FILES):
        with suppress(AgentReplayError):
            text = _BETWEEN.sub(" ", files.read_file(file, LARGEST).decode("utf-8", "replace"))
            if old.strip() and was in text:
                return ""
            edited = edited or (file.relative_to(root).as_posix() if words in text else "")
    return edited
