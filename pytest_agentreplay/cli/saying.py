"""What every verb says alike: exit codes, errors in a line, recorded text made safe."""

from __future__ import annotations

import json
import os
import pydoc
import shutil
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.report import terminal
from pytest_agentreplay.report.escape import escape_output

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from rich.console import Console, RenderableType

SAME, DIVERGED, USAGE, INCONCLUSIVE, DAMAGED, NOTHING, CANNOT = 0, 1, 2, 3, 4, 5, 125
"""Same or done; diverged or failed; usage; inconclusive; damaged or tampered; nothing to do; cannot run."""
INTERRUPTED = 130


def complain(error: Exception | str, code: int) -> int:
    """Say an error on stderr; gives `code`."""
    sys.stdout.flush()
    print(f"agentreplay: {escape_output(str(error))}", file=sys.stderr)
    return code


def say(text: str) -> None:
    """Print what may hold recorded text."""
    print(escape_output(text))


def say_drawn(console: Console, *parts: RenderableType, pages: bool = False) -> None:
    """Print what rich draws; `pages` through a pager, if this is a terminal and the text is longer than it."""
    text = terminal.render(console, *parts)
    watched = sys.stdout.isatty() and sys.stdin.isatty() and not os.environ.get("CI")
    if pages and watched and text.count("\n") >= console.height:
        os.environ.setdefault("LESS", "FRX")  # keep the colours, leave at once what fits, as git has it
        pydoc.pager(text)
    else:
        sys.stdout.write(text)


def say_data(data: Any) -> None:
    """Print plain data as JSON; what a CI server would obey in a text is escaped as JSON has it."""
    print(json.dumps(data, indent=2).replace("##", "#\\u0023"))


def show_result(options: Namespace, data: Any, lines: Iterable[str], words: Iterable[str]) -> int:
    """Print the lines, or with --json the data; return the exit code for what the words say."""
    if options.json:
        say_data(data)
    else:
        say("\n".join(lines))
    every = {*words}
    return DIVERGED if every & {"drifted", "worse"} else INCONCLUSIVE if "inconclusive" in every else SAME


def width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size((80, 24)).columns
