"""The verdict on a case, as plain data, and how it is shown: in a terminal, as a panel, in the footer.

Two rules: how the agent was served is always shown, and what held on replies served by their position says so
("holds on recorded replies"). Checks that only a person can judge are counted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.report.escape import escape_line, wrap_text
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.report.notices import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.report.finding import Finding

# Whether the case holds, or why nobody knows. "changed": the agent is not in the state that `expect` names.
Word: TypeAlias = Literal[
    "holds", "changed", "cannot tell", "broken", "no runner", "not fixed yet", "cold", "to read", "asks live"
]  # fmt: skip
# What the agent does today, as far as it is known.
State: TypeAlias = Literal[
    "", "reproduces", "fixed", "fixed on recorded replies", "no longer reproduces", "fails differently", "not fixed"
]  # fmt: skip
# As pytest's passed, failed, xfailed and skipped.
Outcome: TypeAlias = Literal["passed", "failed", "expected", "skipped"]

# As the footer counts them, after those that hold.
WORDS: tuple[Word, ...] = (
    "cold", "changed", "cannot tell", "broken", "no runner", "not fixed yet", "to read", "asks live"
)  # fmt: skip

SHOWN = {"cold": "cannot be replayed", "reproduces": "reproduces the failure"}
"""How words and states are shown where they need more than themselves."""
ON_RECORDED = " on recorded replies"
"""The end of a state: the model's recorded replies were served in their order, whatever was asked."""
FROZEN = "the frozen run"
NARROW = 40
PANEL_LABEL = 16
TITLES = {"observed": "observed checks (what went wrong)", "desired": "desired checks (what a fixed agent must show)"}


@dataclass(frozen=True, slots=True)
class Checked:
    """One check in words, whether it holds (None: nobody could say), where it stands, and why."""

    text: str
    held: bool | None
    place: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListResult:
    """What one list of checks comes to. `state` is its column in `runs.cases.verdict_rules`, `text` says it in words.

    `served` is the policy, or FROZEN; `answers` counts the answers by kind. `finding` says where the run left its
    recording. `network`, `unheard` and `live` are as in `CaseEvidence`.
    """

    state: str
    text: str
    place: str = ""
    served: str = FROZEN
    answers: str = ""
    checks: tuple[Checked, ...] = ()
    notes: tuple[str, ...] = ()
    network: str = ""
    unheard: dict[str, str] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    finding: Finding | None = None
    next: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a case.

    `headline` is complete by itself. `decided_by` names the list that decided. `place` (line:column) is where people
    should look in `file`. `to_read` are the checks in words that no judge has made. `neighbours` counts those that a
    fix was tried on, and those that hold. `served` is for a kept neighbour, which has no lists.
    """

    case: str
    file: str
    expect: str
    word: Word
    state: State = ""
    outcome: Outcome
    headline: str
    place: str = ""
    decided_by: str = ""
    observed: ListResult | None = None
    desired: ListResult | None = None
    to_read: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    served: str = ""
    neighbours: tuple[int, int] = (0, 0)
    next: tuple[tuple[str, str], ...] = ()

    @property
    def lists(self) -> dict[str, ListResult]:
        """Both lists of checks, as far as the case has them."""
        return {name: each for name, each in (("observed", self.observed), ("desired", self.desired)) if each}

    @property
    def decisive(self) -> ListResult | None:
        """The list that decided."""
        return self.lists.get(self.decided_by)

    @property
    def live(self) -> dict[str, Any]:
        """What a live model took; of the list that decided, where that was live."""
        return next((each.live for each in (self.decisive, self.desired, self.observed) if each and each.live), {})

    @property
    def summary(self) -> CaseSummary:
        """What the end of a session needs of it."""
        results = self.lists.values()
        unheard = {name: place for result in results for name, place in result.unheard.items()}
        levels = (*{result.network for result in results} - {""},)
        return CaseSummary(self.word, self.state, len(self.to_read), levels, unheard, self.neighbours)

    def plain(self) -> dict[str, Any]:
        """Return the verdict as JSON takes it."""
        verdict: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return verdict


@dataclass(frozen=True, slots=True)
class CaseSummary:
    """What the end of a session needs of a verdict: it crosses xdist."""

    word: Word
    state: State = ""
    to_read: int = 0
    networks: tuple[str, ...] = ()
    unheard: dict[str, str] = field(default_factory=dict)
    neighbours: tuple[int, int] = (0, 0)


def format_verdict(verdict: Verdict, *, width: int = 80, verbosity: int = 0) -> str:
    """Return a verdict as text: the headline, the checks that do not hold, how it was served, what to type next."""
    width = max(NARROW, width)
    blocks = [wrap_text(f"{verdict.case}: {verdict.headline}", width, "", "  ")]
    # A failure that went another way is seen in both lists; elsewhere one list decides.
    every = verbosity > 0 or verdict.state in {"fails differently", "no longer reproduces"}
    for name, result in verdict.lists.items():
        checks = [check for check in result.checks if verbosity > 0 or not check.held]
        if checks and (every or name == verdict.decided_by):
            rows = [row for check in checks for row in check_rows(check, verdict.file, width)]
            blocks.append([f"  {TITLES[name]}", *rows])
    if (decisive := verdict.decisive) is not None and decisive.finding is not None:
        _, _, course = format_finding(decisive.finding, width=width - 2).partition("\n\n")  # its headline is in ours
        blocks.append(["  " + row if row else "" for row in course.splitlines()])
    rows = [row for note in list_notes(verdict) for row in wrap_text(note, width, "  note  ")]
    rows += [row for check in verdict.to_read for row in wrap_text(check, width, "  only a person can judge  ")]
    rows += wrap_text(format_served(verdict), width, "  served  ")
    blocks.append(rows)
    blocks.append([f"  {label}:  {escape_line(command)}" for label, command in verdict.next])
    return "\n".join(row for block in blocks if block for row in (*block, ""))[:-1]


def list_notes(verdict: Verdict) -> list[str]:
    """Return the notes of a verdict and of its lists, each once."""
    return [*dict.fromkeys([*verdict.notes, *(note for result in verdict.lists.values() for note in result.notes)])]


def format_served(verdict: Verdict) -> str:
    """Return how the agent was served: once where both lists were held against the same run."""
    served = {name: f"{each.served} ({each.answers})".removesuffix(" ()") for name, each in verdict.lists.items()}
    if len({*served.values()}) < 2:
        return next(iter(served.values()), verdict.served)
    return "; ".join(f"{name} checks {text}" for name, text in served.items())


def check_rows(check: Checked, file: str, width: int) -> list[str]:
    """Return a check: whether it holds, in its words, where it stands, and what was there instead."""
    word = {True: "holds", False: "fails", None: "unknown"}[check.held]
    rows = wrap_text(check.text, width, f"    {word:<7} ")
    if check.place:
        rows.append(f"{' ' * 12}{file}:{check.place}")
    return rows + [row for line in check.lines for row in wrap_text(line, width, " " * 14, " " * 16)]


def format_to_read(count: int) -> str:
    """Return how many checks are for people: "1 check only a person can judge"."""
    return f"{format_count(count, 'check')} only a person can judge"


def format_panel(verdict: Verdict, *, title: str, width: int = 80, network: str = "", evidence: str = "") -> str:
    """Return a case in one look: whether it holds, what each list came to, how it was served."""
    width = max(NARROW, width)
    rows = wrap_text(f"{verdict.case}: {title}" if title else verdict.case, width, "", "  ")
    rows += label_rows("verdict", format_word(verdict), width)
    for name, result in verdict.lists.items():
        rows += label_rows(f"{name} checks", result.text.replace(f" {name} checks hold", " hold"), width)
    if verdict.to_read:
        rows += label_rows("to judge", format_to_read(len(verdict.to_read)), width)
        rows += [row for text in verdict.to_read for row in label_rows("", text, width)]
    if verdict.word != "cold":
        rows += label_rows("served", format_served(verdict), width)
    rows += label_rows("network", network, width) if network else []
    for library, place in verdict.summary.unheard.items():
        rows += label_rows("unheard", f"{place} loads {library} with ctypes: what it does is not refused", width)
    rows += label_rows("evidence", evidence, width) if evidence else []
    return "\n".join(rows)


def format_word(verdict: Verdict) -> str:
    """Return whether a case holds, and the state that says so: "holds on recorded replies: fixed (expect: fixed)"."""
    if verdict.word == "cold" or not verdict.lists:
        return f"{SHOWN.get(verdict.word, verdict.word)}: {verdict.headline}"
    if verdict.outcome in {"skipped", "expected"}:
        return verdict.headline
    by = ON_RECORDED if verdict.word == "holds" and verdict.state.endswith(ON_RECORDED) else ""
    state = f": {verdict.state.removesuffix(by)}" if verdict.state else ""
    return f"{verdict.word}{by}{state} (expect: {verdict.expect})"


def label_rows(label: str, text: str, width: int) -> list[str]:
    """Return a row of the panel."""
    return wrap_text(text, width, f"  {label:<{PANEL_LABEL}}  ")


def count_cases(cases: Sequence[CaseSummary]) -> str:
    """Return the line at the end of a session: "cases: 5 as expected (3 reproduce the failure, 2 fixed), 2 changed"."""
    words, states = Counter(case.word for case in cases), Counter(case.state for case in cases if case.word == "holds")
    kinds = ", ".join(f"{count} {SHOWN.get(state, state)}" for state, count in sorted(states.items(), reverse=True))
    counts = (
        [re.sub(r"(?<!\b1 )\breproduces\b", "reproduce", f"{words['holds']} as expected ({kinds})")] if kinds else []
    )
    counts += [f"{words[word]} {SHOWN.get(word, word)}" for word in WORDS if words[word]]
    counts += [format_to_read(count)] if (count := sum(case.to_read for case in cases)) else []
    tried, holding = (sum(case.neighbours[place] for case in cases) for place in (0, 1))
    counts += [f"{format_count(tried, 'neighbour')} of fixes, {holding} hold"] if tried else []
    return f"cases: {', '.join(counts)}"
