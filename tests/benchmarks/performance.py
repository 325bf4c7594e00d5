"""Measures every figure of docs/explanation/performance.md again, and writes it there with the day.

    python tests/benchmarks/performance.py             # all, about twenty minutes on a quiet machine
    python tests/benchmarks/performance.py start files # some: whole calls bodies record stream order files memory capture start

The page holds a pair of comments around each table; what stands between them is written anew, the rest is yours. Rounds
of what is compared take turns in one run, so their ratios can be trusted more than their milliseconds.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import tempfile
import time
from pathlib import Path

import calls
import capturing
import files
import ordering
import startup
import streams
import suite_cost
from measuring import say

PAGE = Path(__file__).parents[2] / "docs/explanation/performance.md"
COMPARED = ("openai", "vcrpy", "pytest-recording")


def format_table(head, rows):
    """Return a Markdown table."""
    cells = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)


def format_rows(*figures):
    """Return the table of what functions that append to a list of rows have measured."""
    rows = []
    for measure in figures:
        measure(rows)
    columns = [name for name in ("bare", "vcrpy", "ours") if any(getattr(row, name) for row in rows)]
    head = {"bare": "bare SDK", "vcrpy": "vcrpy", "ours": "agentreplay"}
    return format_table(
        ["", *(head[name] for name in columns)],
        [[f"{row.figure.partition(' ')[2]}: {row.what}", *(getattr(row, name) for name in columns)] for row in rows],
    )


def measure_whole_tests():
    """Return the table of whole sessions of pytest: CPU per test, and its ratio to the bare SDK."""
    tests, rounds, table = 100, 2, []
    for count in (3, 10):
        with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
            tree = Path(__file__).parents[2]
            one, many = (
                suite_cost.Suite(folder, number, count, tree) for folder, number in ((small, 1), (large, tests))
            )
            measured = suite_cost.per_test(one, many, suite_cost.WAYS, rounds)
        bare = measured["bare SDK"][0]
        table += [
            [f"{count} calls: {name}", f"{each:.1f} ms", f"x {each / bare:.2f}"] for name, (each, _) in measured.items()
        ]
    return format_table(["a test of", "CPU", "of the bare SDK"], table)


def measure_capture():
    """Return the table of a captured service."""
    return format_table(["requests", "way", "CPU of a call", "of the bare SDK"], capturing.measure(rounds=3))


def measure_start():
    """Return the tables of a suite that does not use the plugin."""
    loaded = format_rows(startup.plugin)
    rows = [[name, f"{cpu:.0f} ms", f"{low:.0f} ms"] for name, cpu, low, _ in startup.collecting()]
    return f"{loaded}\n\n{format_table(['`pytest --co -q`, 50 tests', 'CPU, median', 'lowest'], rows)}"


def measure_order():
    """Return the table of what the recorded order adds to a call."""

    def measure(rows):
        for count, tasks in ((1_000, 10), (1_000, 100), (10_000, 10)):
            ordering.measured(rows, ordering.in_tasks, count, tasks, rounds=3)
        ordering.measured(rows, ordering.in_threads, 1_000, 8, rounds=3)

    return format_rows(measure)


SECTIONS = {
    "whole": measure_whole_tests,
    "calls": lambda: format_rows(lambda rows: calls.replayed(rows, (10, 100, 1000))),
    "bodies": lambda: format_rows(calls.bodies),
    "record": lambda: format_rows(calls.recorded),
    "stream": lambda: format_rows(streams.teed),
    "order": measure_order,
    "files": lambda: format_rows(files.snapshots, files.diff),
    "memory": lambda: format_rows(files.memory),
    "capture": measure_capture,
    "start": measure_start,
}


def describe_machine():
    """Return the day, the machine and the versions that were compared."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in COMPARED)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {python}, {versions}"


def write_section(name, table):
    """Put a table, and when it was measured, between the comments of the page."""
    text = PAGE.read_text(encoding="utf-8")
    between = re.compile(rf"(<!-- measured: {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    assert between.search(text), f"{PAGE} has no place for {name}"
    content = f"{table}\n\nMeasured {describe_machine()}."
    PAGE.write_text(between.sub(lambda match: match[1] + content + match[2], text), encoding="utf-8")


def main():
    """Measure what was asked for, everything by default, and write each table as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SECTIONS)}; all by default")
    names = parser.parse_args().names
    if unknown := set(names) - set(SECTIONS):
        parser.error(f"no section is called {', '.join(sorted(unknown))}")
    for name in names or SECTIONS:
        began = time.perf_counter()
        write_section(name, SECTIONS[name]())
        say(f"{name}: {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
