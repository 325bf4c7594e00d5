"""What a session makes of all requests that were played: counts by cause and file, and what is new since a baseline.

The baseline `agentreplay-vcr.json` holds the stale requests that fail no build, by test, cassette and interaction.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.cassettes.verdicts import Play
from pytest_agentreplay.core.paths import selecting
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.report.notices import Notice, Severity, format_count, make_warning
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import format_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pytest_agentreplay.core.model import JsonObject

BASELINE = "agentreplay-vcr.json"
WRONG = "wrong interaction"
MARGIN = " " * 10
Known: TypeAlias = "dict[tuple[str, str, int], str]"
"""The cause of each stale request, by test, cassette and index."""


def read_baseline(root: Path) -> Known | None:
    """Return the stale requests of the baseline; None without one. Raises SettingsError for a damaged file."""
    if (data := files.read_if_there(root / BASELINE)) is None:
        return None
    try:
        return {
            (test, cassette, int(index)): str(cause)
            for test, cassettes in json.loads(data)["stale"].items()
            for cassette, causes in cassettes.items()
            for index, cause in causes.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SettingsError(
            f"{format_path(root / BASELINE)}: is no baseline ({type(error).__name__}: {error}); restore it, or "
            "delete it and run pytest --vcr=audit --accept-stale"
        ) from None


def write_baseline(root: Path, known: Known) -> None:
    """Write the baseline, sorted, a line for each request. Raises CannotWrite."""
    tree: dict[str, dict[str, dict[int, str]]] = {}
    for (test, cassette, index), cause in sorted(known.items()):
        tree.setdefault(test, {}).setdefault(cassette, {})[index] = cause
    files.write_whole(root / BASELINE, json.dumps({"version": 1, "stale": tree}, indent=2, ensure_ascii=False) + "\n")


class Audit:
    """The played requests of a session, by the ids of their tests."""

    def __init__(self, baseline: Known | None = None) -> None:
        self.baseline = baseline
        self.plays: dict[str, list[Play]] = {}
        self.cassettes: set[str] = set()
        self.unplayed: dict[tuple[str, int], str] = {}
        self.incomplete: set[str] = set()

    def add_test(self, test: str, facts: Mapping[str, Any]) -> None:
        """Add what the last report of a test carries; of a test that is tried again the last try counts."""
        self.plays[test] = [Play(*row) for row in facts["plays"]]
        for path, unplayed in facts["opened"]:
            self.cassettes.add(path)
            # The first time that it is opened is enough: what no test has played, that test has not played either.
            self.unplayed |= {(path, int(index)): summary for index, summary in unplayed.items()}

    @property
    def found(self) -> Known:
        """The stale requests of this session."""
        return {
            (test, play.cassette, play.index): play.cause or WRONG
            for test, play in self._list_different()
            if play.verdict != "noise"
        }

    @property
    def new(self) -> Known:
        """Those that are not in the baseline, or differ in something else."""
        known = self.baseline or {}
        return {key: cause for key, cause in self.found.items() if known.get(key) != cause}

    @property
    def fixed(self) -> Known:
        """Those of the baseline that are stale no more, of the tests that ran to their end."""
        complete = self.plays.keys() - self.incomplete
        known = (self.baseline or {}).items()
        return {key: cause for key, cause in known if key[0] in complete and key not in self.found}

    @property
    def accepted(self) -> Known:
        """The next baseline: that of now, without what is fixed, and with what is stale."""
        kept = {key: cause for key, cause in (self.baseline or {}).items() if key not in self.fixed}
        return kept | self.found

    def _list_different(self) -> list[tuple[str, Play]]:
        return [(test, play) for test, plays in self.plays.items() for play in plays if play.verdict != "equal"]

    def list_never_played(self) -> dict[tuple[str, int], str]:
        """Return the interactions that no test has played, by cassette and number."""
        played = {(play.cassette, play.index) for plays in self.plays.values() for play in plays}
        return {key: summary for key, summary in sorted(self.unplayed.items()) if key not in played}

    def count(self) -> JsonObject:
        """Return the audit as `--json` prints it."""
        verdicts = Counter(play.verdict for plays in self.plays.values() for play in plays)
        stale = [(test, play) for test, play in self._list_different() if play.verdict != "noise"]
        by_file: dict[str, Counter[str]] = {}
        for test, play in stale:
            by_file.setdefault(test.partition("::")[0], Counter())[play.cause or WRONG] += 1
        unplayed = self.list_never_played()
        return {
            "tests": sum(map(bool, self.plays.values())),
            "cassettes": len(self.cassettes),
            "requests": verdicts.total(),
            "equal": verdicts["equal"],
            "stale": verdicts["stale"],
            "noise": verdicts["noise"],
            "wrong_interaction": verdicts["wrong interaction"],
            "never_played": len(unplayed),
            "known": len(self.found) - len(self.new),
            "fixed": len(self.fixed),
            "by_cause": dict(Counter(play.cause or WRONG for _, play in stale).most_common()),
            "by_file": {
                file: dict(causes.most_common())
                for file, causes in sorted(by_file.items(), key=lambda row: (-row[1].total(), row[0]))
            },
            "plays": [{"test": test, **asdict(play)} for test, play in self._list_different()],
            "unplayed": [{"cassette": key[0], "index": key[1], "summary": line} for key, line in unplayed.items()],
        }

    def make_notices(self, mode: str, width: int) -> Iterator[Notice]:
        """Yield the lines of the report."""
        counts: Any = self.count()
        if not counts["requests"]:
            yield make_warning(f"{mode:<10}no test has played a request of vcrpy, so nothing was compared")
            return
        yield make_warning(*format_rows(mode, [format_totals(counts)], width))
        if counts["by_cause"]:
            files_of = [
                f"{sum(causes.values())} in {file}: {join(causes)}" for file, causes in counts["by_file"].items()
            ]
            yield make_warning(*format_rows("stale", [join(counts["by_cause"]), *files_of], width))
        listed = [
            f"{play['test']}: {format_interaction(play)}" for play in counts["plays"] if play["verdict"] != "noise"
        ]
        listed += [f"never played: {format_interaction(play)}" for play in counts["unplayed"]]
        yield Notice(Severity.INFO, (), verbose=(*format_rows("", listed, width),))
        if self.baseline is not None and (self.found or self.fixed):
            row = f"{counts['known']} known in {BASELINE}, {len(self.new)} new, {counts['fixed']} fixed"
            yield make_warning(*format_rows("baseline", [row], width))
        steps = [f"see why:         pytest --vcr=strict {selecting(min(self.new)[0])}"] if self.new else []
        if self.new or self.fixed:
            what = "take as known:  " if self.new else "forget the fixed:"
            steps.append(f"{what} pytest --vcr=audit --accept-stale")
        if mode == "audit" and steps:
            yield make_warning(f"next      {steps[0]}", *(f"{MARGIN}{step}" for step in steps[1:]))


def format_totals(counts: Any) -> str:
    """Return the line of totals: what was compared, and how it came out."""
    names = {
        "stale": "stale",
        "wrong_interaction": "played for the wrong interaction",
        "noise": "differing only in a clock, id or place",
    }
    parts = [f"{counts[name]} {text}" for name, text in names.items() if counts[name]]
    equal = f"{counts['equal']} equal" if parts else "all equal"
    total = ", ".join(format_count(counts[name], name[:-1]) for name in ("tests", "requests", "cassettes"))
    never = (
        f"; {format_count(counts['never_played'], 'interaction')} never played, of " if counts["never_played"] else ""
    )
    of = len({row["cassette"] for row in counts["unplayed"]})
    return f"{total}: {', '.join([equal, *parts])}{never and never + format_count(of, 'cassette')}"


def join(causes: Mapping[str, int]) -> str:
    """Return counts by cause: "6 prompt or history, 1 parameter"."""
    return ", ".join(f"{count} {cause}" for cause, count in causes.items())


def format_interaction(row: Any) -> str:
    """Return which interaction of which cassette, and what there is to say of it."""
    return f"{row['cassette']}, interaction {row['index'] + 1}: {row['summary']}"


def format_rows(word: str, rows: Iterable[str], width: int) -> Iterator[str]:
    """Yield rows wrapped to `width`, behind a word in the margin."""
    first = f"{word:<10}"
    for row in rows:
        yield from wrap(
            row,
            width,
            initial_indent=first,
            subsequent_indent=f"{MARGIN}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        first = MARGIN
