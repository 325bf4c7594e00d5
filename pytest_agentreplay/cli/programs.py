"""The verbs `serve` and `run`: a program that is answered from a snapshot, and one that is captured as a run."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, width
from pytest_agentreplay.intercept.process.child_start import PYTHON
from pytest_agentreplay.report.escape import escape_output
from pytest_agentreplay.snapshots.store import format_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from pytest_agentreplay.runs.snapshot_server import SnapshotServer


def add_verbs(verbs: Verbs) -> None:
    """Declare `serve` and `run`."""
    serve_verb = verbs.add("serve", serve, failure=Exit.CANNOT)
    port = "listen on this port of 127.0.0.1 (default: a free one)"
    serve_verb.add_argument("--port", type=int, default=0, help=port)
    serve_verb.add_argument("file", type=Path, metavar="FILE")
    serve_verb.value("command", "-- COMMAND", "run this with the variables set", nargs="*", default=[])
    run_verb = verbs.add("run", run)
    about = "failed (default): where it ends with another code than 0; all; or a rate"
    run_verb.value("--keep", "WHICH", about, default="failed")
    run_verb.value("--to", "STORE", "a folder or a URL of fsspec (default: runs)", default="runs")
    run_verb.value("--name", "NAME", "the name of the run (default: that of the program)", default="")
    tool = "a function whose calls are kept: shop.tools.refund, or shop.tools.lookup_order = read"
    run_verb.value("--tool", "LINE", tool, action="append", default=[])
    run_verb.value("command", "-- PROGRAM", "what to run, with its arguments", nargs="*")


def serve(options: Options) -> int:
    """`agentreplay serve FILE [--port N] [-- COMMAND ...]`."""
    from pytest_agentreplay.runs.snapshot_selection import choose_run
    from pytest_agentreplay.runs.snapshot_server import SnapshotServer
    from pytest_agentreplay.snapshots.store.projects import root_above
    from pytest_agentreplay.snapshots.store.reading import load

    options.file = choose_run(options.file, options.verb)
    snapshot = load(options.file)
    file = options.file.absolute()
    try:
        serving = SnapshotServer(snapshot, file, root_above(file), port=options.port)
    except (OSError, OverflowError) as error:
        return complain(f"cannot listen on port {options.port}: {error}")
    with serving:
        if options.command:
            code = run_command(options.command, serving.env)
        else:
            for name, value in serving.env.items():
                print(f"set {name}={value}" if os.name == "nt" else f"export {name}={shlex.quote(value)}")
            print_notice(f"serving {format_path(options.file)} at {serving.url} until Ctrl-C")
            sys.stdout.flush()
            wait()
            code = Exit.SAME
    return code if code == Exit.CANNOT else report_served(serving) or code


def run_command(command: list[str], environ: Mapping[str, str]) -> int:
    """Run a command with the variables set; 0, 1 where it fails, 125 where it cannot be started."""
    try:
        done = subprocess.run(command, env={**os.environ, **environ}, check=False)  # noqa: S603  the user's own words
    except OSError as error:
        return complain(f"cannot run {command[0]}: {error}", Exit.CANNOT)
    if done.returncode:
        return complain(f"{command[0]} has ended with {done.returncode}", Exit.DIVERGED)
    return Exit.SAME


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


def report_served(serving: SnapshotServer) -> int:
    """Print what was served, what was not asked for and where the calls diverged; return the exit code."""
    from pytest_agentreplay.report.finding import format_finding

    served, missing, divergence = serving.served, serving.missing, serving.find_divergence()
    print_notice(f"served {served} call{'' if served == 1 else 's'}, {missing} not asked for")
    if not served and divergence is None:
        return Exit.NOTHING
    if divergence is None:
        return Exit.SAME
    print_notice(format_finding(divergence, width=width(), see_all=""))
    return Exit.DIVERGED


def print_notice(words: str) -> None:
    """Print a notice on stderr: what a shell or a pipe reads stands alone on the other stream."""
    print(escape_output(words), file=sys.stderr, flush=True)


WRITING = 60.0
"""Seconds that the run has to be written, after the program has ended."""


def run(options: Options) -> int:
    """`agentreplay run [--keep WHICH] [--to STORE] [--name NAME] [--tool LINE ...] -- PROGRAM ...`."""
    from pytest_agentreplay import capture
    from pytest_agentreplay.runs.capture.captured_program import find_tools, run_program

    if not options.command:
        return complain("there is no program to run; type it like agentreplay run -- python agent.py")
    name, arguments = describe_program(options.command)
    tools = find_tools(options.tool)
    log, handler = logging.getLogger("pytest_agentreplay.capture"), logging.StreamHandler()
    log.addHandler(handler)  # what keeps the run from being written
    try:
        capture.start(options.to, keep=options.keep)
        with capture.run(options.name or name, input={"arguments": {"argv": arguments}}) as captured:
            code = run_program(options.command, captured, tools)
    except OSError as error:
        return complain(f"cannot run {options.command[0]}: {error}", Exit.CANNOT)
    finally:
        capture.stop(WRITING)
        log.removeHandler(handler)
    return code if code >= 0 else 128 - code  # as a shell has it


def describe_program(command: Sequence[str]) -> tuple[str, list[str]]:
    """Return the name of a program and its arguments: of `python [-m] agent`, those of the agent."""
    name, words, first = Path(command[0]).name, [*command[1:]], 0
    if PYTHON.fullmatch(name):
        while first < len(words) and (words[first].startswith("-") or words[first - 1] in {"-W", "-X"}):
            first += 1
        if first < len(words) and "-c" not in words[:first]:
            name = words[first]
        words = words[first + 1 :]
    return Path(name).stem if name.endswith(".py") else name, words
