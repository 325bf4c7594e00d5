"""A run held against a case: words of others, judges of sentences, and what needs a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agentreplay.cases.evidence import frozen
from pytest_agentreplay.cases.judging import judge
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.errors import CaseError
from tests.support.chat_runs import refund

CASE = """\
schemaVersion: "1.0"
id: lost-order
input: {arguments: {user_id: u-7}}
observed:
  - tool_failed: issue_refund
  - output: {contains: refunded}
desired:
  - output: {not_contains: refunded}
  - turns: {at_most: 3}
semantic: [the answer is polite, the answer is short]
"""
EVIDENCE = frozen(refund())


def case(text=CASE, **more):
    return parse.read_case(text.encode(), file="case.yaml", folder=Path("lost-order"), **more)


def test_a_half_holds_when_all_of_it_does():
    observed, desired = judge(case(), "observed", EVIDENCE), judge(case(), "desired", EVIDENCE)
    assert observed.holds
    assert [result.holds for result in observed.results] == [True, True]
    assert not desired.holds
    assert [(result.holds, result.check.place) for result in desired.results] == [(False, "8:5"), (True, "9:5")]
    assert desired.results[0].lines[0] == "output says it"


def test_sentences_need_a_person_and_belong_to_what_is_desired():
    assert judge(case(), "observed", EVIDENCE).human == ()
    assert judge(case(), "desired", EVIDENCE).human == ("the answer is polite", "the answer is short")
    fixed = judge(case(), "desired", frozen(refund("I could not pay you back.")))
    assert (fixed.holds, len(fixed.human)) == (True, 2)
    alone = case('schemaVersion: "1.0"\nid: a\nsemantic: [it is polite]\n')
    assert not judge(alone, "desired", EVIDENCE).holds, "nobody has said anything yet"


def test_judges_are_asked_until_one_says_something():
    asked = []

    def first(given, sentence, evidence):
        asked.append((given.id, sentence, evidence.output))

    def second(_, sentence, __):
        return True if "polite" in sentence else "it has\n100 words"

    result = judge(case(), "desired", EVIDENCE, judges=(first, second, pytest.fail))
    assert asked[0] == ("lost-order", "the answer is polite", "I have refunded order A-1001.")
    assert result.human == ()
    assert [(one.check.word, one.holds, one.lines, one.check.place) for one in result.results[2:]] == [
        ("semantic", True, (), "10:12"),
        ("semantic", False, ("it has", "100 words"), "10:34"),
    ]


def test_a_judge_that_says_nothing_sensible_makes_nothing_pass():
    for odd in (lambda *_: 0, lambda *_: object(), lambda *_: {}["no model"]):
        result = judge(case(), "desired", EVIDENCE, judges=(odd,))
        assert [one.holds for one in result.results[2:]] == [None, None]
        assert result.results[2].lines[0].startswith("cannot say: the judge ")


def test_other_packages_add_words():
    text = CASE.replace("semantic", "x-semantic").replace("turns: {at_most: 3}", "polite: {least: 2}")
    seen = []

    def polite(wanted, evidence):
        seen.append((wanted, evidence.status))
        return "no \x1b[31mplease"

    added = case(text, words={"polite"})
    result = judge(added, "desired", EVIDENCE, words={"polite": polite}).results[1]
    assert (result.holds, result.lines) == (False, ("no \\x1b[31mplease",))
    assert seen == [({"least": 2}, "ok")]
    assert judge(added, "desired", EVIDENCE, words={"polite": lambda *_: None}).results[1].holds is None
    assert judge(added, "desired", EVIDENCE, words={"polite": lambda *_: True}).results[1].holds is True
    with pytest.raises(CaseError, match=r"^case.yaml:9:5: 'polite' is no word of a check"):
        judge(added, "desired", EVIDENCE)


def test_what_the_agent_was_given_is_that_of_the_case():
    text = CASE.replace("turns: {at_most: 3}", "no_identity_but: $.user_id")
    (_, result) = judge(case(text), "desired", EVIDENCE).results
    assert result.lines == ("cannot say: no tool gave a record that holds user_id",)
