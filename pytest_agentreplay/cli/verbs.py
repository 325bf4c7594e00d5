"""What all verbs share: the table that `agentreplay --help` prints, their parsers, exit codes, and how they print.

A new verb is named in a row of HELP or GROUPS here; its module declares its arguments in `add_verbs(verbs)`.
"""

from __future__ import annotations

import argparse
import json
import os
import pydoc
import shutil
import sys
from difflib import get_close_matches
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.report import terminal
from pytest_agentreplay.report.escape import escape_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console, RenderableType

    Run = Callable[[argparse.Namespace], int]

Options: TypeAlias = argparse.Namespace
"""The parsed arguments of a verb."""


class Exit(IntEnum):
    """How a verb ends."""

    SAME = 0  # nothing differs, or the work is done
    DIVERGED = 1  # runs differ, or something failed
    USAGE = 2
    INCONCLUSIVE = 3
    DAMAGED = 4  # a file is damaged or was edited
    NOTHING = 5  # there is nothing to do
    CANNOT = 125  # it cannot run: by this code `git bisect run` skips a commit
    INTERRUPTED = 130


USAGE_LINE = "usage: agentreplay VERB ... | --version   agentreplay VERB --help: its arguments"
HELP = (  # group, verb, what it does (at most 48 characters), its module; a verb of GROUPS has none
    ("start", "init", "write the settings that a project needs, once shown", "initializing"),
    ("", "demo", "record, replay and diverge, without a key", "runs"),
    ("look at runs", "ls", "what is recorded; its totals; what is out of date", "listing"),
    ("", "show", "one run: transcript, turns, what a replay needs", "showing"),
    ("", "diff", "where two runs differ: everywhere, or first", "runs"),
    ("", "html", "a page: a run, two runs, or all of a project", "showing"),
    ("review changes", "accept", "take pending runs, changed requests, or one rule", "accepting"),
    ("", "review", "walk what waits, and accept it by a key", "reviewing"),
    ("", "summarize", "what a branch changes in recorded runs", "reviewing"),
    ("run again", "replay", "the test of a snapshot, or cases, offline", "replaying"),
    ("", "serve", "answer a program in any language from a snapshot", "programs"),
    ("", "run", "capture a program and its children as one run", "programs"),
    ("", "mcp", "a server for coding agents: look and replay", "mcp_server"),
    ("live", "live", "runs with a real model: compare, lineup, drift", ""),
    ("checks", "check", "what tests miss: audit, assertions, fuzz", ""),
    ("cases", "case", "failures kept as tests: new, lint, cluster, export", ""),
    ("files", "verify", "check that files are whole; seal, recover, lock", "snapshot_files"),
    ("", "redact", "remove what rules and a policy find, or list it", "redacting"),
    ("", "mv", "rename the snapshots of a renamed test or file", "snapshot_files"),
    ("", "prune", "run all tests, delete snapshots that none used", "snapshot_files"),
)
GROUPS = (  # verb, what it does, its module
    ("live compare", "run the same tests with another model, prompt or parameter", "live_commands"),
    ("live lineup", "find which layer makes a run drift: prompt, tool, model, loop", "live_commands"),
    ("live drift", "show what live runs gave over time, by day and model", "live_commands"),
    ("check audit", "find fields that are not compared and yet decide on replies", "auditing"),
    ("check assertions", "find replies of the model that no assertion depends on", "fuzzing"),
    ("check fuzz", "try changed recordings, or other orders; keep what breaks", "fuzzing"),
    ("case new", "make a case: of a test, a run, traces of another tool, a bundle", "casework"),
    ("case lint", "find what is wrong with cases, or with a policy", "case_files"),
    ("case cluster", "group kept failures by their cause, count what a fix has cured", "replaying"),
    ("case export", "write a case for another tool, or as one file to share", "case_files"),
)
MODULES = {verb: module for _, verb, _, module in HELP if module} | {verb: module for verb, _, module in GROUPS}
ABOUT = {verb: about for _, verb, about, _ in HELP} | {verb: about for verb, about, _ in GROUPS}


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

    def ways(self, **about: str) -> None:
        """Add options without a value of which a command line has one at most."""
        group = self.add_mutually_exclusive_group()
        for name, text in about.items():
            group.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=text)


class Verbs(dict[str, Verb]):
    """The parsers of verbs, by their names."""

    def add(
        self, name: str, run: Run, about: str = "", *, json: bool = False, policy: bool = False, **more: Any
    ) -> Verb:
        """Add a verb; `more` are its defaults: `failure` is its exit code where input or settings are not right."""
        about = about or ABOUT[name]
        parser = Verb(prog=f"agentreplay {name}", description=f"{about[0].upper()}{about[1:]}.")
        parser.set_defaults(run=run, verb=name, **{"failure": Exit.USAGE, **more})
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
    for module in dict.fromkeys(MODULES[name] for name in names):
        import_module(f"pytest_agentreplay.cli.{module}").add_verbs(verbs)
    return Verbs((name, verbs[name]) for name in names)


def split_verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the verb of a command line, of one word or two, and what follows it."""
    count = 2 if is_group(words[0]) else 1
    return " ".join(words[:count]), [*words[count:]]


def is_group(word: str) -> bool:
    """Return whether a word is the first of verbs of two words."""
    return any(name.partition(" ")[0] == word for name, _, _ in GROUPS)


def format_help(group: str = "") -> str:
    """Return the verbs by what a person wants to do, on one screen; or those of a group like `case`."""
    if group:
        usage = USAGE_LINE.replace(" | --version", "").replace("VERB", f"{group} VERB")
        rows = [f"{name.partition(' ')[2]:12} {about}" for name, about, _ in GROUPS if name.startswith(f"{group} ")]
        return "\n".join([usage, "", *rows])
    return "\n".join([USAGE_LINE, "", *(f"{group:15} {verb:10} {about}" for group, verb, about, _ in HELP)])


def explain_unknown(words: str) -> str:
    """Return what to type for one or two words that are no verb."""
    group, _, word = words.partition(" ")
    siblings = {name.rpartition(" ")[2]: name for name in ABOUT if name.startswith(f"{group} ")}
    verbs = {word: name for name in ABOUT for word in (name, name.rpartition(" ")[2])}
    near = [siblings[name] for name in get_close_matches(word, siblings, n=3)]
    near = near or [*dict.fromkeys(verbs[name] for name in get_close_matches(words, verbs, n=3))]
    advice = f"the nearest: {', '.join(near)}" if near else "agentreplay --help lists all"
    return f"there is no verb {words!r}; {advice}"


def complain(error: Exception | str, code: int = Exit.USAGE) -> int:
    """Print an error on stderr; return `code`, by default that of a command line that is wrong."""
    sys.stdout.flush()
    print(f"agentreplay: {escape_output(str(error))}", file=sys.stderr)
    return code


def say(text: str) -> None:
    """Print what may hold recorded text."""
    print(escape_output(text))


def say_drawn(console: Console, *parts: RenderableType, pages: bool = False) -> None:
    """Print what rich draws; `pages` through a pager, if this is a terminal and the text is longer than it."""
    text = terminal.render(console, *parts)
    if pages:
        write_pages(text)
    else:
        sys.stdout.write(text)


def write_pages(text: str) -> None:
    """Write a text that is escaped, through a pager where it is longer than the terminal."""
    watched = sys.stdout.isatty() and sys.stdin.isatty() and not os.environ.get("CI")
    if watched and text.count("\n") >= shutil.get_terminal_size().lines:
        os.environ.setdefault("LESS", "FRX")  # keep the colours, leave at once what fits, as git has it
        pydoc.pager(text)
    else:
        sys.stdout.write(text)


def say_data(data: Any) -> None:
    """Print plain data as JSON; what a CI server would obey in a text is escaped as JSON has it."""
    print(json.dumps(data, indent=2).replace("##", "#\\u0023"))


def say_result(options: Options, data: Any, lines: Iterable[str], damaged: Iterable[Exception | str] = ()) -> None:
    """Print the lines, or with --json the data; then what was damaged."""
    if options.json:
        say_data(data)
    else:
        say("\n".join(lines))
    for error in damaged:
        complain(error, Exit.DAMAGED)


def show_result(options: Options, data: Any, lines: Iterable[str], words: Iterable[str]) -> int:
    """Print the lines, or with --json the data; return the exit code for what the words say."""
    say_result(options, data, lines)
    every = {*words}
    return (
        Exit.DIVERGED if every & {"drifted", "worse"} else Exit.INCONCLUSIVE if "inconclusive" in every else Exit.SAME
    )


def width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def find_root() -> Path:
    """Return the root of the project that the working directory lies in."""
    from pytest_agentreplay.snapshots.store.projects import root_above  # the help needs no project

    return root_above(Path.cwd())
