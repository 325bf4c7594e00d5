"""What rich draws: text and tables in the width of a terminal, in colour where that is wanted, and progress.

Text must have passed `escape` before it comes here. Nothing in it is taken for markup, emoji or a link.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import contextmanager
from itertools import groupby
from typing import IO, TYPE_CHECKING

from pytest_agentreplay.report.escape import escape_line, escape_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import Console, RenderableType

    StyledLine = list[tuple[str, str]]
    """Texts of one line, escaped, each with its style as terminals take it: "31;7" is red and inverse, "" plain."""

WIDE = 10_000
STYLES = {"passed": "green", "failed": "red", "unreadable": "red", "not known": "dim"}
"""Cells that stand out."""
FIRST = 24
"""Columns that the first column of a table needs."""


def wants_colour(file: IO[str]) -> bool:
    """Return whether what `file` gets has colours: as pytest's `--color=auto` decides, but not in CI."""
    # https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/_io/terminalwriter.py#L30
    environ = os.environ
    if environ.get("PY_COLORS") in {"0", "1"}:
        return environ["PY_COLORS"] == "1"
    if environ.get("NO_COLOR") or environ.get("FORCE_COLOR"):
        return not environ.get("NO_COLOR")
    return file.isatty() and environ.get("TERM") not in {"dumb", "unknown"} and not environ.get("CI")


def open_console(file: IO[str] | None = None, *, width: int | None = None, plain: bool = False) -> Console:
    """Return the console that writes to `file` (stdout); no style if `plain`, or where no colour is wanted."""
    from rich.console import Console

    size = shutil.get_terminal_size((80, 24))
    file = file or sys.stdout
    colour = not plain and wants_colour(file)
    return Console(
        file=file,
        width=width or size.columns,
        height=size.lines,
        color_system=None if not colour else "auto" if file.isatty() else "standard",
        no_color=not colour,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,  # it writes past `file`, and every console of Windows 10 takes escapes
    )


def paint(line: StyledLine, *, colour: bool) -> str:
    """Return a line as it is printed; one that a CI server would obey has no colour, and its mark broken."""
    plain = "".join(text for text, _ in line)
    printed = escape_output(plain)
    if not colour or printed != plain:
        return printed
    runs = [("".join(text for text, _ in run), style) for style, run in groupby(line, lambda part: part[1])]
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if style and text else text for text, style in runs)


def render(console: Console, *parts: RenderableType) -> str:
    """Return the parts as `console` shows them. Where it has no style, no line is a command to a CI server."""
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str), crop=False)
    # Tables fill each line with spaces up to the width, which nobody wants in a file.
    text = "\n".join(line.rstrip() for line in captured.get().split("\n"))
    return text if console.color_system else escape_output(text)


def spell_cells(head: Iterable[str], cells: Iterable[object]) -> str:
    """Return the cells of a row in words: "turns 3, calls 5"."""
    return ", ".join(f"{name} {escape_line(str(cell))}" for name, cell in zip(head, cells, strict=True) if cell != "")


def make_text(text: str) -> RenderableType:
    """Return a sentence that goes on in the next line, at a space."""
    from rich.text import Text

    return Text(escape_line(text))


def make_table(
    head: Sequence[str], rows: Iterable[Sequence[object]], width: int, *, left: int = 1, spare: Sequence[str] = ()
) -> RenderableType:
    """Return a table without lines, whose first `left` columns are texts; the first one goes on below itself.

    Where `width` columns do not take it, the `spare` columns are left out, one after the other; where that is not
    enough, each row is its first cell, whole so that an id can be copied, and below that all others with their names.
    """
    from rich.cells import cell_len
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    # Escaped here, whatever the caller has done: escaping twice changes nothing.
    cells = [[escape_line(str(cell)) for cell in row] for row in rows]
    widths = {name: max(map(cell_len, (name, *column))) for name, *column in zip(head, *cells, strict=True)}
    longest = max(cell_len(piece) for name, *_ in cells for piece in split_name(name)) if cells else 0
    first = max(min(widths.pop(head[0]), FIRST), longest)
    # Cells beside the first are never cut: a number without its end is another number.
    while (too_wide := sum(widths.values()) + 2 * len(widths) + first > width) and any(map(widths.get, spare)):
        del widths[next(name for name in spare if name in widths)]
    if too_wide:
        parts: list[RenderableType] = []
        for name, *facts in cells:
            text = Text(spell_cells(head[1:], facts), overflow="fold")
            parts += [Text(name, "bold", no_wrap=True, overflow="ignore"), Padding(text, (0, 0, 0, 2))]
        return Group(*parts)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    columns = [at for at, name in enumerate(head) if at == 0 or name in widths]
    for at in columns:
        table.add_column(head[at], justify="left" if at < left else "right", no_wrap=at > 0, overflow="fold")
    room = width - sum(widths.values()) - 2 * len(widths)
    for name, *facts in cells:
        row = [wrap_name(name, room), *facts]
        table.add_row(*(Text(row[at], STYLES.get(row[at], "")) for at in columns))
    if len(columns) == len(head):
        return table
    omitted = ", ".join(name for at, name in enumerate(head) if at not in columns)
    return Group(table, Text(f"not shown in {width} columns: {omitted}", "dim"))


def wrap_name(name: str, width: int) -> str:
    """Return a name in lines of at most `width` characters, as far as its pieces are not longer."""
    lines = [""]
    for piece in split_name(name):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def split_name(name: str) -> list[str]:
    """Return the parts of an id or path, which stay whole to be copied, and the words of a reason behind it."""
    name, mark, reason = name.partition(": ")
    return [*re.split("(?<=/)|(?<=::)", name + mark), *re.split("(?<= )", reason)]


def draw_rows(head: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> list[str]:
    """Return the lines of such a table, however wide and without style: one for the head, and one for each row."""
    console = open_console(width=WIDE, plain=True)
    return render(console, make_table(head, rows, WIDE, left=left)).splitlines()


@contextmanager
def show_progress(total: float, *, few: int = 0) -> Iterator[Callable[[float, str], None]]:
    """Show a bar on stderr for the block, if that is a terminal and there are more than `few` steps.

    Gives a function that takes how much is done, and a text beside the bar.
    """
    if total <= few or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import BarColumn, Progress, TextColumn

    text = TextColumn("{task.description}", markup=False)
    with Progress(BarColumn(20), text, console=open_console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=escape_line(text))
