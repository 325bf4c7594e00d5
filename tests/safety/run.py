"""Prints the safety figures, each measured now: `python tests/safety/run.py [PART ...]`.

A part is a module beside this one with `figures()`: redaction, files, hostile, network, integrity.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from figures import Figure

HERE = Path(__file__).resolve().parent
PARTS = ("redaction", "files", "hostile", "network", "integrity")


def table(rows: Iterable[Figure]) -> str:
    """The figures as a Markdown table."""
    lines = ["| figure | today's best | to reach | measured | |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        cells = (row.name, row.best, row.reach, row.ours, "met" if row.met else "MISSED")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(parts: Sequence[str]) -> int:
    """Measure the parts; gives 1 when a figure is missed."""
    rows = [row for part in parts or PARTS for row in importlib.import_module(f"safety_{part}").figures()]
    print(table(rows))
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parents[1])]
    sys.exit(main(sys.argv[1:]))
