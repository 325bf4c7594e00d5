"""`agentreplay html`: a page that shows a run, two runs side by side, or all that a project has recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import SAME, USAGE, complain, say
from pytest_agentreplay.cli.showing import find_run
from pytest_agentreplay.runs import pages
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.snapshots.store.projects import root_above

if TYPE_CHECKING:
    import argparse

    from pytest_agentreplay.cli.verb_table import Verbs


def add_verbs(verbs: Verbs) -> None:
    """Declare `html`."""
    html_verb = verbs.add("html", html, "a page that shows a run, two runs side by side, or all of a project")
    html_verb.paths("snapshots, cases or ids of tests, one or two; or a folder (default: the project)", exist=False)
    out = Path("agentreplay.html")
    html_verb.value("--out", "PAGE", "the file to write (default: agentreplay.html)", type=Path, default=out)
    html_verb.flag("--force", "write over a file that is no page of agentreplay")


def html(options: argparse.Namespace) -> int:
    """`agentreplay html FILE | A B | DIR [--out PAGE.html] [--force]`."""
    paths: list[Path] = [find_run(path) for path in options.paths] or [root_above(Path.cwd())]
    folders = [path for path in paths if path.is_dir()]
    if (folders and len(paths) > 1) or len(paths) > 2:
        return complain("a page shows one file, two files side by side, or one folder", USAGE)
    out: Path = options.out
    if not options.force and files.exists(out) and not pages.is_page(out):
        return complain(f"{format_path(out)} is there and no page of agentreplay; --force writes over it", USAGE)
    if folders:
        text = pages.render_index(root_above(paths[0].absolute()), paths)
    elif len(paths) == 2:
        text = pages.render_pair(*paths)
    else:
        text = pages.render_run(paths[0])
    files.write_whole(out, text)
    say(f"wrote {format_path(out)} ({len(text.encode()) / 1e6:.2f} MB)")
    return SAME
