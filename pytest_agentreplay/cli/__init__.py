"""The command line. `agentreplay VERB ...`, also `python -m pytest_agentreplay`.

`verbs` has the table of verbs and what they share. Each verb takes the parsed options and returns the exit code.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from pytest_agentreplay.cli import verbs
from pytest_agentreplay.errors import AgentReplayError, CaseError, RunnerError, SnapshotError, SnapshotMissing
from pytest_agentreplay.snapshots.store import format_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["main", "parse_words", "script"]

READING = frozenset({"case cluster", "diff", "html", "ls", "redact", "show", "verify"})
"""Verbs that take the URL of captured runs; `redact` only with --dry-run. `case new` reads those of some days."""
DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG}
"""What a disk answers that does not take the output. Errors of the files of a command name the file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Raises SystemExit for arguments that a verb does not take."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--version"]:
        from importlib.metadata import version

        verbs.say(f"agentreplay {version('frozen-agentreplay')}")
        return verbs.Exit.SAME
    group = words[0] if words and verbs.is_group(words[0]) else ""
    after = words[1:] if group else words
    if not after or after[0] in {"-h", "--help"}:
        verbs.say(verbs.format_help(group))
        return verbs.Exit.SAME if after else verbs.Exit.USAGE
    if (verb := verbs.split_verb(words)[0]) not in verbs.MODULES:
        return verbs.complain(verbs.explain_unknown(verb))
    try:
        words = fetch_words(words)
    except AgentReplayError as error:
        return verbs.complain(error)
    options = parse_words(words)
    for path in options.paths if getattr(options, "exist", False) else ():
        if not os.path.lexists(path):
            return verbs.complain(f"there is no {format_path(path)}")
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except SnapshotMissing as error:
        return verbs.complain(error, verbs.Exit.CANNOT if options.verb == "replay" else verbs.Exit.USAGE)
    except (CaseError, SnapshotError) as error:
        return verbs.complain(error, verbs.Exit.DAMAGED)
    except RunnerError as error:
        return verbs.complain(error, verbs.Exit.CANNOT)
    except AgentReplayError as error:
        return verbs.complain(error, options.failure)
    except BrokenPipeError:  # the reader of `agentreplay show | head` has left
        drop_output()
        return verbs.Exit.SAME
    except KeyboardInterrupt:
        return verbs.Exit.INTERRUPTED
    return code


def fetch_words(words: list[str]) -> list[str]:
    """Return the words with copies of captured runs for their URLs. Raises SettingsError, SnapshotError."""
    verb, _ = verbs.split_verb(words)
    writes = verb == "redact" and "--dry-run" not in words
    if verb not in READING or writes or not any(map(is_url, words)):
        return words
    from pytest_agentreplay.snapshots.store.run_store import fetch_runs

    return [str(fetch_runs(word)) if is_url(word) else word for word in words]


def is_url(word: str) -> bool:
    """Return whether a word is the URL of a store or of a run in it."""
    return "://" in word and not word.startswith("-")


def parse_words(words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line that begins with a verb. Raises SystemExit for others, and for `--help`."""
    verb, words = verbs.split_verb(words)
    command: list[str] = []
    if verb in {"serve", "check fuzz", "run"} and "--" in words:  # argparse wants flags before the file, people do not
        cut = words.index("--")
        words, command = words[:cut], words[cut + 1 :]
    if verb == "replay":
        from pytest_agentreplay.cli.replaying import split

        words, command = split(words)
    options = verbs.load_verbs([verb])[verb].parse_args(words)
    if command:
        options.command = command
    return options


def script() -> NoReturn:
    """Run the console script. What a console cannot show (a Windows code page) is shown escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = main()
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in DISK_ERRORS or error.filename is not None:
            raise
        drop_output()
        reason = f"{os.strerror(error.errno).lower()}; write it to another disk, or free some space"
        code = verbs.complain(f"the output cannot be written: {reason}", verbs.Exit.USAGE)
    sys.exit(code)


def drop_output() -> None:
    """Let what is left of the output go nowhere: Python's last flush would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
