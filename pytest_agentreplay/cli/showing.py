"""The verbs `show` and `html`: a run in a terminal, walked by keys, as data or byte for byte; runs as a page."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, say_data, say_drawn, width
from pytest_agentreplay.errors import SnapshotError, SnapshotMissing
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report import run_view, transcript
from pytest_agentreplay.report.escape import escape_output
from pytest_agentreplay.report.run_stepper import Stepper, describe_run
from pytest_agentreplay.report.terminal import open_console
from pytest_agentreplay.runs import pages
from pytest_agentreplay.runs.snapshot_selection import choose_run, find_run
from pytest_agentreplay.snapshots.store import files, format_path, reading
from pytest_agentreplay.snapshots.store.projects import root_above

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def add_verbs(verbs: Verbs) -> None:
    """Declare `show` and `html`."""
    show_verb = verbs.add("show", show, "print a snapshot as a readable transcript")
    show_verb.value("file", "FILE", "a snapshot, a case's folder, or the id of a test", type=Path)
    show_verb.add_argument("--turn", type=int, help="only this turn, in full; -1 is the last")
    show_verb.ways(
        step="walk it turn by turn, forward and back",
        kit="what a full replay needs, what of it is there, and a grade",
        raw="with --turn: requests and replies, byte for byte",
        plain="for screen readers: each line complete on its own",
        textconv="for git diff: without times, ids and counts of tokens",
    )
    show_verb.flag("--json", "print plain data, with --kit of the kit")
    show_verb.flag("--no-pager", "never page a run that is longer than the terminal")
    html_verb = verbs.add("html", html, "pages that show a run, two runs side by side, or all of a project")
    html_verb.paths("snapshots, cases or ids of tests, one or two; or a folder (default: the project)", exist=False)
    about = "the page, or the folder of pages, to write (default: agentreplay.html, agentreplay-html)"
    html_verb.value("--out", "PATH", about, type=Path)
    html_verb.flag("--force", "write over a file that is no page of agentreplay")


def show(options: Options) -> int:
    """`agentreplay show FILE|CASE|NODEID [--turn N] [--step | --kit | --raw | --plain | --textconv] [--json]`."""
    options.file = choose_run(options.file, options.verb)
    if options.json and (options.step or options.raw or options.plain or options.textconv):
        return complain("--json prints the run or, with --kit, the kit; leave the other form out")
    if options.turn is not None and (options.step or options.kit or options.textconv):
        return complain("--turn does not go with --step, --kit and --textconv, which show the whole run")
    if options.kit:
        return print_kit(options)
    if options.step:
        return step(options)
    if options.textconv:
        return textconv(options.file)
    path = format_path(options.file)
    if options.raw and options.turn is None:
        return complain(f"--raw prints one turn; type: agentreplay show {quote_word(path)} --turn 1 --raw")
    snapshot = reading.load(options.file)
    notes = [*transcript.list_edit_notes(snapshot, path), *snapshot.notes]
    try:
        if options.raw:
            write_raw(run_view.list_raw(snapshot.run, options.turn))
        elif options.json:
            data = describe_run(snapshot.run, options.turn)
            say_data({"file": path, "format": snapshot.version, "sealed": snapshot.sealed, "notes": notes, **data})
        elif options.plain:
            say("\n".join([*notes, *run_view.spell_run(snapshot.run, options.turn)]))
        else:
            console = open_console()
            lines = run_view.format_run(snapshot.run, console, options.turn)
            say_drawn(console, *notes, *lines, pages=not options.no_pager)
    except LookupError as error:
        return complain(f"{path}: {error}")
    return Exit.SAME


def print_kit(options: Options) -> int:
    """`agentreplay show FILE --kit [--json]`."""
    from pytest_agentreplay.compare.kit_fields import make_kit

    snapshot = reading.load(options.file)
    kit = make_kit(snapshot.run, READER, digest=snapshot.digest, sealed=snapshot.sealed)
    if options.json:
        say_data({"file": format_path(options.file), **transcript.dump_kit(kit)})
    else:
        say(f"{format_path(options.file)}\n{transcript.format_kit(kit, width=width())}")
    return Exit.SAME if kit.grade.replays else Exit.CANNOT


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
        sys.stdout.write(escape_output(transcript.write_textconv(reading.load(file))))
    except SnapshotMissing:
        raise
    except SnapshotError:
        sys.stdout.write(escape_output(reading.data(file).decode(errors="replace")))
    return Exit.SAME


def html(options: Options) -> int:
    """`agentreplay html FILE | A B | DIR [--out PATH] [--force]`."""
    paths: list[Path] = [find_run(path, options.verb) for path in options.paths] or [find_root()]
    folders = [path for path in paths if path.is_dir()]
    if (folders and len(paths) > 1) or len(paths) > 2:
        return complain("a page shows one file, two files side by side, or one folder")
    if folders:
        return write_folder(options.out or Path("agentreplay-html"), paths[0], force=options.force)
    out: Path = options.out or Path("agentreplay.html")
    if not options.force and files.exists(out) and not pages.is_page(out):
        return complain(f"{format_path(out)} is there and no page of agentreplay; --force writes over it")
    text = pages.render_pair(*paths) if len(paths) == 2 else pages.render_run(paths[0])
    files.write_whole(out, text)
    say(f"wrote {format_path(out)} ({len(text.encode()) / 1e6:.2f} MB)")
    return Exit.SAME


def write_folder(out: Path, path: Path, *, force: bool) -> int:
    """Write an index of all that lies at or below `path`, and a page for each run, into the folder `out`."""
    if out.suffix == ".html":
        words = quote_word(format_path(path)), quote_word(format_path(out.with_suffix("")))
        return complain(f"a page for each run needs a folder; type: agentreplay html {words[0]} --out {words[1]}")
    say(f"wrote {format_path(pages.write_folder(out, root_above(path.absolute()), [path], force=force))}")
    return Exit.SAME


ARROWS = {"\x1b[C": "n", "\x1b[B": "n", "\x1b[D": "p", "\x1b[A": "p", "\xe0M": "n", "\xe0K": "p"}
"""What terminals send for the arrows: those of ECMA-48, and those of the Windows console."""
WITH_TEXT = {"g": "go to turn ", "/": "/"}
"""Keys after which a line is typed, with its prompt."""


def step(options: Options) -> int:
    """`agentreplay show FILE --step`."""
    snapshot, path = reading.load(options.file), format_path(options.file)
    stepper = Stepper(snapshot.run, width=width())
    if not stepper.count:
        return complain(f"{path}: it has no turn", Exit.NOTHING)
    say("\n".join([*transcript.list_edit_notes(snapshot, path), stepper.show()]))
    with open_keys() as read_key:
        while (command := read_command(read_key)) is not None and (text := stepper.obey(command)) is not None:
            say(f"\n{text}")
    return Exit.SAME


def read_command(read_key: Callable[[], str] | None) -> str | None:
    """Return the next command: by keys in a terminal, else a line; None at the end of the input."""
    if read_key is None:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    key = read_key()
    if not key:  # the terminal is gone
        return None
    if key in WITH_TEXT:
        try:
            return f"{key} {input(WITH_TEXT[key])}" if key == "g" else f"/{input('/')}"
        except EOFError:
            return None
    return "q" if key in {"\x03", "\x04"} else ARROWS.get(key, key.strip())


@contextmanager
def open_keys() -> Iterator[Callable[[], str] | None]:
    """Give what reads one key without Enter, for the block; None where the input is no terminal."""
    if not sys.stdin.isatty():
        yield None
    elif sys.platform == "win32":
        import msvcrt

        def read_console() -> str:
            key = msvcrt.getwch()
            return key + msvcrt.getwch() if key in {"\x00", "\xe0"} else key

        yield read_console
    else:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)

        def read_terminal() -> str:
            tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # keys that were typed ahead are kept
            try:
                key = sys.stdin.read(1)
                return key + sys.stdin.read(2) if key == "\x1b" else key
            finally:  # a line that is typed next is shown, and can be corrected
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

        yield read_terminal
