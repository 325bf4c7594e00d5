"""The verb that tells a case in the form of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.case_files import export as exporting
from pytest_agentreplay.cli.saying import SAME, say
from pytest_agentreplay.interchange.exporting import TARGETS
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.store.display_path import format_path

if TYPE_CHECKING:
    import argparse

TO = tuple(TARGETS)


def export(options: argparse.Namespace) -> int:
    """`agentreplay export CASE --to TARGET [-o FILE] [--force]`."""
    out = exporting.exported(options.case, options.to)
    where = options.out if options.out is not None else Path()
    written = exporting.write(exporting.place(out, where), force=options.force)
    for file, changed in written:
        say(escape_line(f"{format_path(file)}: {'written' if changed else 'unchanged'}"))
    for loss in out.losses:
        say(escape_line(f"    lost: {loss}"))
    return SAME
