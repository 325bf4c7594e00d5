"""How much of our own code one call of an agent runs: files and functions, for a model's call and for a tool's.

    python tests/benchmarks/call_paths.py [--list PATH]

The second call of a warm process is counted, so that imports and first uses are left out. `--list "HTTP replayed"` prints
the functions of one path in the order in which they are first called, with the number of calls of each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import ours
import world

import pytest_agentreplay

PACKAGE = Path(pytest_agentreplay.__file__).parent


@contextmanager
def counting_functions():
    """Yield a counter of the calls of our functions, by file, line and name, in every thread that runs meanwhile."""
    calls = Counter()
    files = {}

    def count(frame, event, _):
        if event != "call":
            return
        code = frame.f_code
        if code.co_filename not in files:
            path = Path(code.co_filename)
            inside = path.is_relative_to(PACKAGE)
            files[code.co_filename] = path.relative_to(PACKAGE).as_posix() if inside else None
        if file := files[code.co_filename]:
            calls[file, code.co_firstlineno, code.co_qualname] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def count_second(project, mode, call):
    """Return the functions that the second of three calls has run."""
    with project.body(mode):
        call(0)
        with counting_functions() as calls:
            call(1)
        call(2)
    return calls


def measure_paths():
    """Return the functions of each of the four paths."""
    paths = {}
    script = world.small(3)
    for kind, call in (("HTTP", script.ask), ("tool", lambda number: world.look_up(f"A-{number:05d}"))):
        with tempfile.TemporaryDirectory() as folder:
            project = ours.Project(folder, tools=(("world.look_up", "read"),))
            script.world.rewind()
            paths[f"{kind} recorded"] = count_second(project, "record", call)
            paths[f"{kind} replayed"] = count_second(project, "replay", call)
    return paths


def main():
    """Print one row for each path, or the functions of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="PATH", help="the functions of one path, for example 'HTTP replayed'")
    options = parser.parse_args()
    paths = measure_paths()
    if options.list:
        for (file, line, name), count in paths[options.list].items():
            print(f"{count:>5}  {file}:{line}  {name}")
        return
    print("| path | files | functions | calls of them |")
    print("| --- | --- | --- | --- |")
    for path, calls in paths.items():
        print(f"| {path} | {len({file for file, _, _ in calls})} | {len(calls)} | {calls.total()} |")


if __name__ == "__main__":
    main()
