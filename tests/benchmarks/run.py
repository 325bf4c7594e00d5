"""Prints the table of figures, measured in one run: `python tests/benchmarks/run.py [NAME ...]`. README.md says more."""

from __future__ import annotations

import argparse
import os
import platform
import time

import calls
import files
import ordering
import startup
import streams
from measuring import say, table

FIGURES = {
    "replay": calls.replayed,
    "bodies": calls.bodies,
    "record": calls.recorded,
    "file": files.snapshots,
    "diff": files.diff,
    "start": startup.plugin,
    "stream": streams.teed,
    "order": ordering.calls,
    "threads": ordering.threads,
    "lines": ordering.lines,
    "memory": files.memory,
}


def main():
    """Measure what was asked for, everything by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}; all by default")
    names = parser.parse_args().names
    if unknown := set(names) - set(FIGURES):
        parser.error(f"no figure is called {', '.join(sorted(unknown))}")
    began = time.perf_counter()
    rows = []
    for name in names or FIGURES:
        say(f"{name} ...")
        FIGURES[name](rows)
    machine = f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}"
    print(f"{time.strftime('%Y-%m-%d')}, {machine}, {time.perf_counter() - began:.0f} s\n")
    print(table(rows))


if __name__ == "__main__":
    main()
