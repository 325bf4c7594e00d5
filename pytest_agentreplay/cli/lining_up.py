"""`agentreplay lineup`: which layer makes a run drift, by runs with some layers released, or between two recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.runs import read_pair
from pytest_agentreplay.cli.saying import DIVERGED, SAME, say, say_data, width
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    import argparse


def lineup(options: argparse.Namespace) -> int:
    """`agentreplay lineup A B`."""
    return compare_recordings(Path(options.what), options.other, as_json=options.json)


def compare_recordings(first: Path, second: Path, *, as_json: bool) -> int:
    """Print the layer that made two recordings differ, and what else differs; returns the exit code."""
    from pytest_agentreplay.core.live.changed_layers import changed_layers, kit_changes
    from pytest_agentreplay.dialects import READER
    from pytest_agentreplay.report.findings import compared
    from pytest_agentreplay.report.terminal import text

    a, b, matching = read_pair(first, second)
    changes, around = changed_layers(a, b, READER, matching=matching), kit_changes(a, b, READER)
    findings = [compared(change.divergence, shown(first), shown(second)) for change in changes]
    if as_json:
        rows = [
            {"layer": change.layer, "independent": change.independent, **finding.plain()}
            for change, finding in zip(changes, findings, strict=True)
        ]
        kit = [{"field": name, "recorded": old, "now": new} for name, old, new in around]
        say_data({"guilty": changes[0].layer if changes else None, "layers": rows, "kit": kit})
        return DIVERGED if changes else SAME
    say(f"guilty: {changes[0].layer}" if changes else "no layer is guilty: the two recordings hold the same run")
    for finding in findings[:1]:
        say(f"\n{text(finding, width=width())}\n")
    for change, finding in zip(changes[1:], findings[1:], strict=True):
        why = "on its own: the same call was answered otherwise" if change.independent else "may follow from it"
        say(f"then {change.layer}: {finding.headline} ({why})")
    for name, old, new in around:
        say(f"around it, {name}: {old or '(none)'} -> {new or '(none)'}")
    if changes:
        say(f"next: agentreplay diff {quoted(shown(first))} {quoted(shown(second))}")
    return DIVERGED if changes else SAME
