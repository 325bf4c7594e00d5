"""`agentreplay stats`: what a project's files hold, counted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.casework import CASES
from pytest_agentreplay.cli.saying import NOTHING, SAME, USAGE, complain, say, say_data
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    import argparse

    from pytest_agentreplay.cli.verb_table import Verbs


def add_verbs(verbs: Verbs) -> None:
    """Declare `stats`."""
    about = "count what cases that cannot be replayed lack, and rank what to capture next"
    stats_verb = verbs.add("stats", count_cold, about, json=True)
    stats_verb.add_argument("--cold", action="store_true", required=True, help="cases that cannot be replayed")
    stats_verb.paths("cases, or folders (default: cases)")
    stats_verb.add_argument("--by", choices=["model", "hour", "tenant", "tool"], help="count them by this, too")


def count_cold(options: argparse.Namespace) -> int:
    """`agentreplay stats --cold [PATH...] [--by model|hour|tenant|tool] [--json]`."""
    from pytest_agentreplay.case_files.failures import survey

    places = options.paths or [root_above(Path.cwd()) / CASES]
    if missing := [path for path in options.paths if not os.path.lexists(path)]:
        return complain(f"there is no {format_path(missing[0])}", USAGE)
    found = survey(places, options.by)
    for why in found.unread:
        complain(why, SAME)
    if options.json:
        say_data(found.plain())
    else:
        for line in found.lines():
            say(line)
    return SAME if found.cold else complain(f"no case in {', '.join(map(format_path, places))} is cold", NOTHING)
