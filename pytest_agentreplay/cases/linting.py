"""What is wrong with a case that can be read: what no run could show, what every run shows, what nobody can reach.

contradictory   two checks of one list that no run satisfies, or observed and desired that want the same
trivial         a check that holds whatever the agent did, or desired that the frozen run shows already
untrue          observed that the frozen run does not show: nothing would be reproduced
dead            a fixture that no frozen call reaches and that nobody wrote
cold, folder    what is not there, what does not belong
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

from pytest_agentreplay.cases import judging
from pytest_agentreplay.cases.case import FILE, FIXTURES, NOTES, RUN, SOURCE_TRACE
from pytest_agentreplay.cases.checks.calls import CheckedCall, bounds, read_call
from pytest_agentreplay.cases.checks.values import is_same
from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import AMOUNTS, WORDS, no_word
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.turns import tool_of
from pytest_agentreplay.providers import READER
from pytest_agentreplay.values import freeze_arguments

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pytest_agentreplay.cases.case import Case, Check, ListName
    from pytest_agentreplay.cases.evidence import CaseEvidence
    from pytest_agentreplay.cases.fixtures import Fixtures
    from pytest_agentreplay.cases.judging import CheckResult
    from pytest_agentreplay.model.exchanges import JsonObject, Run

OURS = re.compile(
    rf"{re.escape(FILE)}|{re.escape(RUN)}|{re.escape(NOTES)}|{FIXTURES}/[^/]+\.yaml|{SOURCE_TRACE}(?:-\d+)?\.[\w.-]+",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class LintProblem:
    """One thing that is wrong: its rule, what it is and what to do, and where (file, and line:column where known).

    A "warning" is no failure.
    """

    rule: str
    message: str
    file: str
    place: str = ""
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        where = f"{self.file}:{self.place}" if self.place else self.file
        return f"{where}: {self.level}: {self.message} [{self.rule}]"


def lint(case: Case, run: Run | None, fixtures: Fixtures, words: Collection[str] = ()) -> tuple[LintProblem, ...]:
    """Return what is wrong with a case, its frozen run (None where there is none) and its fixtures.

    `words` are those of other packages, which are neither judged nor complained about.
    """
    problems = [*_of_the_case(case, words)]
    if run is not None:
        problems += [*_of_the_run(case, run), *_of_the_fixtures(run, fixtures)]
    elif case.expect != "cold":
        problems.append(
            LintProblem("missing", f"there is no {RUN}: scaffold the case again, or mark it cold", case.file)
        )
    return tuple(problems)


def strangers(case: Case, files: Iterable[str]) -> Iterator[LintProblem]:
    """Yield what `files`, by their path in the case's folder, hold that is no part of a case, or lack that is one."""
    there = {*files}
    for name in sorted(there):
        if not OURS.fullmatch(name):
            message = f"{name} is no file of a case; what you keep beside it goes elsewhere"
            yield LintProblem("folder", message, case.file, "", "warning")
    if case.source.file and case.source.file not in there:
        place = case.places.get(("source", "file"), "")
        yield LintProblem("missing", f"source.file is {case.source.file}, and no such file is there", case.file, place)


def _of_the_case(case: Case, words: Collection[str]) -> Iterator[LintProblem]:
    if case.folder.name and case.id != case.folder.name:
        message = f"id is {case.id}, and the folder is called {case.folder.name}: let them be one"
        yield LintProblem("id", message, case.file, case.places.get(("id",), ""))
    for note in case.notes:
        yield LintProblem("newer", note.removeprefix(f"{case.file}: "), case.file, "", "warning")
    for list_name in ("observed", "desired"):
        for check in case.checks(list_name):
            if check.word not in WORDS and check.word not in words:
                yield LintProblem("word", no_word(check.word, words), case.file, check.place, "warning")
    if case.expect == "reproduces" and not case.observed:
        yield _make_problem(
            case, "expect", "empty", "expect: reproduces needs observed: checks that say what went wrong"
        )
    if case.expect == "fixed" and not case.desired:
        yield _make_problem(case, "expect", "empty", "expect: fixed needs desired: what the fixed agent shows")
    for rule, check, message in (*find_trivial(case), *contradictions(case)):
        yield LintProblem(rule, message, case.file, check.place)
    if case.expect == "cold" and not case.missing:
        yield _make_problem(
            case, "cold", "cold", "a cold case lists what a replay would need: cold: {missing: [...]}", "warning"
        )


def _of_the_run(case: Case, run: Run) -> Iterator[LintProblem]:
    """Observed that is not true of the frozen run; desired that is already."""
    evidence = frozen(run)
    level: Literal["error", "warning"] = "warning" if case.expect == "cold" else "error"
    for result in _judge_our_words(case, "observed", evidence):
        if not result.holds:
            why = "; ".join(line.strip() for line in result.lines)
            message = f"observed is not true of the frozen run: {result.check.word}: {why}"
            yield LintProblem("untrue", message, case.file, result.check.place, level)
    desired = _judge_our_words(case, "desired", evidence)
    if desired and not case.semantic and all(result.holds for result in desired):
        message = "the frozen run shows all that is desired: it says nothing about a fix"
        yield LintProblem("trivial", message, case.file, case.places.get(("desired",), ""))


def _judge_our_words(case: Case, list_name: ListName, evidence: CaseEvidence) -> tuple[CheckResult, ...]:
    """Return the results of the checks whose words are ours."""
    ours = tuple(check for check in case.checks(list_name) if check.word in WORDS)
    return judging.judge(replace(case, observed=ours, desired=ours, semantic=()), list_name, evidence).results


def _of_the_fixtures(run: Run, fixtures: Fixtures) -> Iterator[LintProblem]:
    """Answers that no frozen call reaches; those that a person wrote for a tool of the run are for calls to come."""
    calls = calls_of(run)
    answers = [fixtures.answer(tool, arguments) for tool, arguments in calls]
    reached = {id(answer) for answer in answers if answer is not None}
    tools = {tool for tool, _ in calls}
    for fixture in fixtures.fixtures:
        for answer in fixture.answers:
            if id(answer) in reached or (answer.written and fixture.tool in tools):
                continue
            of_these = (
                f" has the arguments {canonical(answer.arguments):.100}" if fixture.tool in tools else " is there"
            )
            message = f"no call of {fixture.tool} in the frozen run{of_these}: nothing can reach this answer"
            level: Literal["error", "warning"] = "warning" if answer.written else "error"
            yield LintProblem("dead", message, answer.file, answer.place, level)


def calls_of(run: Run) -> list[tuple[str, JsonObject]]:
    """Return the tool calls of a run as fixtures answer them: shown name, frozen arguments.

    Where no boundary stood at any tool: those that the model asked for.
    """
    calls = [tool_of(x.call, READER) for x in run.exchanges]
    made = [(call.name, call.arguments) for call in calls if call is not None]
    return made or [(call.name, freeze_arguments(call.arguments)) for call in frozen(run).tool_calls]


def _make_problem(
    case: Case, key: str, rule: str, message: str, level: Literal["error", "warning"] = "error"
) -> LintProblem:
    return LintProblem(rule, message, case.file, case.places.get((key,), ""), level)


CALLED = frozenset({"tool_called", "tool_failed"})


def find_trivial(case: Case) -> Iterator[tuple[str, Check, str]]:
    """Checks that hold for every run that there is."""
    for check in (*case.observed, *case.desired):
        expectation = check.wanted if isinstance(check.wanted, dict) else {}
        if check.word in AMOUNTS and "at_most" not in expectation and not expectation.get("at_least"):
            yield "trivial", check, f"every run has {check.word} of at least 0"
        elif check.word == "tool_called" and bounds(expectation) == (0, None):
            yield "trivial", check, "every tool is called at least 0 times"
        elif check.word == "repeated_call" and "at_most" not in expectation and expectation.get("at_least") == 0:
            yield "trivial", check, "every run with a call has one that was made once"
        elif check.word == "tool_order" and not next(iter(expectation.values()), None) and "subsequence" in expectation:
            yield "trivial", check, "no call at all comes in this order in every run"


def contradictions(case: Case) -> Iterator[tuple[str, Check, str]]:
    """Pairs of checks that no run satisfies; checks that both lists have, word for word."""
    for list_name in ("observed", "desired"):
        for a, b in combinations(case.checks(list_name), 2):
            if why := explain_conflict(a, b) or explain_conflict(b, a):
                yield "contradictory", b, f"no run can show this and {a.word} at {a.place}: {why}"
    for b in case.desired:
        for a in case.observed:
            if a.word == b.word and is_same(a.wanted, b.wanted):
                yield "contradictory", b, f"the failure at {a.place} and its fix are the same check"


def explain_conflict(a: Check, b: Check) -> str:
    """Return why no run satisfies both; "" where one may."""
    if a.word == b.word:
        return _of_one_word(a.word, a.wanted, b.wanted)
    if a.word in CALLED and b.word in {"tool_not_called", "forbidden_tools"}:
        return _called_and_not(a, b)
    if a.word == "tool_order" and b.word in {"tool_not_called", "forbidden_tools"}:
        for item in (item for items in a.wanted.values() for item in items):  # type: ignore[union-attr]
            if read_call(item).name in _list_refused_tools(b):
                return f"{read_call(item).name} is called and is not"
    return ""


def _called_and_not(a: Check, b: Check) -> str:
    want = read_call(a.wanted)
    if a.word == "tool_called" and bounds(a.wanted if isinstance(a.wanted, dict) else {})[0] == 0:
        return ""
    narrower = b.word == "forbidden_tools" or read_call(b.wanted).arguments is None
    alike = not narrower and _text(read_call(b.wanted)) == _text(want) and a.word == "tool_called"
    return f"{want.name} is called and is not" if want.name in _list_refused_tools(b) and (narrower or alike) else ""


def _list_refused_tools(check: Check) -> list[Any]:
    return check.wanted if check.word == "forbidden_tools" else [read_call(check.wanted).name]  # type: ignore[return-value]


def _of_one_word(word: str, a: Any, b: Any) -> str:
    if word == "status" and a != b:
        return "a run ends once"
    if word in AMOUNTS:
        return _explain_disjoint(a.get("at_least", 0), a.get("at_most"), b.get("at_least", 0), b.get("at_most"))
    if word == "tool_called" and _text(read_call(a)) == _text(read_call(b)):
        return _explain_disjoint(*bounds(a if isinstance(a, dict) else {}), *bounds(b if isinstance(b, dict) else {}))
    if word == "output" and a.get("path") == b.get("path"):
        return _of_outputs(a, b) or _of_outputs(b, a)
    if word == "tool_order" and "equal" in a and "equal" in b and not is_same(a["equal"], b["equal"]):
        return "the calls come in one order"
    return ""


def _of_outputs(a: Any, b: Any) -> str:
    if "path" not in a and "equals" in a and "equals" in b and not is_same(a["equals"], b["equals"]):
        return "it is one of the two"
    says = a.get("contains") or (a.get("equals") if isinstance(a.get("equals"), str) else None)
    if says and b.get("not_contains") and b["not_contains"] in says:
        return f"{b['not_contains']!r:.60} is in it and is not"
    if a.get("exists") is False and any(name in b for name in ("equals", "contains", "matches")):
        return "there is none, and it is something"
    if a.get("exists") is False and b.get("exists") is True:
        return "there is none, and there is one"
    return ""


def _explain_disjoint(low: float, high: float | None, other_low: float, other_high: float | None) -> str:
    if high is not None and other_low > high:
        return f"at most {high:g} and at least {other_low:g}"
    if other_high is not None and low > other_high:
        return f"at most {other_high:g} and at least {low:g}"
    return ""


def _text(want: CheckedCall) -> str:
    return json.dumps([want.name, want.arguments], sort_keys=True, default=repr)
