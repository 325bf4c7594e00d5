"""The verdict on one half of a case, as plain data, and how people are told it: in a terminal, as a panel, in a line.

Rules of this module: the policy under which a half was tried is always named; what held under `position` is called
robust, never proven; what needs a person is counted, never passed over.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.report.escape import escape_line, wrap_text
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.report.notices import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.report.finding import Finding

# What was found. "cannot say": the run left the frozen one, or a check could not be made; "broken": the case is.
Word: TypeAlias = Literal[
    "reproduced", "not reproduced", "fixed", "robust", "not fixed", "cannot say", "broken", "no runner", "cold",
    "human", "asks live", "holds", "breaks",
]  # fmt: skip
# Whether that is what the case expects: as pytest's passed, failed, xfailed and skipped.
Outcome: TypeAlias = Literal["passed", "failed", "expected", "unsaid"]

# The words as the summary counts them.
WORDS: tuple[Word, ...] = (
    "reproduced", "not reproduced", "fixed", "robust", "not fixed", "cannot say", "broken", "no runner", "cold",
    "asks live", "holds", "breaks",
)  # fmt: skip

FROZEN = "the frozen run"
NARROW = 40
PANEL_LABEL = 20


@dataclass(frozen=True, slots=True)
class Checked:
    """One assertion of a case in words, whether it holds (None: nobody could say), where it stands, and why."""

    text: str
    held: bool | None
    place: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one half of a case.

    `headline` is complete by itself. `place` (line:column) is where people should look in `file`. `served` is the
    policy, or FROZEN, `answers` how many answers came how. `human` are the checks in words that nobody has made.
    `finding` tells where the run parted, `network` how closed it was to an agent of this process, `unheard` where that
    has loaded libraries in C by hand.
    `neighbours` are on how many a fix was tried, and how many hold. `live` is what a live model took, and why it was
    "stopped".
    """

    case: str
    file: str
    half: str
    expect: str
    word: Word
    outcome: Outcome
    headline: str
    place: str = ""
    served: str = FROZEN
    answers: str = ""
    checks: tuple[Checked, ...] = ()
    human: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    network: str = ""
    unheard: dict[str, str] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    finding: Finding | None = None
    neighbours: tuple[int, int] = (0, 0)
    next: tuple[tuple[str, str], ...] = field(default=())

    @property
    def summary(self) -> HalfSummary:
        """What the end of a session needs of it."""
        return HalfSummary(self.case, self.file, self.word, self.human, self.network, self.unheard, self.neighbours)

    def plain(self) -> dict[str, Any]:
        """Return the verdict as JSON takes it."""
        verdict: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return verdict


def format_verdict(verdict: Verdict, *, width: int = 80, verbosity: int = 0) -> str:
    """Return a half that is not as expected as text: the headline, the checks that do not hold, what to type next."""
    width = max(NARROW, width)
    blocks = [wrap_text(verdict.headline, width, "", "  ")]
    checks = verdict.checks if verbosity > 0 else [check for check in verdict.checks if not check.held]
    # What is as it should be needs no list; the word says it.
    if verdict.word not in {"reproduced", "fixed", "robust"} and checks:
        blocks.append([row for check in checks for row in check_rows(check, verdict.file, width)])
    if verdict.finding is not None:
        _, _, course = format_finding(verdict.finding, width=width - 2).partition("\n\n")  # its headline is in ours
        blocks.append(["  " + row if row else "" for row in course.splitlines()])
    rows = [row for note in verdict.notes for row in wrap_text(note, width, "  note  ")]
    rows += [row for check in verdict.human for row in wrap_text(check, width, "  needs human  ")]
    rows += wrap_text(format_served(verdict), width, "  served  ")
    blocks.append(rows)
    blocks.append([f"  {label}:  {escape_line(command)}" for label, command in verdict.next])
    return "\n".join(row for block in blocks if block for row in (*block, ""))[:-1]


def format_served(verdict: Verdict) -> str:
    """Return the policy, and what came of it."""
    return f"{verdict.served} ({verdict.answers})" if verdict.answers else verdict.served


def check_rows(check: Checked, file: str, width: int) -> list[str]:
    """Return a check: whether it holds, in its words, where it stands, and what was there instead."""
    word = {True: "holds", False: "fails", None: "unsaid"}[check.held]
    rows = wrap_text(check.text, width, f"  {word:<7} ")
    if check.place:
        rows.append(f"{' ' * 10}{file}:{check.place}")
    return rows + [row for line in check.lines for row in wrap_text(line, width, " " * 12, " " * 14)]


def format_panel(
    verdicts: Sequence[Verdict], *, title: str, width: int = 80, network: str = "", evidence: str = ""
) -> str:
    """Return both halves in one look: reproduced or not, how much of the desired holds, who served, what now."""
    width = max(NARROW, width)
    first = verdicts[0]
    rows = wrap_text(f"{first.case}: {title}" if title else first.case, width, "", "  ")
    for verdict in verdicts:
        rows += label_rows(*format_panel_row(verdict), width)
    if first.word != "cold":
        human = [text for verdict in verdicts for text in verdict.human]
        rows += label_rows("needs human", str(len(human)), width)
        rows += [row for text in human for row in label_rows("", text, width)]
        policies = dict.fromkeys(f"{verdict.half} {format_served(verdict)}" for verdict in verdicts)
        rows += label_rows("served", "; ".join(policies), width)
    rows += label_rows("network", network, width) if network else []
    unheard = {library: place for verdict in verdicts for library, place in verdict.unheard.items()}
    for library, place in unheard.items():
        rows += label_rows("unheard", f"{place} loads {library} with ctypes: what it does is not refused", width)
    fine = all(verdict.outcome != "failed" for verdict in verdicts)
    rows += label_rows("as expected", f"{'yes' if fine else 'NO'} (expect: {first.expect})", width)
    rows += label_rows("evidence", evidence, width) if evidence else []
    return "\n".join(rows)


def format_panel_row(verdict: Verdict) -> tuple[str, str]:
    """Return the line of one half in the panel."""
    match verdict.word, verdict.half:
        case "cold", _:
            return "cold", verdict.headline.removeprefix("cold: ")
        case (("cannot say" | "broken" | "no runner"), half):
            return "failure reproduced" if half == "observed" else half, verdict.headline
        case _, "observed":
            return "failure reproduced", "yes" if verdict.word == "reproduced" else "no"
        case _:
            robust = ": robust, no proof" if verdict.word == "robust" else ""
            count = sum(1 for check in verdict.checks if check.held)
            return "desired", f"{count} of {len(verdict.checks)} hold{robust}"


def label_rows(label: str, text: str, width: int) -> list[str]:
    """Return a row of the panel."""
    return wrap_text(text, width, f"  {label:<{PANEL_LABEL}}  ")


@dataclass(frozen=True, slots=True)
class HalfSummary:
    """What the end of a session needs of a verdict: it crosses xdist; the names are those of `Verdict`."""

    case: str
    file: str
    word: Word
    human: tuple[str, ...] = ()
    network: str = ""
    unheard: dict[str, str] = field(default_factory=dict)
    neighbours: tuple[int, int] = (0, 0)


def count_halves(halves: Sequence[HalfSummary]) -> str:
    """Return the line at the end of a session: how many halves came to what, and what waits for people."""
    words = Counter(half.word for half in halves)
    cases = len({(half.file, half.case) for half in halves})
    human = sum(len(half.human) for half in halves)
    counts = [f"{words[word]} {word}" for word in WORDS if words[word]]
    counts += [f"needs human {human}"] if human else []
    tried, holding = (sum(half.neighbours[place] for half in halves) for place in (0, 1))
    counts += [f"{format_count(tried, 'neighbour')} of fixes, {holding} hold"] if tried else []
    return f"{format_count(cases, 'case')}: {', '.join(counts)}"
