"""What a session made of many captured runs, in groups: how many are the same, and what the others do otherwise."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.errors import SnapshotMissing
from pytest_agentreplay.report.escape import escape_code
from pytest_agentreplay.report.notices import make_error, make_warning
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.core.model import JsonObject
    from pytest_agentreplay.report.notices import Notice

LATEST = Path(".agentreplay", "captured-runs.json")
"""In the root of a project, the groups of its latest session with captured runs."""
VERB = re.compile(r"(?:no longer )?\w+")
MOST_GROUPS = 20
SHOWN = {"effects": 0, "requests": 1, "not replayed": 2}


@dataclass(slots=True)
class RunGroups:
    """The captured runs of one session by level and group; of each group the number, and the smallest run.

    It grows with the groups, not with the runs.
    """

    store: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    smallest: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    new: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the row of one run: its level, group, size and id, and how many values are new in it."""
        group = row["level"], row["group"]
        self.counts[group] += 1
        self.smallest[group] = min(self.smallest.get(group, (row["size"], row["id"])), (row["size"], row["id"]))
        self.new += row["new"]

    @property
    def replayed(self) -> int:
        """How many runs could be replayed."""
        return sum(count for (level, _), count in self.counts.items() if level != "not replayed")

    def list_groups(self) -> list[tuple[str, str, int]]:
        """Return level, group and number of those that are not the same: effects first, the largest first."""
        groups = [(level, group, count) for (level, group), count in self.counts.items() if level != "same"]
        return sorted(groups, key=lambda row: (SHOWN[row[0]], -row[2], row[1]))

    def format_line(self) -> str:
        """Return one line: "1,000 runs: 962 same, 31 ask otherwise (system text, line 2), 1 raises KeyError"."""
        total, groups = self.counts.total(), self.list_groups()
        parts = [f"{self.counts['same', '']:,} same"]
        parts += [f"{count:,} {conjugate(group, count)}" for level, group, count in groups if level != "not replayed"]
        if left := total - self.replayed:
            parts.append(f"{left:,} not replayed")
        new = f"; {self.new:,} values are new in each run, and count as equal" if self.new else ""
        return f"{total:,} run{'s' * (total != 1)}: {', '.join(parts)}{new}"

    def name_command(self, level: str, group: str) -> tuple[str, str]:
        """Return the smallest run of a group, and the command that shows it."""
        run = self.smallest[level, group][1]
        strict = " --agentreplay-runs-strict" if level == "requests" else " -rs" if level == "not replayed" else ""
        return run, f"pytest --agentreplay-runs={quoted(self.store)}{strict} -k {quoted(run)}"

    def make_notices(self) -> Iterator[Notice]:
        """Yield the line of the footer, and each group with its smallest run and the command that shows it."""
        if not self.counts:
            return
        yield make_warning(f"captured  {self.format_line()}")
        groups = self.list_groups()
        for level, group, count in groups[:MOST_GROUPS]:
            run, command = self.name_command(level, group)
            what = f"not replayed: {group}" if level == "not replayed" else conjugate(group, count)
            yield make_warning(f"          {count:,} {what}; the smallest is {run}:", f"            {command}")
        if (left := len(groups) - MOST_GROUPS) > 0:
            yield make_warning(f"          and {left} more groups; --agentreplay-sample=N takes fewer runs")
        if not self.replayed:
            yield make_error("ERROR: no captured run could be replayed, so nothing was compared: see the reasons above")

    def format_markdown(self) -> str:
        """Return the groups as Markdown, for the summary of a step on GitHub and for a pull request."""
        rows = [f"**agentreplay: captured {escape_code(self.format_line())}**", ""]
        if groups := self.list_groups():
            rows += ["| runs | what | smallest | see it |", "| --- | --- | --- | --- |"]
        for level, group, count in groups[:MOST_GROUPS]:
            what = f"not replayed: {group}" if level == "not replayed" else group
            cells = (f"{count:,}", what, *self.name_command(level, group))
            rows.append(f"| {' | '.join(escape_code(cell, cell=True) for cell in cells)} |")
        return "\n".join(rows) + "\n\n"

    def save(self, root: Path) -> None:
        """Keep the groups of the session for `agentreplay summarize --captured`. Raises CannotWrite."""
        keys = ("level", "group", "runs", "smallest", "command")
        groups = [dict(zip(keys, (*row, *self.name_command(*row[:2])), strict=True)) for row in self.list_groups()]
        data = {"verdict": self.format_line(), "groups": groups, "markdown": self.format_markdown()}
        files.private(root / LATEST.parent)
        files.write_whole(root / LATEST, json.dumps(data))


def read_latest(root: Path) -> JsonObject:
    """Return what the latest session made of captured runs. Raises SnapshotMissing where there was none."""
    if (data := files.read_if_there(root / LATEST)) is None:
        how = "no captured runs were replayed here: type pytest --agentreplay-runs=STORE"
        raise SnapshotMissing(how, file=LATEST.as_posix())
    latest: JsonObject = json.loads(data)
    return latest


def conjugate(group: str, count: int) -> str:
    """Return what a group does, of one run: "raise KeyError" is "raises KeyError"."""
    return group if count != 1 else VERB.sub(lambda verb: f"{verb[0]}s", group, count=1)
