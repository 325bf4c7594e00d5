"""`agentreplay show --step`: a frozen run walked in a terminal by single keys, or by lines where there is none."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import NOTHING, SAME, complain, say, width
from pytest_agentreplay.report.run_stepper import Stepper
from pytest_agentreplay.snapshots.store import reading
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

ARROWS = {"\x1b[C": "n", "\x1b[B": "n", "\x1b[D": "p", "\x1b[A": "p", "\xe0M": "n", "\xe0K": "p"}
"""What terminals send for the arrows: those of ECMA-48, and those of the Windows console."""
WITH_TEXT = {"g": "go to turn ", "/": "/"}
"""Keys after which a line is typed, with its prompt."""


def step(options: argparse.Namespace) -> int:
    """`agentreplay show FILE --step`."""
    stepper = Stepper(reading.load(options.file).run, width=width())
    if not stepper.count:
        return complain(f"{format_path(options.file)}: it has no turn", NOTHING)
    say(stepper.show())
    with open_keys() as read_key:
        while (command := read_command(read_key)) is not None and (text := stepper.obey(command)) is not None:
            say(f"\n{text}")
    return SAME


def read_command(read_key: Callable[[], str] | None) -> str | None:
    """Return the next command: by keys in a terminal, else a line; None at the end of the input."""
    if read_key is None:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    key = read_key()
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
