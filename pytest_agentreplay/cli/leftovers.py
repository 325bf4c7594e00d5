"""The verb about snapshots whose test has another name now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import SAME, say
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    import argparse


def mv(options: argparse.Namespace) -> int:
    """`agentreplay mv OLD NEW`."""
    from pytest_agentreplay.workflow.moving import Project, move

    here = Path.cwd()
    for line in move(Project.at(root_above(here), here), options.old, options.new):
        say(line)
    return SAME
