"""`agentreplay compare`: the same tests with one thing changed, beside each other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.saying import CANNOT, DIVERGED, INCONCLUSIVE, NOTHING, SAME, USAGE, complain, say, say_data
from pytest_agentreplay.core.live.request_changes import parse_change
from pytest_agentreplay.core.live.result import LiveResult

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

TOGETHER = " + "
"""What stands between the changes of a setting that has several."""


def compare(options: argparse.Namespace) -> int:
    """`agentreplay compare --set NAME=VALUE... PATH...`."""
    from pytest_agentreplay.report import comparison
    from pytest_agentreplay.store.files import write_whole

    settings: dict[str, list[str]] = {"as recorded": []} if len({*options.set}) == 1 else {}
    settings |= {name: name.split(TOGETHER) for name in options.set}
    notes = [*mixed_settings({name: dict(map(parse_change, parts)) for name, parts in settings.items()})]
    limits = [f"--replay-runs={options.runs}", *share_of(options.budget, len(settings))]
    results: dict[str, list[LiveResult]] = {}
    for name, parts in settings.items():
        words = [*limits, *(f"--replay-set={part}" for part in parts), "-q", "--tb=no", *options.paths]
        code, results[name] = run_live(words)
        if code not in {0, 1, 5}:
            return complain(f"pytest ended with {code} for --set {name!r}", USAGE if code == 4 else CANNOT)
    rows = comparison.compare_settings(results)
    if not rows[0]["test"]:
        return complain("no test has a snapshot: there is nothing to compare", NOTHING)
    if options.csv:
        write_whole(options.csv, comparison.comparison_csv(rows))
    if options.html:
        write_whole(options.html, comparison.comparison_html(rows, notes))
    if options.json:
        say_data({"settings": [*settings], "rows": rows, "notes": notes})
    else:
        say("\n".join([comparison.comparison_text(rows), *notes]))
    verdicts = {row["verdict"] for row in rows if not row["test"]}
    return DIVERGED if "worse" in verdicts else INCONCLUSIVE if "inconclusive" in verdicts else SAME


def mixed_settings(settings: dict[str, dict[str, object]]) -> Iterator[str]:
    """Yield a note for each setting that differs from the first one in more than one thing."""
    (first, base), *others = settings.items()
    for name, each in others:
        if len(keys := [key for key in base | each if base.get(key) != each.get(key)]) > 1:
            things = f"{len(keys)} things: {', '.join(keys)}; which of them counts is not shown"
            yield f"{name} differs from {first} in {things}"


def run_live(words: Sequence[str]) -> tuple[int, list[LiveResult]]:
    """Run pytest with `words`; returns its exit code and what its live runs gave. It prints on stderr."""
    with TemporaryDirectory() as made:
        into = Path(made, "live.json")
        command = [sys.executable, "-m", "pytest", "--agentreplay-mode=live", f"--agentreplay-live-into={into}", *words]
        code = subprocess.run(command, stdout=2, check=False).returncode  # noqa: S603  the user's own words
        data = json.loads(into.read_bytes()) if into.exists() else {"results": []}
    return code, [LiveResult.of(result) for result in data["results"]]


def share_of(budget: str, count: int) -> list[str]:
    """Return the flag that gives one of `count` sessions its share of `budget`, so that together they keep it."""
    from pytest_agentreplay.settings.live_runs import BUDGET, amounts_of

    limits = amounts_of(budget, "--budget", BUDGET)
    parts = {"usd": 1.0 / count, "output": 1}
    shares = [f"{unit}={limit * parts[unit] if unit in parts else limit // count:f}" for unit, limit in limits.items()]
    return ["--replay-budget", " ".join(shares)] if shares else []
