"""`agentreplay run`: an unchanged program, captured as one run."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import CANNOT, USAGE, complain
from pytest_agentreplay.intercept.process.child_start import PYTHON

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_agentreplay.cli.verb_table import Verbs

WRITING = 60.0
"""Seconds that the run has to be written, after the program has ended."""


def add_verbs(verbs: Verbs) -> None:
    """Declare `run`."""
    run_verb = verbs.add("run", run, "capture an unchanged program as one run, its Python children included")
    about = "failed (default): where it ends with another code than 0; all; or a rate"
    run_verb.add_argument("--keep", metavar="WHICH", default="failed", help=about)
    run_verb.value("--to", "STORE", "a folder or a URL of fsspec (default: runs)", default="runs")
    run_verb.value("--name", "NAME", "the name of the run (default: that of the program)", default="")
    tool = "a function whose calls are kept: shop.tools.refund, or shop.tools.lookup_order = read"
    run_verb.value("--tool", "LINE", tool, action="append", default=[])
    run_verb.add_argument("command", nargs="*", metavar="-- PROGRAM", help="what to run, with its arguments")


def run(options: argparse.Namespace) -> int:
    """`agentreplay run [--keep WHICH] [--to STORE] [--name NAME] [--tool LINE ...] -- PROGRAM ...`."""
    from pytest_agentreplay import capture
    from pytest_agentreplay.runs.capture.captured_program import find_tools, run_program

    if not options.command:
        return complain("there is no program to run; type it like agentreplay run -- python agent.py", USAGE)
    name, arguments = describe_program(options.command)
    tools = find_tools(options.tool)
    log, handler = logging.getLogger("pytest_agentreplay.capture"), logging.StreamHandler()
    log.addHandler(handler)  # what keeps the run from being written
    try:
        capture.start(options.to, keep=options.keep)
        with capture.run(options.name or name, input={"arguments": {"argv": arguments}}) as captured:
            code = run_program(options.command, captured, tools)
    except OSError as error:
        return complain(f"cannot run {options.command[0]}: {error}", CANNOT)
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
