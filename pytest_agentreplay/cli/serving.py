"""`agentreplay serve`: a recorded snapshot for any process, in whatever language."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import CANNOT, DIVERGED, NOTHING, SAME, USAGE, complain, width
from pytest_agentreplay.report.escape import escape_output
from pytest_agentreplay.snapshots.store.display_path import format_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from types import FrameType

    from pytest_agentreplay.cli.verb_table import Verbs
    from pytest_agentreplay.runs.snapshot_server import SnapshotServer


def add_verbs(verbs: Verbs) -> None:
    """Declare `serve`."""
    serve_verb = verbs.add("serve", serve, "answer any process, in whatever language, from a snapshot", failure=CANNOT)
    port = "listen on this port of 127.0.0.1 (default: a free one)"
    serve_verb.add_argument("--port", type=int, default=0, help=port)
    serve_verb.add_argument("file", type=Path, metavar="FILE")
    serve_verb.add_argument("command", nargs="*", metavar="-- COMMAND", help="run this with the variables set")


def serve(options: argparse.Namespace) -> int:
    """`agentreplay serve FILE [--port N] [-- COMMAND ...]`."""
    from pytest_agentreplay.runs.snapshot_server import SnapshotServer
    from pytest_agentreplay.snapshots.store.projects import root_above
    from pytest_agentreplay.snapshots.store.reading import load

    snapshot = load(options.file)
    file = options.file.absolute()
    try:
        serving = SnapshotServer(snapshot, file, root_above(file), port=options.port)
    except (OSError, OverflowError) as error:
        return complain(f"cannot listen on port {options.port}: {error}", USAGE)
    with serving:
        if options.command:
            code = run(options.command, serving.env)
        else:
            for name, value in serving.env.items():
                print(f"set {name}={value}" if os.name == "nt" else f"export {name}={shlex.quote(value)}")
            tell(f"serving {format_path(options.file)} at {serving.url} until Ctrl-C")
            sys.stdout.flush()
            wait()
            code = SAME
    return code if code == CANNOT else summary(serving) or code


def run(command: list[str], environ: Mapping[str, str]) -> int:
    """Run a command with the variables set; 0, 1 where it fails, 125 where it cannot be started."""
    try:
        done = subprocess.run(command, env={**os.environ, **environ}, check=False)  # noqa: S603  the user's own words
    except OSError as error:
        return complain(f"cannot run {command[0]}: {error}", CANNOT)
    if done.returncode:
        return complain(f"{command[0]} has ended with {done.returncode}", DIVERGED)
    return SAME


def wait() -> None:
    """Until somebody types Ctrl-C, or ends the process."""

    def leave(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, leave)
    try:
        while True:
            threading.Event().wait(3600)
    except KeyboardInterrupt:
        pass


def summary(serving: SnapshotServer) -> int:
    """Say what was served, what was not asked for and where it parted; returns the exit code."""
    from pytest_agentreplay.report.finding import format_finding

    served, missing, found = serving.served, serving.missing, serving.find_divergence()
    tell(f"served {served} call{'' if served == 1 else 's'}, {missing} not asked for")
    if not served and found is None:
        return NOTHING
    if found is None:
        return SAME
    tell(format_finding(found, width=width()))
    return DIVERGED


def tell(words: str) -> None:
    """Say something to people: what a shell or a pipe reads stands alone on the other stream."""
    print(escape_output(words), file=sys.stderr, flush=True)
