"""Measuring: CPU time of this process, rounds that take turns, medians, and the table that is printed."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from dataclasses import dataclass, replace

MS = 1e-6  # nanoseconds to milliseconds


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what was measured, by whom, what is to be reached, and whether it is (None: no bound)."""

    figure: str
    what: str
    bare: str = ""
    vcrpy: str = ""
    ours: str = ""
    bound: str = ""
    holds: bool | None = None

    def but(self, **changes):
        """The row with something changed."""
        return replace(self, **changes)


def cpu(work, *args, collect=True):
    """CPU nanoseconds of this process for `work(*args)`, and what it gave; `collect` takes earlier garbage away first."""
    if collect:
        gc.collect()
    began = time.process_time_ns()
    result = work(*args)
    return time.process_time_ns() - began, result


def cpu_each(asks):
    """CPU nanoseconds of each call in `asks`, a sequence of functions."""
    gc.collect()
    readings = []
    for ask in asks:
        began = time.process_time_ns()
        ask()
        readings.append(time.process_time_ns() - began)
    return readings


def middle(values):
    """The median."""
    return statistics.median(values)


def mean(values):
    """The mean."""
    return statistics.fmean(values)


def say(text):
    """A line of progress, beside the table."""
    sys.stderr.write(f"  {text}\n")
    sys.stderr.flush()


def table(rows):
    """The rows as a Markdown table."""
    head = ("figure", "what", "bare SDK", "vcrpy 9.4.2", "agentreplay", "to reach", "")
    verdict = {True: "ok", False: "MISSED", None: ""}
    cells = [head, *((r.figure, r.what, r.bare, r.vcrpy, r.ours, r.bound, verdict[r.holds]) for r in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(head))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return "\n".join([lines[0], "| " + " | ".join("-" * width for width in widths) + " |", *lines[1:]])
