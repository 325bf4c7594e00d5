"""`agentreplay cold`: what the cases that cannot be replayed lack, and what to capture next.

Events are alike when they show the same signature: the words of `observed` with the tools and errors in them. A field
is worth capturing when it is missing often, and worth more where no case of the same signature can be replayed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.case_files.scaffold import PARTLY
from pytest_agentreplay.cases.case import FILE, RUN
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.core.kit import Grade, kit_of, plural, table
from pytest_agentreplay.core.model import ToolCall
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_agentreplay.cases.case import Case, Check
    from pytest_agentreplay.core.model import JsonObject, Run

WAYS = ("model", "hour", "tenant", "tool")
NUMBERED = re.compile(r"^\d+ |,? call \d+|(?<=model call)(?= \d)| \d+$")
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ColdCase:
    """One case as it is counted: where, whether it is cold, its signature, what is missing, and whose it is."""

    place: str
    cold: bool
    grade: Grade
    signature: str
    missing: tuple[str, ...]
    settings: tuple[str, ...]
    of: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class MissingInput:
    """A field that is missing: in how many cold cases, of which signatures nothing can be replayed, what brings it."""

    what: str
    cases: tuple[str, ...]
    alone: tuple[str, ...]
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What all cases together lack. `unread` are those that cannot be looked at, and why."""

    rows: tuple[ColdCase, ...]
    by: str = ""
    unread: tuple[str, ...] = field(default=())

    @property
    def cold(self) -> tuple[ColdCase, ...]:
        """The cases that cannot be replayed."""
        return tuple(row for row in self.rows if row.cold)

    @property
    def wants(self) -> list[MissingInput]:
        """What to capture next, what helps most first."""
        warm = {row.signature for row in self.rows if not row.cold}
        found = []
        for what in dict.fromkeys(what for row in self.cold for what in row.missing):
            rows = [row for row in self.cold if what in row.missing]
            alone = tuple(dict.fromkeys(row.signature for row in rows if row.signature not in warm))
            settings = tuple(dict.fromkeys(one for row in rows for one in row.settings))
            found.append(MissingInput(what, tuple(row.place for row in rows), alone, settings))
        return sorted(found, key=lambda want: (-len(want.alone), -len(want.cases), want.what))

    @property
    def groups(self) -> list[tuple[str, int, int]]:
        """By what was asked for: how many cases, how many of them cold."""
        every = Counter(value for row in self.rows for value in row.of.get(self.by, ()))
        cold = Counter(value for row in self.cold for value in row.of.get(self.by, ()))
        return sorted(
            ((one, count, cold[one]) for one, count in every.items()), key=lambda row: (-row[2], -row[1], row[0])
        )

    def lines(self) -> Iterator[str]:
        """The survey for people."""
        yield f"{len(self.cold)} of {plural(len(self.rows), 'case')} cannot be replayed"
        for row in self.cold:
            yield f"  {row.place}  grade {row.grade.name.lower() if len(row.grade.name) > 1 else row.grade.name}"
        if self.wants:
            yield "\ncapture next"
        for nth, want in enumerate(self.wants, 1):
            only = ", of which kind no other replays"
            yield f"  {nth}. {want.what}: missing in {plural(len(want.cases), 'case')}{only if want.alone else ''}"
            yield from (f"     {setting}" for setting in want.settings)
        if self.by:
            yield f"\nby {self.by}"
            for value, count, cold in self.groups:
                yield f"  {value}: {cold} of {plural(count, 'case')} cold"

    def plain(self) -> JsonObject:
        """The survey as data."""
        return {
            "cases": len(self.rows),
            "cold": [
                {"case": row.place, "grade": row.grade.name, "signature": row.signature, "missing": [*row.missing]}
                for row in self.cold
            ],
            "capture": [
                {"what": one.what, "cases": [*one.cases], "alone": [*one.alone], "settings": [*one.settings]}
                for one in self.wants
            ],
            "by": {value: {"cases": count, "cold": cold} for value, count, cold in self.groups},
            "unread": [*self.unread],
        }


def survey(places: Iterable[Path], by: str = "") -> Survey:
    """All cases in these files and folders."""
    rows, unread = [], []
    for place in places:
        for file in files.below(place, FILE) if place.is_dir() else [place]:
            if file.name != FILE:
                continue
            try:
                rows.append(looked_at(file))
            except AgentReplayError as error:
                unread.append(str(error))
    return Survey(tuple(rows), by or "", tuple(unread))


def looked_at(file: Path) -> ColdCase:
    """One case as it is counted. Raises CaseError, SnapshotError."""
    case = parse.read(files.read(file), file=shown(file), folder=file.parent, words=None)
    run, grade = None, Grade.COLD
    if files.exists(file.parent / RUN):
        snapshot = codec.loads(files.read(file.parent / RUN), file=shown(file.parent / RUN))
        run, grade = snapshot.run, kit_of(snapshot.run, READER, digest=snapshot.digest, sealed=snapshot.sealed).grade
    return ColdCase(
        shown(file.parent),
        case.expect == "cold",
        grade,
        signature(case),
        tuple(dict.fromkeys(NUMBERED.sub("", what) for what in case.missing)),
        (case.reason,) if case.reason and case.reason != PARTLY else (),
        of(case, run),
    )


def signature(case: Case) -> str:
    """What went wrong, without the words of this one run."""
    return ", ".join(sorted(dict.fromkeys(map(word, case.observed))))


def word(check: Check) -> str:
    """One check of a signature: its word, with the tool or error that it names."""
    wanted = check.wanted
    if isinstance(wanted, dict):
        wanted = wanted.get("name") or wanted.get("class") or next(iter(wanted), "")
    return f"{check.word} {wanted}".strip()


def of(case: Case, run: Run | None) -> dict[str, tuple[str, ...]]:
    """Whose a case is, each way of counting."""
    kit = run.header.kit if run is not None else {}
    stated = table(kit, "case")
    readings = [READER.read_call(x.call) for x in run.exchanges] if run is not None else []
    models = [reading.model for reading in readings if reading.kind == "model"]
    tools = [x.call.name for x in run.exchanges if isinstance(x.call, ToolCall)] if run is not None else []
    tools += [found[1] for what in case.missing if (found := re.match(r"result of ([^,]+)", what))]
    when = run.header.recorded[11:13] if run is not None else ""
    return {
        "model": told(models),
        "hour": told([f"{when}:00 UTC"] if when else []),
        "tenant": told([str(stated.get("tenant") or table(kit, "annotations").get("tenant") or "")]),
        "tool": told(tools),
    }


def told(values: Sequence[str]) -> tuple[str, ...]:
    """Each value once; of none, that it is not known."""
    return tuple(dict.fromkeys(value for value in values if value)) or (UNKNOWN,)
