"""`agentreplay drift`: the history of live runs as a table with a plot, as plain data, and as a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import NOTHING, SAME, complain, say, say_data, width
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    import argparse


def drift(options: argparse.Namespace) -> int:
    """`agentreplay drift [FILE|FOLDER ...] [--test ID] [--by model|date] [--html FILE] [--json]`."""
    from pytest_agentreplay.live import history
    from pytest_agentreplay.report import live_trend
    from pytest_agentreplay.store import files

    own = root_above(Path.cwd()) / history.FILE
    places = options.paths or [own] * files.exists(own)
    runs = [run for run in history.read(places) if options.test in run.test]
    rows = live_trend.build_rows([run for run in runs if "L" in run.cell and not run.stopped], options.by)
    if not rows:
        command = "pytest --replay=live" + f" {options.test}" * bool(options.test)
        return complain(f"there is no live run in the history. To make one:\n  {command}", NOTHING)
    if options.html:
        files.write_whole(options.html, live_trend.format_page(rows))
    if options.json:
        say_data({"rows": rows})
    else:
        say("\n".join(live_trend.format_trend(rows, width(), sys.stdout.encoding)))
    return SAME
