"""The processes of pytest that commands of ours start: `addopts` of the project choose nothing of what they do.

A flag of ours in `addopts` is for the sessions that people start. One that records, beside the mode that a command asks
for, would end that command with an error, and others would have it write what nobody asked for.
"""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from pytest_agentreplay.settings.table import list_options
from pytest_agentreplay.snapshots.store.projects import read_settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

# Flags of ours in `addopts` that hold for every replay of a project; all others choose what a session does.
OF_REPLAYS = frozenset({"--redact", "--strict-keys", "--agentreplay-checks", "--agentreplay-sandbox"})
# A live run keeps those too that say what it may ask of models, and what it compares.
OF_LIVE_RUNS = OF_REPLAYS | {"--replay-budget", "--replay-runs", "--replay-set", "--replay-tools", "--agentreplay-html"}


def prepare_pytest(root: Path, words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command line of a pytest of ours for the project at `root`, and its variables."""
    kept = OF_LIVE_RUNS if "--agentreplay-mode=live" in words else OF_REPLAYS
    return [sys.executable, "-m", "pytest", *words], leave_out_flags(os.environ, root, kept)


def leave_out_flags(environ: Mapping[str, str], root: Path, kept: Collection[str] = OF_REPLAYS) -> dict[str, str]:
    """Return variables for a pytest of ours: of our flags in both `addopts` only the `kept` ones hold there."""
    written = read_settings(root)[0].get("addopts") or ""
    of_project = written if isinstance(written, list) else shlex.split(str(written))
    words = drop_own_flags(shlex.split(environ.get("PYTEST_ADDOPTS", "")), kept)
    if (rest := drop_own_flags(of_project, kept)) != of_project:
        words += ["-o", f"addopts={shlex.join(rest)}"]
    return {**environ, "PYTEST_ADDOPTS": shlex.join(words)}


def drop_own_flags(words: Iterable[str], kept: Collection[str]) -> list[str]:
    """Return the words of an `addopts` without the flags of ours that are not `kept`, and without that of syrupy."""
    flags = {**dict(list_options()), "--snapshot-update": {"action": "store_true"}}
    rest, others = iter(words), []
    for word in rest:
        flag, mark, _ = word.partition("=")
        if flag not in flags or flag in kept:
            others.append(word)
        elif flags[flag].get("action") != "store_true" and not mark:
            next(rest, None)
    return others
