"""A run held against the assertions of a case: which hold, which do not and why, which need a person."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.case import Check
from pytest_agentreplay.cases.checks import WORDS, hold, no_word
from pytest_agentreplay.cases.evidence import CaseEvidence
from pytest_agentreplay.errors import CaseError, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_agentreplay.cases.case import Case, ListName

__all__ = ["CaseEvidence", "CheckResult", "Judgement", "judge"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check: `held` (None: nobody could say), and lines for people: expected, there, nearest."""

    check: Check
    held: bool | None
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What came of one list of checks. `human` are the semantic checks that no judge has made."""

    results: tuple[CheckResult, ...] = ()
    human: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether every check holds; False for none at all: an empty list shows nothing."""
        return bool(self.results) and all(result.held for result in self.results)


def judge(
    case: Case,
    list_name: ListName,
    evidence: CaseEvidence,
    *,
    words: Mapping[str, Callable[[Any, CaseEvidence], object]] | None = None,
    judges: Iterable[Callable[[Case, str, CaseEvidence], object]] = (),
) -> Judgement:
    """Hold `evidence` against one list of checks of `case`.

    `words` are those that other packages add, `judges` are asked about the checks in words, which belong to `desired`,
    until one says more than None. Both say True, False, None (cannot say), or a text: why not. Raises CaseError for a
    word that nobody knows.
    """
    if evidence.input is None:
        evidence = replace(evidence, input=case.input)
    results = [_result(case, check, evidence, words or {}) for check in case.checks(list_name)]
    human = []
    for at, sentence in enumerate(case.semantic if list_name == "desired" else ()):
        check = Check("semantic", sentence, case.places.get(("semantic", at), ""))
        answers = (_asked(judge, "the judge", case, sentence, evidence) for judge in judges)
        told = next((answer for answer in answers if answer is not None), None)
        if told is None:
            human.append(sentence)
        else:
            results.append(CheckResult(check, *told))
    return Judgement(tuple(results), tuple(human), case.notes)


def _result(case: Case, check: Check, evidence: CaseEvidence, added: Mapping[str, Any]) -> CheckResult:
    if check.word in WORDS:
        return CheckResult(check, *hold(check.word, check.wanted, evidence))
    if check.word not in added:
        raise CaseError(no_word(check.word, added), file=case.file, place=check.place)
    told = _asked(added[check.word], f"the word {check.word}", check.wanted, evidence)
    return CheckResult(check, *(told or (None, ("cannot say",))))


def _asked(ask: Callable[..., object], who: str, *about: object) -> tuple[bool | None, tuple[str, ...]] | None:
    """What code of others says; None where it says nothing. What it raises makes no check pass."""
    try:
        answer = ask(*about)
    except Exception as error:
        return None, (visible(f"cannot say: {who} raised {type(error).__name__}: {error}"),)
    match answer:
        case None:
            return None
        case bool():
            return answer, () if answer else ("does not hold",)
        case str():
            return False, tuple(visible(answer).splitlines()) or ("does not hold",)
        case _:
            return None, (f"cannot say: {who} gave {type(answer).__name__}; give True, False, None or a text",)
