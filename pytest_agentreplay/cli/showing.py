"""`agentreplay show`: a run as a transcript in a terminal, a fact a line, as data, or byte for byte."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cli.saying import CANNOT, SAME, USAGE, complain, say, say_data, say_drawn, width
from pytest_agentreplay.errors import SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import run_view, transcript
from pytest_agentreplay.report.escape import escape_output
from pytest_agentreplay.report.run_data import describe_run
from pytest_agentreplay.report.terminal import open_console
from pytest_agentreplay.runs.snapshot_selection import select_snapshots
from pytest_agentreplay.snapshots.store import files, layout, reading
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from pytest_agentreplay.cli.verb_table import Verbs


def add_verbs(verbs: Verbs) -> None:
    """Declare `show`."""
    show_verb = verbs.add("show", show, "print a snapshot as a readable transcript")
    about = "a snapshot, a case's folder, or the id of a test"
    show_verb.add_argument("file", type=Path, metavar="FILE", help=about)
    show_verb.add_argument("--turn", type=int, help="only this turn, in full; -1 is the last")
    ways = show_verb.add_mutually_exclusive_group()
    ways.add_argument("--step", action="store_true", help="walk it turn by turn, forward and back")
    ways.add_argument("--kit", action="store_true", help="what a full replay needs, what of it is there, and a grade")
    ways.add_argument("--raw", action="store_true", help="with --turn: requests and replies, byte for byte")
    ways.add_argument("--plain", action="store_true", help="for screen readers: each line complete on its own")
    ways.add_argument("--textconv", action="store_true", help="for git diff: without times, ids and counts of tokens")
    show_verb.flag("--json", "print plain data, with --kit of the kit")
    show_verb.flag("--no-pager", "never page a run that is longer than the terminal")


def show(options: argparse.Namespace) -> int:
    """`agentreplay show FILE|CASE|NODEID [--turn N] [--step | --kit | --raw | --plain | --textconv] [--json]`."""
    options.file = choose_run(find_run(options.file))
    if options.json and (options.step or options.raw or options.plain or options.textconv):
        return complain("--json prints the run or, with --kit, the kit; leave the other form out", USAGE)
    if options.turn is not None and (options.step or options.kit or options.textconv):
        return complain("--turn does not go with --step, --kit and --textconv, which show the whole run", USAGE)
    if options.kit:
        return print_kit(options)
    if options.step:
        from pytest_agentreplay.cli.stepping import step

        return step(options)
    if options.textconv:
        return textconv(options.file)
    path = format_path(options.file)
    if options.raw and options.turn is None:
        return complain(f"--raw prints one turn; type: agentreplay show {quoted(path)} --turn 1 --raw", USAGE)
    snapshot = reading.load(options.file)
    notes = [*snapshot.notes]
    if not snapshot.sealed:
        notes.append(f"this snapshot was edited after it was recorded; agentreplay verify {path} says where")
    try:
        if options.raw:
            write_raw(run_view.list_raw(snapshot.run, options.turn))
        elif options.json:
            data = describe_run(snapshot.run, options.turn)
            say_data({"file": path, "format": snapshot.version, "sealed": snapshot.sealed, "notes": notes, **data})
        elif options.plain:
            say("\n".join([*run_view.spell_run(snapshot.run, options.turn), *(f"note: {note}" for note in notes)]))
        else:
            console = open_console()
            lines = run_view.format_run(snapshot.run, console, options.turn)
            say_drawn(console, *lines, *(f"\nnote: {note}" for note in notes), pages=not options.no_pager)
    except LookupError as error:
        return complain(f"{path}: {error}", USAGE)
    return SAME


def print_kit(options: argparse.Namespace) -> int:
    """`agentreplay show FILE --kit [--json]`."""
    from pytest_agentreplay.snapshots.kit import kit_of

    snapshot = reading.load(options.file)
    kit = kit_of(snapshot.run, READER, digest=snapshot.digest, sealed=snapshot.sealed)
    if options.json:
        say_data({"file": format_path(options.file), **transcript.dump_kit(kit)})
    else:
        say(f"{format_path(options.file)}\n{transcript.format_kit(kit, width=width())}")
    return SAME if kit.grade.replays else CANNOT


def find_run(path: Path) -> Path:
    """Return the file that a path means: itself, the run of a case by its folder or file, or a snapshot by a test's id.

    Raises SettingsError for an id that none or several have.
    """
    if files.exists(path / FILE):
        return path / RUN
    if path.name == FILE:
        return path.with_name(RUN)
    if "::" not in str(path) or files.exists(path):
        return path
    chosen = select_snapshots([path.as_posix()], Path.cwd())
    if len(chosen) > 1:
        raise SettingsError(f"{path} is {len(chosen)} snapshots; name one: {', '.join(map(format_path, chosen))}")
    return chosen[0]


def choose_run(path: Path) -> Path:
    """Return the one run of a store of captured runs, and any other path as it is. Raises SettingsError for several."""
    runs = files.below(path, layout.RUN_SUFFIX) if path.is_dir() else []
    if len(runs) > 1:
        name = format_path(path)
        raise SettingsError(f"{name}: holds {len(runs)} captured runs; to list them: agentreplay ls {quoted(name)}")
    return runs[0] if runs else path


def write_raw(parts: Iterable[bytes]) -> None:
    """Write bytes as they are, or to a terminal what is safe to show of them."""
    data = b"".join(parts)
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        say(data.decode("utf-8", "backslashreplace"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def textconv(file: Path) -> int:
    """Print a snapshot for `git diff`. One that cannot be read is printed as it is: git shows no diff if this fails."""
    try:
        sys.stdout.write(escape_output(transcript.write_textconv(reading.load(file).run)))
    except SnapshotMissing:
        raise
    except SnapshotError:
        sys.stdout.write(escape_output(reading.data(file).decode(errors="replace")))
    return SAME
