"""Many captured runs: which are worth a replay, and in which groups their differences fall.

Of each kind of run, by what the heads of files say, one is taken before a second. What a session made of them is how
many are the same, and what the others do otherwise.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pytest_agentreplay.errors import SnapshotMissing
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.report.escape import escape_code
from pytest_agentreplay.report.notices import Notice, make_error, make_warning
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.snapshots.store.run_store import RunEntry

LATEST = Path(".agentreplay", "captured-runs.json")
"""In the root of a project, the groups of its latest session with captured runs."""
VERB = re.compile(r"(?:no longer )?\w+")
MOST_GROUPS = 20
LEVELS = ("effects", "requests", "not replayed")


class RunGroup(NamedTuple):
    """The runs that do one thing otherwise: on which level, what, how many, the smallest one, what shows it."""

    level: str
    what: str
    runs: int
    smallest: str
    command: str


@dataclass(slots=True)
class RunGroups:
    """The captured runs of one session by level and group; of each group the number, and the smallest run.

    It grows with the groups, not with the runs.
    """

    store: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    smallest: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    new: int = 0

    def add(self, run: str, level: str, what: str, size: int, new: int) -> None:
        """Add a run: its name, level, group and bytes, and how many values are new in it."""
        group = level, what
        self.counts[group] += 1
        self.smallest[group] = min(self.smallest.get(group, (size, run)), (size, run))
        self.new += new

    @property
    def replayed(self) -> int:
        """How many runs could be replayed."""
        return sum(count for (level, _), count in self.counts.items() if level != "not replayed")

    def list_groups(self) -> list[RunGroup]:
        """Return the groups of those that are not the same: effects first, of each level the largest first."""
        groups = []
        for (level, group), count in self.counts.items():
            run = self.smallest[level, group][1]
            what = f"{level}: {group}" if level == "not replayed" else conjugate(group, count)
            flag = {"requests": " --agentreplay-runs-strict", "not replayed": " -rs"}.get(level, "")
            command = f"pytest{flag} {quote_word(f'--agentreplay-runs={self.store}::{run}')}"
            groups.append(RunGroup(level, what, count, run, command))
        ordered = sorted(groups, key=lambda group: (group.level, -group.runs, group.what))
        return [group for level in LEVELS for group in ordered if group.level == level]

    def format_line(self) -> str:
        """Return one line: "1,000 runs: 962 same, 31 ask otherwise (system text, line 2), 1 raises KeyError"."""
        total = self.counts.total()
        groups = [f"{group.runs:,} {group.what}" for group in self.list_groups() if group.level != "not replayed"]
        parts = [f"{self.counts['same', '']:,} same", *groups]
        parts += [f"{total - self.replayed:,} not replayed"] if total > self.replayed else []
        new = f"; {self.new:,} values are new in each run, and count as equal" if self.new else ""
        return f"{total:,} run{'s' * (total != 1)}: {', '.join(parts)}{new}"

    def make_notices(self) -> Iterator[Notice]:
        """Yield the line of the footer, and each group with its smallest run and the command that shows it."""
        if not self.counts:
            return
        yield make_warning(f"captured  {self.format_line()}")
        groups = self.list_groups()
        for group in groups[:MOST_GROUPS]:
            # Nothing stands behind a group, which may end with a line for the ini file.
            yield make_warning(f"          {group.runs:,} {group.what}", f"            the smallest:   {group.command}")
        if (left := len(groups) - MOST_GROUPS) > 0:
            yield make_warning(f"          and {left} more groups; --agentreplay-sample=N takes fewer runs")
        if not self.replayed:
            yield make_error("ERROR: no captured run could be replayed, so nothing was compared: see the reasons above")

    def format_markdown(self) -> str:
        """Return the groups as Markdown, for the summary of a step on GitHub and for a pull request."""
        rows = [f"**agentreplay: captured {escape_code(self.format_line())}**", ""]
        groups = self.list_groups()[:MOST_GROUPS]
        rows += ["| runs | what | smallest | see it |", "| --- | --- | --- | --- |"] if groups else []
        for group in groups:
            cells = (f"{group.runs:,}", *group[1:2], *group[3:])
            rows.append(f"| {' | '.join(escape_code(cell, cell=True) for cell in cells)} |")
        return "\n".join(rows) + "\n\n"

    def save(self, root: Path) -> None:
        """Keep the groups of the session for `agentreplay summarize --captured`. Raises CannotWrite."""
        groups = [group._asdict() for group in self.list_groups()]
        data = {"verdict": self.format_line(), "groups": groups, "markdown": self.format_markdown()}
        files.make_private_folder(root / LATEST.parent)
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


Kind: TypeAlias = tuple[str, ...]


def read_kind(entry: RunEntry) -> Kind:
    """Return what makes two runs alike: name, models, tools in the order of their calls, error, length, problem.

    Of the length the power of two counts, so that another word in an answer makes no other kind.
    """
    head = entry.head
    outcome, length = head.get("outcome"), head.get("length")
    error = outcome.get("type") if isinstance(outcome, dict) else None
    size = length.bit_length() if isinstance(length, int) else 0
    values: tuple[Json, ...] = head.get("models"), head.get("tools"), error, size, head.get("cold")
    return entry.name, *map(str, values), entry.problem


def sample(entries: Iterable[RunEntry], number: int) -> list[RunEntry]:
    """Return the `number` runs that differ most, in the order of the store; the same ones for the same store.

    A kind whose name, models, tools, error and length were taken least goes first; of a kind its smallest run.
    """
    kinds = group_by_kind(entries)
    taken: Counter[Kind | tuple[int, str]] = Counter()

    def rate(kind: Kind) -> tuple[int, int, int, str]:
        first = kinds[kind][-1]
        return taken[kind], sum(taken[part].bit_length() for part in enumerate(kind)), first.size, first.where

    # What was rated earlier can only rate worse by now, so that the best one has to be rated again, and no other.
    # With powers of two that is seldom: 500 of 10,000 runs of 5,244 kinds in 1 s of CPU, with plain counts in 9 s.
    heap = [(rate(kind), kind) for kind in kinds]
    heapq.heapify(heap)
    chosen: list[RunEntry] = []
    while heap and len(chosen) < number:
        rating, kind = heapq.heappop(heap)
        if (now := rate(kind)) == rating:
            chosen.append(kinds[kind].pop())
            taken.update((kind, *enumerate(kind)))
            if not kinds[kind]:
                continue
            now = rate(kind)
        heapq.heappush(heap, (now, kind))
    return sorted(chosen, key=lambda entry: (entry.name, entry.day, entry.id))


def list_redundant(entries: Iterable[RunEntry]) -> Iterator[RunEntry]:
    """Yield the runs that add nothing: of each kind all but the smallest and the newest one."""
    for alike in group_by_kind(entries).values():
        newest = max(alike, key=lambda entry: (str(entry.head.get("recorded")), entry.where))
        yield from (entry for entry in alike[:-1] if entry is not newest)


def group_by_kind(entries: Iterable[RunEntry]) -> dict[Kind, list[RunEntry]]:
    """Return the runs of each kind, the smallest one last."""
    kinds: defaultdict[Kind, list[RunEntry]] = defaultdict(list)
    for entry in entries:
        kinds[read_kind(entry)].append(entry)
    for alike in kinds.values():
        alike.sort(key=lambda entry: (entry.size, entry.where), reverse=True)
    return kinds
