"""What a session says of snapshots that no test used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.paths import near, quoted
from pytest_agentreplay.report.session import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = 5
"""Files that are named without -v."""


def unused_lines(found: Mapping[str, Any], *, verbosity: int, here: str, fails: bool) -> list[str]:
    """The lines of the footer; none where nothing is claimed, unless a worker was lost."""
    if found["why"]:
        return [f"unused    not looked for: {found['why']}"] if "lost" in found["why"] else []
    unused = found["unused"]
    if not unused:
        return []
    bound = len(unused) if verbosity > 0 else SHOWN
    lines = [f"unused    {plural(len(unused), 'snapshot')}: no test of this full run used {them(unused)}"]
    lines += [f"          {near(Path(file), Path(here))}" for file, _ in unused[:bound]]
    if len(unused) > bound:
        lines.append(f"          and {len(unused) - bound} more: -v shows all")
    moves = found["moves"]
    lines += [f"          if renamed:   agentreplay mv {quoted(old)} {quoted(new)}" for old, new in moves[:bound]]
    if len(found["held"]) < len(unused):
        lines.append("          to delete what is not needed:   agentreplay prune")
    if fails:
        lines.append("          the session fails for it: agentreplay_unused = fail")
    return lines


def them(things: list[Any]) -> str:
    """The pronoun."""
    return "it" if len(things) == 1 else "them"
