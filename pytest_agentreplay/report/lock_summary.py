"""What a session says of snapshots that are not those of their lock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.core.paths import near, quoted
from pytest_agentreplay.report.escape import line
from pytest_agentreplay.report.session import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SHOWN = 5
"""Differences that are named without -v."""


def lock_lines(unlike: Mapping[str, Sequence[str]], *, verbosity: int, here: str, fails: bool) -> list[str]:
    """The lines of the footer, by lock; none where each lock fits."""
    lines = []
    for lock, found in unlike.items():
        name, folder = near(Path(lock), Path(here)), near(Path(lock).parent, Path(here))
        bound = len(found) if verbosity > 0 else SHOWN
        lines.append(f"locked    {name}: {plural(len(found), 'snapshot')} not as locked")
        lines += [f"          {line(difference)}" for difference in found[:bound]]
        if len(found) > bound:
            lines.append(f"          and {len(found) - bound} more: -v shows all")
        lines.append(f"          if that is meant:   agentreplay lock {quoted(folder)}")
    if lines and fails:
        lines.append("          the session fails for it: CI is set, or the mode was typed")
    return lines
