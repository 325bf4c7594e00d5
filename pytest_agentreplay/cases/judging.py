"""The vocabulary of checks, the same in both lists of a case and in `run.assert_*`; and a run held against a case.

    endings   status output error exchange no_secret_in_output turns tokens cost duration
    calls     tool_called tool_not_called tool_failed forbidden_tools tool_order repeated_call
    identity  no_identity_but

A word takes what is wanted, as JSON, and the evidence. What is not there to be judged makes a word say nothing.
`find_faults` says what a word cannot want, whatever its type: what is no path, what contradicts itself, what is slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.case import Check
from pytest_agentreplay.cases.checks import calls, endings, identity
from pytest_agentreplay.cases.checks.values import COMPARISONS, LONGEST_PATH, AnswerCheck, unknown
from pytest_agentreplay.errors import CaseError, SettingsError, visible
from pytest_agentreplay.model.path_parsing import compile_path
from pytest_agentreplay.redaction.regexes import RefusedPattern, compile_linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_agentreplay.cases.case import Case, ListName
    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.model.json_paths import Place

    Complaint = tuple[Place, str]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check: `holds` (None: nobody could say), and lines for people: expected, there, nearest."""

    check: Check
    holds: bool | None
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
        return bool(self.results) and all(result.holds for result in self.results)


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
        answers = (_ask_hook(judge, "the judge", case, sentence, evidence) for judge in judges)
        verdict = next((answer for answer in answers if answer is not None), None)
        if verdict is None:
            human.append(sentence)
        else:
            results.append(CheckResult(check, *verdict))
    return Judgement(tuple(results), tuple(human), case.notes)


def _result(case: Case, check: Check, evidence: CaseEvidence, added: Mapping[str, Any]) -> CheckResult:
    if check.word in WORDS:
        return CheckResult(check, *check_word(check.word, check.wanted, evidence))
    if check.word not in added:
        raise CaseError(no_word(check.word, added), file=case.file, place=check.place)
    answer = _ask_hook(added[check.word], f"the word {check.word}", check.wanted, evidence)
    return CheckResult(check, *(answer or (None, ("cannot say",))))


def _ask_hook(ask: Callable[..., object], who: str, *about: object) -> tuple[bool | None, tuple[str, ...]] | None:
    """Return what code of others says; None where it says nothing. What it raises makes no check pass."""
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


WORDS: dict[str, Callable[[Any, CaseEvidence], AnswerCheck]] = {
    "status": endings.status,
    "output": endings.output,
    "tool_called": calls.tool_called,
    "tool_not_called": calls.tool_not_called,
    "tool_failed": calls.tool_failed,
    "forbidden_tools": calls.forbidden_tools,
    "tool_order": calls.tool_order,
    "repeated_call": calls.repeated_call,
    "turns": endings.turns,
    "tokens": endings.tokens,
    "cost": endings.cost,
    "duration": endings.duration,
    "error": endings.error,
    "exchange": endings.exchange,
    "no_secret_in_output": endings.no_secret_in_output,
    "no_identity_but": identity.no_identity_but,
}
"""Every word, in the order in which documents name them."""
TOOL_WORDS = {"tool_called", "tool_not_called", "tool_failed", "forbidden_tools", "tool_order", "repeated_call"}
"""Words about the tools that were called, of which nobody can say anything where no calls were told."""
MODEL_WORDS = {"turns", "tokens", "cost"}
"""Words about the calls of the model, of which nobody can say anything where no run is known."""


def check_word(word: str, expectation: Any, evidence: CaseEvidence) -> AnswerCheck:
    """Hold `evidence` against one word. Never raises for what a run holds: what cannot be looked at says nothing."""
    if word in TOOL_WORDS and "tool_calls" in evidence.unknown:
        return unknown("nobody told which tools were called")
    if word in MODEL_WORDS and evidence.run is None:
        return unknown("the model calls of this run are not known")
    try:
        holds, lines = WORDS[word](expectation, evidence)
    except RecursionError:
        holds, lines = unknown("the run holds values that are nested too deep")
    return AnswerCheck(holds, tuple(map(visible, lines)))


def no_word(word: str, added: Iterable[str] = ()) -> str:
    """Return the message about a word that nobody knows."""
    close = get_close_matches(word, [*WORDS, *added], n=1)
    hint = f"did you mean {close[0]}?" if close else f"it is one of {', '.join([*WORDS, *added])}"
    return f"{word!r:.60} is no word of a check: {hint} (packages add words by pytest_agentreplay_assertions)"


AMOUNTS = frozenset({"turns", "tokens", "cost", "duration"})


def find_faults(word: str, expectation: Any) -> Iterator[Complaint]:
    """Yield what is wrong with what a word wants: where in it, and what to write instead."""
    if word == "tool_order":
        yield from _order(expectation)
    elif word == "no_identity_but" and isinstance(expectation, str):
        yield from _path((), expectation, deep=False)
    elif word == "no_secret_in_output" and expectation is False:
        yield (), "is true, and nothing else"
    if not isinstance(expectation, dict):
        return
    if "path" in expectation:
        yield from _path(("path",), expectation["path"], deep=word != "no_identity_but")
    if isinstance(arguments := expectation.get("arguments"), dict):
        for name in arguments:
            if name.startswith("$"):
                yield from _path(("arguments", name), name)
    if "matches" in expectation:
        yield from _regex(expectation["matches"])
    yield from _bounds(word, expectation)
    if word in {"output", "exchange"} and not any(name in expectation for name in COMPARISONS):
        yield (), f"says nothing of it: add {', '.join(COMPARISONS[:-1])} or {COMPARISONS[-1]}"
    if word == "exchange" and expectation.get("at") in {0, ""}:
        yield ("at",), "is the number of a turn (1 is the first, -1 the last), or the name of a tool"
    if word == "error" and not expectation.get("class") and not expectation.get("text"):
        yield (), "says nothing of it: add class or text"


def _order(orders: Any) -> Iterator[Complaint]:
    if len(orders) != 1:
        yield (), "is one of equal, subsequence and multiset"
    for how, items in orders.items():
        for at, item in enumerate(items):
            yield from ((((how, at, *place)), what) for place, what in find_faults("tool_called", item))


def _bounds(word: str, expectation: Mapping[str, Any]) -> Iterator[Complaint]:
    least, most = expectation.get("at_least"), expectation.get("at_most")
    if least is not None and most is not None and least > most:
        yield ("at_least",), f"is more than at_most, which is {most}"
    if "times" in expectation and (least is not None or most is not None):
        yield ("times",), "says both bounds: leave at_least and at_most out"
    if word == "tool_called" and least is None and most == 0:
        yield ("at_most",), "is none: write tool_not_called"
    if word in AMOUNTS and least is None and most is None:
        yield (), "says nothing of it: add at_most or at_least"


def _path(place: Place, text: str, *, deep: bool = True) -> Iterator[Complaint]:
    if len(text) > LONGEST_PATH:
        yield place, f"is longer than {LONGEST_PATH} characters"
        return
    try:
        steps = compile_path(text).steps
    except SettingsError as error:
        yield place, str(error)
        return
    if sum(step.deep for step in steps) > deep:
        yield place, f"{text!r:.60} holds more `..` than {'one' if deep else 'it may, which is none'}: name the way"
    elif not deep and (not steps or not isinstance(steps[-1].want, str)):
        yield place, f"{text!r:.60} ends in no name: write the field that says whose a record is, like $.user_id"


def _regex(text: str) -> Iterator[Complaint]:
    try:
        compile_linear(text)
    except RefusedPattern as error:
        yield ("matches",), f"the pattern {text!r:.60}: {error}"
