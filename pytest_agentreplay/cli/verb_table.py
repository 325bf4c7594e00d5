"""The verbs as `agentreplay --help` groups them, and the modules that have them.

A new verb is named in a row of HELP here; its module declares its arguments in `add_verbs(verbs)`.
"""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.old_names import OLD_NAMES
from pytest_agentreplay.cli.saying import USAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

USAGE_LINE = "usage: agentreplay VERB ... | --version   agentreplay VERB --help: its arguments"
HELP = (  # group, verbs, what they do (at most 48 characters), their modules
    ("start", "init", "write the settings that a project needs", "initializing"),
    ("", "demo", "record, replay and diverge, without a key", "runs"),
    ("look at runs", "show", "one run: transcript, turn by turn, replay kit", "runs"),
    ("", "diff", "where two runs differ: everywhere, or first", "runs"),
    ("", "stats", "what cases that cannot be replayed lack", "stats"),
    ("review changes", "accept review", "take pending runs, requests, edits; walk them", "accepting reviewing"),
    ("", "summarize audit", "what a branch changes; which fields are ignored", "summarizing auditing"),
    ("run again", "replay", "the test of a snapshot, or cases, offline", "replaying"),
    ("", "serve", "answer any process from a snapshot", "serving"),
    ("", "fuzz vacuity", "try changed recordings; find unchecked replies", "fuzzing"),
    ("live", "compare", "the same tests with another model or prompt", "live_commands"),
    ("", "lineup drift", "which layer drifts; live runs over time", "live_commands"),
    ("cases", "scaffold", "make one of a test, snapshot, trace or bundle", "casework"),
    ("", "lint", "what is wrong with cases, or with a policy", "linting"),
    ("", "cluster", "group kept failures by their cause", "replaying"),
    ("", "export", "for another tool, or as one file to share", "exporting"),
    ("files", "verify", "check files for edits; lock and sign them", "locking"),
    ("", "redact scan", "remove secrets and personal data; find them", "redacting"),
    ("", "mv prune stale", "renamed tests; unused files; outdated files", "leftovers stale_checks"),
)
MODULES = {verb: modules for _, verbs, _, modules in HELP for verb in verbs.split()}


class Verbs(dict[str, argparse.ArgumentParser]):
    """The parsers of verbs, by their names."""

    def add(
        self,
        name: str,
        run: Callable[[argparse.Namespace], int],
        about: str,
        *,
        json: bool = False,
        policy: bool = False,
        failure: int = USAGE,
    ) -> argparse.ArgumentParser:
        """Add a verb; `failure` is its exit code for what is not right with its input or settings."""
        parser = argparse.ArgumentParser(prog=f"agentreplay {name}", description=f"{about[0].upper()}{about[1:]}.")
        parser.set_defaults(run=run, verb=name, failure=failure)
        if json:
            parser.add_argument("--json", action="store_true", help="print plain data")
        if policy:
            add_policy(parser)
        self[name] = parser
        return parser


def add_policy(parser: argparse.ArgumentParser) -> None:
    """Add `--policy`."""
    parser.add_argument("--policy", action="append", metavar="WHAT", help="pii, strict or a file, beside the project's")


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
    words = {old.partition(" ")[0]: new for old, new, _ in OLD_NAMES} | {verb: verb for verb in MODULES}
    near = dict.fromkeys(words[name] for name in get_close_matches(word, words, n=3))
    return f"there is no verb {word!r}; " + (
        f"the nearest: {', '.join(near)}" if near else "agentreplay --help lists all"
    )
