"""What a session makes of all requests that were played: counts by cause and file, and what is new since a baseline.

The baseline `agentreplay-vcr.json` has a line for each stale request that fails no build: its test, cassette, number
of the interaction, and cause.
"""

from __future__ import annotations

import json
from collections import Counter
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.snapshots.store import files, format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import JsonObject

BASELINE = "agentreplay-vcr.json"
AGAIN = "pytest --vcr=audit --accept-stale"
TOTALS = {"equal": "equal", "stale": "stale", "wrong_interaction": "played for the wrong interaction"}
TOTALS["noise"] = "differing only in a clock, id or place"
Rows: TypeAlias = "dict[tuple[str, str, int], str]"
"""Something about requests, by test, cassette and index."""


def read_baseline(root: Path) -> Rows | None:
    """Return the causes of the baseline; None without one. Raises SettingsError for a damaged file."""
    if (data := files.read_if_there(root / BASELINE)) is None:
        return None
    try:
        return {(str(test), str(path), int(at)): str(cause) for test, path, at, cause in json.loads(data)["stale"]}
    except (ValueError, TypeError, KeyError) as error:
        what = f"{format_path(root / BASELINE)} is damaged ({error})"
        raise SettingsError(f"{what}: restore it, or delete it and run {AGAIN}") from None


class Audit:
    """The played requests of a session, by the ids of their tests."""

    def __init__(self, baseline: Rows | None = None) -> None:
        self.baseline = baseline
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._complete: dict[str, bool] = {}
        self._unplayed: dict[str, dict[int, str]] = {}

    def add_test(self, test: str, plays: Iterable[JsonObject], opened: Iterable[Any], *, is_complete: bool) -> None:
        """Add what the last report of a test carries; of a test that is tried again the last try counts."""
        self._rows[test], self._complete[test] = [{"test": test, **play} for play in plays], is_complete
        for path, unplayed in opened:  # those of the first time: what no test has played, that test has not played
            self._unplayed.setdefault(path, {int(index): summary for index, summary in unplayed.items()})

    def compare(self) -> tuple[Rows, Rows, Rows]:
        """Return the causes of what is stale now; of that what is new; and of the baseline what is fixed."""
        rows, before = (row for rows in self._rows.values() for row in rows if row["cause"]), self.baseline or {}
        stale: Rows = {(row["test"], row["cassette"], row["index"]): row["cause"] for row in rows}
        new = {key: cause for key, cause in stale.items() if before.get(key) != cause}
        # A test that failed or was skipped may not have come so far.
        fixed = {key: before[key] for key in before if self._complete.get(key[0]) and key not in stale}
        return stale, new, fixed

    def accept(self, root: Path) -> None:
        """Write a baseline of what is stale now, and of what is not fixed. Raises CannotWrite."""
        stale, _, fixed = self.compare()
        self.baseline = {key: cause for key, cause in (self.baseline or {}).items() if key not in fixed} | stale
        rows = ",\n".join(json.dumps([*row, self.baseline[row]], ensure_ascii=False) for row in sorted(self.baseline))
        files.write_whole(root / BASELINE, f'{{"version": 1, "stale": [\n{rows}\n]}}\n')

    def count(self) -> dict[str, Any]:
        """Return the audit as `--json` prints it."""
        rows = [row for rows in self._rows.values() for row in rows]
        verdicts = Counter(row["verdict"] for row in rows)
        unplayed = self._list_unplayed({(row["cassette"], row["index"]) for row in rows})
        stale, new, fixed = self.compare()
        by_file: dict[str, Counter[str]] = {}
        for row in rows:
            if row["cause"]:
                by_file.setdefault(row["test"].partition("::")[0], Counter())[row["cause"]] += 1
        largest = sorted(by_file, key=lambda file: (-by_file[file].total(), file))
        return {
            **{name: verdicts[name.replace("_", " ")] for name in TOTALS},
            "tests": len({row["test"] for row in rows}),
            "requests": len(rows),
            "cassettes": len(self._unplayed),
            "never_played": len(unplayed),
            "known": len(stale) - len(new),
            "new": len(new),
            "fixed": len(fixed),
            "by_cause": dict(Counter(row["cause"] for row in rows if row["cause"]).most_common()),
            "by_file": {file: dict(by_file[file].most_common()) for file in largest},
            "plays": [row for row in rows if row["verdict"] != "equal"],
            "unplayed": unplayed,
        }

    def _list_unplayed(self, played: set[tuple[str, int]]) -> list[dict[str, Any]]:
        return [
            {"cassette": path, "index": at, "summary": summary}
            for path, summaries in sorted(self._unplayed.items())
            for at, summary in sorted(summaries.items())
            if (path, at) not in played
        ]

    def format_lines(self, mode: str, width: int, verbosity: int) -> list[str]:
        """Return the report in lines of `width`, but for the commands at its end."""
        counts = self.count()
        if not counts["requests"]:
            return [f"{mode:<10}no test has played a request of a cassette, so nothing was compared"]
        lines = [f"{mode:<10}{format_totals(counts)}"]
        if counts["by_cause"]:
            lines.append(f"by cause  {join(counts['by_cause'])}")
        for file, causes in counts["by_file"].items():
            lines.append(f"{'':<10}{sum(causes.values())} in {file}: {join(causes)}")
        for row in (*counts["plays"], *counts["unplayed"]) if verbosity > 0 else ():
            where = f"{row['cassette']}, interaction {row['index'] + 1}"
            lines.append(f"{'':<10}{row.get('test', 'never played')}: {where}: {row['summary']}")
        if self.baseline is not None:
            fails = "; what is new fails the session" if counts["new"] else ""
            lines.append(f"baseline  {BASELINE}: {join({x: counts[x] for x in ('known', 'new', 'fixed')})}{fails}")
        wrapper = TextWrapper(width, subsequent_indent=" " * 12, break_long_words=False, break_on_hyphens=False)
        wrapped = [part for line in lines for part in wrapper.wrap(line)]
        return wrapped + self._format_commands() if mode == "audit" else wrapped

    def _format_commands(self) -> list[str]:
        """Return what to type next."""
        _, new, fixed = self.compare()
        steps = []
        if new:
            # Strict plays the right interaction, so it has nothing to say of a wrong one.
            test, *_ = min(new, key=lambda key: (new[key] == "wrong interaction", key))
            steps.append(("see why:", f"pytest --vcr=strict {selecting(test)}"))
        if new or fixed:
            steps.append(("take as known:" if new else "forget the fixed:", AGAIN))
        return [f"{'' if at else 'next':<10}{what:<18}{command}" for at, (what, command) in enumerate(steps)]


def format_totals(counts: Mapping[str, Any]) -> str:
    """Return what was compared, and how many requests are what."""
    compared = ", ".join(format_count(counts[name], name[:-1]) for name in ("tests", "requests", "cassettes"))
    totals = ", ".join(f"{counts[name]} {text}" for name, text in TOTALS.items() if counts[name])
    line = f"{compared}: {'all equal' if counts['equal'] == counts['requests'] else totals}"
    if unplayed := counts["unplayed"]:
        places = format_count(len({row["cassette"] for row in unplayed}), "cassette")
        line += f"; {format_count(len(unplayed), 'interaction')} never played, in {places}"
    return line


def join(numbers: Mapping[str, int]) -> str:
    """Return counts by name: "6 prompt or history, 1 parameter"."""
    return ", ".join(f"{count} {name}" for name, count in numbers.items())
