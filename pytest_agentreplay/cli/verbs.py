"""What all verbs share: the table that `agentreplay --help` prints, their parsers, exit codes, and how they print.

A new verb is named in a row of HELP here; its module declares its arguments in `add_verbs(verbs)`.
"""

from __future__ import annotations

import argparse
import json
import os
import pydoc
import shutil
import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.report import terminal
from pytest_agentreplay.report.escape import escape_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.console import Console, RenderableType

    Run = Callable[[argparse.Namespace], int]


USAGE_LINE = "usage: agentreplay VERB ... | --version   agentreplay VERB --help: its arguments"
HELP = (  # group, verbs, what they do (at most 48 characters), their modules
    ("start", "init", "write the settings that a project needs", "initializing"),
    ("", "demo", "record, replay and diverge, without a key", "runs"),
    ("look at runs", "ls stats", "what is recorded: a list; tokens, cost and age", "listing"),
    ("", "show", "one run: transcript, turn by turn, replay kit", "showing"),
    ("", "diff", "where two runs differ: everywhere, or first", "runs"),
    ("", "html", "a page: a run, two runs, or all of a project", "showing"),
    ("review changes", "accept review", "take pending runs, requests, edits; walk them", "accepting reviewing"),
    ("", "summarize audit", "what a branch changes; which fields are ignored", "reviewing stale_checks"),
    ("run again", "replay", "the test of a snapshot, or cases, offline", "replaying"),
    ("", "serve run", "a snapshot answers a program; capture one", "programs"),
    ("", "mcp", "a server for coding agents: look and replay", "mcp_server"),
    ("", "fuzz vacuity", "try changed recordings; find unchecked replies", "fuzzing"),
    ("live", "compare", "the same tests with another model or prompt", "live_commands"),
    ("", "lineup drift", "which layer drifts; live runs over time", "live_commands"),
    ("cases", "scaffold", "make one of a test, a run, a trace or a bundle", "casework"),
    ("", "lint", "what is wrong with cases, or with a policy", "case_files"),
    ("", "cluster", "group kept failures by their cause", "replaying"),
    ("", "export", "for another tool, or as one file to share", "case_files"),
    ("files", "verify", "check files for edits; lock and sign them", "snapshot_files"),
    ("", "redact scan", "remove secrets and personal data; find them", "redacting"),
    ("", "mv prune stale", "renamed tests; unused files; outdated files", "snapshot_files stale_checks"),
)
MODULES = {verb: modules for _, verbs, _, modules in HELP for verb in verbs.split()}


class Verb(argparse.ArgumentParser):
    """The parser of a verb, with short words for the usual kinds of arguments."""

    def flag(self, name: str, about: str) -> None:
        """Add an option without a value."""
        self.add_argument(name, action="store_true", help=about)

    def value(self, name: str, metavar: str, about: str, **more: Any) -> None:
        """Add an argument with a value."""
        self.add_argument(name, metavar=metavar, help=about, **more)

    def paths(self, about: str, *, exist: bool = True) -> None:
        """Add the paths that it works on: any number, and each must be there, unless `exist` is False."""
        self.add_argument("paths", nargs="*", type=Path, metavar="PATH", help=about)
        self.set_defaults(exist=exist)


class Verbs(dict[str, Verb]):
    """The parsers of verbs, by their names."""

    def add(self, name: str, run: Run, about: str, *, json: bool = False, policy: bool = False, **more: Any) -> Verb:
        """Add a verb; `more` are its defaults: `failure` is its exit code where input or settings are not right."""
        parser = Verb(prog=f"agentreplay {name}", description=f"{about[0].upper()}{about[1:]}.")
        parser.set_defaults(run=run, verb=name, **{"failure": USAGE, **more})
        if json:
            parser.flag("--json", "print plain data")
        if policy:
            about = "pii, strict or a file, beside the project's"
            parser.add_argument("--policy", action="append", metavar="WHAT", help=about)
        self[name] = parser
        return parser


def load_verbs(names: Iterable[str] = MODULES) -> Verbs:
    """Return the parsers of these verbs, in their order; only their modules are imported."""
    verbs = Verbs()
    names = [*names]
    for module in dict.fromkeys(module for name in names for module in MODULES[name].split()):
        import_module(f"pytest_agentreplay.cli.{module}").add_verbs(verbs)
    return Verbs((name, verbs[name]) for name in names)


def format_help() -> str:
    """Return the verbs by what a person wants to do, on one screen."""
    return "\n".join([USAGE_LINE, "", *(f"{group:15} {verbs:15} {about}" for group, verbs, about, _ in HELP)])


def explain_unknown(word: str) -> str:
    """Return what to type for a word that is no verb."""
    near = get_close_matches(word, MODULES, n=3)
    return f"there is no verb {word!r}; " + (
        f"the nearest: {', '.join(near)}" if near else "agentreplay --help lists all"
    )


SAME, DIVERGED, USAGE, INCONCLUSIVE, DAMAGED, NOTHING, CANNOT = 0, 1, 2, 3, 4, 5, 125
"""Same or done; diverged or failed; usage; inconclusive; damaged or tampered; nothing to do; cannot run."""
INTERRUPTED = 130


def complain(error: Exception | str, code: int) -> int:
    """Print an error on stderr; return `code`."""
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


def show_result(options: argparse.Namespace, data: Any, lines: Iterable[str], words: Iterable[str]) -> int:
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
