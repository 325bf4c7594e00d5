"""What the footer says of snapshots that are not those of their lock, and of those that no test used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.core.paths import near, quoted
from pytest_agentreplay.report.escape import line
from pytest_agentreplay.report.notices import Notice, Severity, error, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_agentreplay.report.summary import UnusedSnapshots

MOST = 5
"""Differences, and files, that are listed without -v."""


def lock_notices(differing: Mapping[str, Sequence[str]], *, here: Path, fails: bool) -> Iterator[Notice]:
    """Yield the differences by lock file; `fails` says that the session fails for them."""
    for lock, changes in differing.items():
        name, folder = near(Path(lock), here), near(Path(lock).parent, here)
        head = f"locked    {name}: {plural(len(changes), 'snapshot')} not as locked"
        rows = [f"          {line(change)}" for change in changes]
        command = f"          if that is meant:   agentreplay lock {quoted(folder)}"
        yield Notice(Severity.ERROR, (head, *shorten(rows), command), verbose=(head, *rows, command))
    if differing and fails:
        yield error("          the session fails for it: CI is set, or the mode was typed")


def unused_notices(unused: UnusedSnapshots, *, here: Path, fails: bool) -> Iterator[Notice]:
    """Yield the snapshots that no test used; nothing where none is claimed, unless a worker was lost."""
    if unused.why:
        if "lost" in unused.why:
            yield error(f"unused    not looked for: {unused.why}")
        return
    if not unused.files:
        return
    pronoun = "it" if len(unused.files) == 1 else "them"
    head = f"unused    {plural(len(unused.files), 'snapshot')}: no test of this full run used {pronoun}"
    rows = [f"          {near(Path(file), here)}" for file, _ in unused.files]
    moves = [f"          if renamed:   agentreplay mv {quoted(old)} {quoted(new)}" for old, new in unused.moves]
    ends = []
    if len(unused.possible_moves) < len(unused.files):
        ends.append("          to delete what is not needed:   agentreplay prune")
    if fails:
        ends.append("          the session fails for it: agentreplay_unused = fail")
    short, full = (head, *shorten(rows), *moves[:MOST], *ends), (head, *rows, *moves[: len(rows)], *ends)
    yield Notice(Severity.ERROR, short, verbose=full)


def shorten(rows: Sequence[str]) -> list[str]:
    """Return the rows that are listed without -v, and how many more there are."""
    more = len(rows) - MOST
    return [*rows[:MOST], *([f"          and {more} more: -v shows all"] if more > 0 else [])]
