"""A proposed case, cut to what a case file can say, that has bounds in length, size and number, and to what holds.

What does not fit stands in the frozen run alone, and the case says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.cases import render
from pytest_agentreplay.cases.case import FILE, MOST_ITEMS
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.cases.timeline import plain
from pytest_agentreplay.errors import CaseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_agentreplay.cases.case import Case, Check
    from pytest_agentreplay.core.model import Run

LINE, SENTENCE = 500, 2000
"""Characters of a line and of a sentence in a case file."""
TOO_LARGE = "its input is more than a case file may hold: it stands in the run alone"
UNSAID = "what looks wrong cannot all be said in a case file: notes.md tells it"


UNTRUE = "{}: left out, because the frozen run as it is stored does not show it"
SHOWN = "desired: left out, because the frozen run shows all of it"
NO_SIGN = "no check that was inferred holds on the frozen run: write one under observed and set expect: reproduces"


def holding(case: Case, run: Run) -> Case:
    """The case without the checks that would make it a broken one, evaluated as its file and its run will be read."""
    written, evidence = (
        parse.read(render.case_text(case).encode(), file=FILE, folder=case.folder, words=None),
        frozen(run),
    )
    results = judge(written, "observed", evidence).results
    observed = tuple(check for check, result in zip(case.observed, results, strict=True) if result.held)
    losses = [UNTRUE.format(result.check.word) for result in results if not result.held]
    if judge(written, "desired", evidence).holds:
        case, losses = replace(case, desired=()), [*losses, SHOWN]
    if case.expect == "reproduces" and not observed:
        case = replace(case, expect="cold", reason=NO_SIGN, missing=("a check of what went wrong",))
    return losing(replace(case, observed=observed), *losses) if losses else case


def fitting(case: Case) -> Case:
    """The case as a file can say it. Raises CaseError where nothing of it can be said."""
    source = replace(case.source, id=plain(case.source.id)[:LINE], version=plain(case.source.version)[:LINE])
    case = replace(case, source=source, missing=sentences(case.missing), reason=case.reason[:SENTENCE])
    case = losing(case)
    if not readable(case):
        case = with_checks(case)
    if not readable(case):
        case = losing(replace(case, input=None), TOO_LARGE)
    parse.read(render.case_text(case).encode(), file=FILE, folder=case.folder, words=None)
    return case


def with_checks(case: Case) -> Case:
    """The case with the checks that a file can say, each looked at alone."""
    bare = replace(case, input=None, desired=(), semantic=())

    def sayable(checks: Sequence[Check]) -> tuple[Check, ...]:
        return tuple(check for check in checks[:MOST_ITEMS] if readable(replace(bare, observed=(check,))))

    semantic = sentences(case.semantic)
    kept = replace(case, observed=sayable(case.observed), desired=sayable(case.desired), semantic=semantic)
    return case if kept == case else losing(kept, UNSAID)


def readable(case: Case) -> bool:
    """Whether what is written of the case can be read again."""
    try:
        parse.read(render.case_text(case).encode(), file=FILE, folder=case.folder, words=None)
    except (CaseError, UnicodeEncodeError):
        return False
    return True


def losing(case: Case, *losses: str) -> Case:
    """The case, and what else its source does not tell."""
    return replace(case, source=replace(case.source, losses=sentences((*case.source.losses, *losses))))


def sentences(found: Sequence[str]) -> tuple[str, ...]:
    """As many sentences as a case file takes, each as long; of more how many."""
    told = [one[:SENTENCE] for one in found if one]
    more = len(told) - MOST_ITEMS
    return tuple(told if more <= 0 else (*told[: MOST_ITEMS - 1], f"{more + 1:,} more"))
