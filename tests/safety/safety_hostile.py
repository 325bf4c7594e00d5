"""The figure of hostile input: rows of the corpus that come to the stated outcome, each tried now."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator


def figures() -> Iterator[Figure]:
    """Rows that come to their outcome; a class without a check counts as not there."""
    sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "hostile")]
    corpus = importlib.import_module("hostile_rows")
    missed: list[str] = []
    absent: list[str] = []
    for row in corpus.ROWS:
        check = corpus.CHECKS.get(row["class"])
        if check is None:
            absent.append(row["class"])
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "project"
            folder.mkdir()
            try:
                check(row, folder)
            except Exception as error:
                missed.append(row["id"])
                print(f"{row['id']}: {type(error).__name__}: {str(error)[:200]!a}", file=sys.stderr)
    fine = len(corpus.ROWS) - len(missed) - len(absent)
    said = f"{fine} of {len(corpus.ROWS)}" + (
        f" ({len(absent)} not there yet: {', '.join(sorted(set(absent)))})" if absent else ""
    )
    yield Figure("hostile rows with the stated outcome", "-", "all", said, fine == len(corpus.ROWS))
