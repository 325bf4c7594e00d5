"""Case files: what each key means, what is refused with which words and where, and what is written is read back."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.cases import render
from pytest_agentreplay.cases.case import LIST_NAMES, Case, CaseSource, Check, ServingPolicy
from pytest_agentreplay.cases.schema import parse
from pytest_agentreplay.errors import CaseError

HEAD = 'schemaVersion: "1.0"\nid: lost-order\n'
FULL = """\
schemaVersion: "1.0"
id: lost-order
title: The agent promises a refund that failed
source: {format: langsmith-runs, version: "2", file: source-trace.jsonl, id: r-1, fidelity: semantic, losses: ["no headers"]}
input: {messages: [{role: user, content: "Where is it?"}]}
runner: {observed: broken, desired: fixed}
expect: fixed
observed:
  - tool_failed: issue_refund
  - output: {contains: "I have refunded"}
desired:
  - output: {not_contains: "I have refunded"}
  - tool_called: {name: lookup_order, arguments: {$.order_id: A-1001}, at_least: 1}
  - no_identity_but: {path: $.user_id, is: u-7}
semantic: ["The answer says that the refund was not made"]
serve:
  observed: strict
  desired: {tools: strict}
matching: {ignore: ["$.now"], order: loose}
tolerance: {"lookup_order $.updated_at": ignore, "search $[*].score": 0.01}
labels: [refund]
links: ["https://example.com/1"]
x-ticket: {number: 7}
"""


def read(text, **more):
    data = text if isinstance(text, bytes) else text.encode()
    return parse.read_case(data, file="case.yaml", folder=Path("lost-order"), **more)


def refused(text, *told, **more):
    with pytest.raises(CaseError) as caught:
        read(text, **more)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith("case.yaml")
    for words in told:
        assert words in said, said
    return said


def test_every_key_is_read():
    case = read(FULL)
    assert (case.id, case.expect, case.title) == ("lost-order", "fixed", "The agent promises a refund that failed")
    told = {"format": "langsmith-runs", "version": "2", "file": "source-trace.jsonl", "id": "r-1"}
    assert case.source == CaseSource(**told, fidelity="semantic", losses=("no headers",))
    assert case.input == {"messages": [{"role": "user", "content": "Where is it?"}]}
    assert case.runners == {"observed": "broken", "desired": "fixed"}
    said = Check("output", {"contains": "I have refunded"}, "10:5")
    assert case.observed == (Check("tool_failed", "issue_refund", "9:5"), said)
    assert [check.word for check in case.desired] == ["output", "tool_called", "no_identity_but"]
    assert case.semantic == ("The answer says that the refund was not made",)
    assert case.serving == {"observed": ServingPolicy(), "desired": ServingPolicy("position", "strict", "strict")}
    assert (case.ignore, case.order) == (("$.now",), "loose")
    assert case.tolerance == {"lookup_order $.updated_at": "ignore", "search $[*].score": "0.01"}
    assert (case.labels, case.links) == (("refund",), ("https://example.com/1",))
    assert case.extras == {"x-ticket": {"number": 7}}
    assert case.places["semantic", 0] == "15:12"


def test_what_is_not_said_has_its_default_and_a_cold_case_says_why():
    case = read(HEAD)
    assert (case.expect, case.order, case.source, case.runners) == ("reproduces", "auto", CaseSource(), {})
    assert case.serving == {"observed": ServingPolicy(), "desired": ServingPolicy("position", "arguments", "strict")}
    assert read(HEAD + "runner: shop\n").runners == {"observed": "shop", "desired": "shop"}
    assert read(HEAD + "runner: {desired: shop}\n").runners == {"desired": "shop"}
    assert read(HEAD + "serve: {desired: position}\n").serving["desired"] == ServingPolicy(*["position"] * 3)
    case = read(HEAD + "expect: cold\ncold: {reason: no results were kept, missing: [result of lookup_order]}\n")
    assert (case.reason, case.missing) == ("no results were kept", ("result of lookup_order",))


REFUSED = [
    ("titel: x", ("3:1", "'titel' is no key of a case", "did you mean title?", "x-")),
    ("expect: broken", ("3:1", "expect is reproduces, fixed or cold, not broken")),
    ("source: {file: ../x}", ("3:10", "without a path")),
    ("source: {file: 'c:x'}", ("3:10", "without a path")),
    ("source: {file: ..}", ("3:10", "no file of the folder")),
    ("source: {fidelity: byte}", ("did you mean bytes?",)),
    ("input: Where is it?", ("3:1", "input is keys and values")),
    ("runner: {observe: x}", ("3:10", "did you mean observed?")),
    ("runner: 7", ("3:1", "runner is text or keys and values")),
    ("serve: {desired: {model: strikt}}", ("3:19", "did you mean strict?")),
    ("serve: {desired: {tools: live}}", ("3:19", "serve.desired.tools is strict, position or arguments, not live")),
    ("serve: {desired: {model: arguments}}", ("3:19", "desired.model is strict, position or live, not arguments")),
    ("serve: {observed: live}", ("3:9", "serve.observed is strict or position, not live")),
    ("matching: {ignore: [now]}", ("3:21", "starts with $")),
    ("matching: {order: wild}", ("auto, recorded, free or loose",)),
    ("tolerance: {lookup_order: ignore}", ("3:13", "no tool and place")),
    ("tolerance: {lookup $.a: roughly}", ("3:13", "write ignore, unordered, exact")),
    ("tolerance: {$.final: text(0.5)}", ("3:13", "no tool and place")),
    ("tolerance: {lookup $.a: true}", ("3:13: tolerance.lookup $.a is text; put it in quotes",)),
    ("tolerance: {lookup $.a: [1]}", ("3:13: tolerance.lookup $.a is text or a number",)),
    ("links: [ftp://a]", ("3:9", "is a link")),
    ("id: lost-order", ("3:1", "twice")),
    ("cold: {reason: x}", ("3:1", "expect: cold and cold:")),
    ("expect: cold\ncold: {missing: []}", ("4:1", "cold needs reason")),
    ("observed: {status: ok}", ("3:1", "observed is a list")),
    ("observed: [ok]", ("3:12", "is keys and values")),
    ("observed:\n- status: ok\n  turns: {at_most: 1}", ("4:3", "here are 2", "one line with - each")),
    ("observed:\n- outptu: {contains: x}", ("4:3", "'outptu' is no word of a check", "did you mean output?")),
    ("observed:\n- politeness: 1", ("4:3", "it is one of status, output", "pytest_agentreplay_assertions")),
    ("observed:\n- status: fine", ("4:3", "observed[0].status is ok or error, not fine")),
    ("observed:\n- output: yes, it is", ("4:3", "is keys and values")),
    ("observed:\n- output: {containz: x}", ("4:12", "did you mean contains?")),
    ("observed:\n- output: {contains: ''}", ("4:12", "is empty")),
    ("observed:\n- output: {path: $.a}", ("4:3", "says nothing of it")),
    ("observed:\n- output: {path: price, exists: true}", ("4:12", "starts with $")),
    ("observed:\n- output: {path: $..a..b, exists: true}", ("4:12", "more `..`")),
    ("observed:\n- output: {matches: '(a{90}){90}b'}", ("4:12", "the pattern")),
    ("observed:\n- output: {matches: '(?=a)b'}", ("4:12", "look-ahead")),
    ("observed:\n- tool_called: {name: a, times: -1}", ("4:26", "not less than 0")),
    ("observed:\n- tool_called: {name: a, times: 1, at_most: 1}", ("both bounds",)),
    ("observed:\n- tool_called: {name: a, at_most: 0}", ("write tool_not_called",)),
    ("observed:\n- tool_called: {name: a, arguments: {'$.a[': 1}}", ("4:38", "column 4")),
    ("observed:\n- tool_called: {arguments: {a: 1}}", ("4:3", "needs name")),
    ("observed:\n- tool_called: [a]", ("4:3", "is text or keys and values")),
    ("observed:\n- tool_order: {equal: [a], multiset: [b]}", ("4:3", "one of equal, subsequence")),
    ("observed:\n- tool_order: {equal: [{name: a, arguments: {'$[': 1}}]}", ("4:46", "column 2")),
    ("observed:\n- turns: {at_most: 1, at_least: 2}", ("4:23", "more than at_most, which is 1")),
    ("observed:\n- turns: 4", ("is keys and values",)),
    ("observed:\n- cost: {at_most: 1, prices: {a: {input: 1}}}", ("needs output",)),
    ("observed:\n- error: {}", ("add class or text",)),
    ("observed:\n- exchange: {at: 0, side: reply, exists: true}", ("4:14", "number of a turn")),
    ("observed:\n- exchange: {at: true, side: reply, exists: true}", ("4:14", "is text")),
    ("observed:\n- exchange: {at: 1, side: answer, exists: true}", ("request or reply, not answer",)),
    ("observed:\n- exchange: {at: 1.5, side: reply, exists: true}", ("4:14", "is a whole number")),
    ("observed:\n- no_secret_in_output: false", ("no_secret_in_output: is true, and nothing else",)),
    ("observed:\n- no_secret_in_output: 1", ("no_secret_in_output is true or false",)),
    ("observed:\n- no_identity_but: {path: $.id, is: 2.5}", ("observed[0].no_identity_but.is is a whole number",)),
    ("observed:\n- no_identity_but: {path: $.id, is: [true]}", ("4:38: observed[0].no_identity_but.is[0] is text",)),
    ("observed:\n- no_identity_but: $..user_id", ("4:3", "which is none")),
    ("observed:\n- no_identity_but: {path: '$.users[*]', is: 7}", ("ends in no name",)),
    ('title: "a\\e[31mb"', ("3:1", "without control characters")),
]


def test_what_cannot_be_meant_is_refused_with_its_place():
    for text, told in REFUSED:
        refused(HEAD + text + "\n", *told)


NO_CASE = [
    (b"", ("is empty; restore the file: git restore case.yaml",)),
    (b"[]", ("a case is keys and values",)),
    (b"id: a\n", (":1:1", "begin with schemaVersion")),
    (b"schemaVersion: 1.0\nid: a\n", (":1:1", "in quotes")),
    (b'schemaVersion: "2.0"\nid: a\nnew: 1\n', (":1:1", "form 2.0", "pip install --upgrade")),
    (b'schemaVersion: "0.9"\nid: a\n', (":1:1", 'write schemaVersion: "1.0"')),
    (b'schemaVersion: "1.0"\n', ("needs id",)),
    (b'schemaVersion: "1.0"\nid: ../a\n', (":2:1", "the name of the folder")),
    (b"id: \xff", ("is not UTF-8",)),
    (b"a: 1\n" * 300_000, ("larger than",)),
    (b"a: b: c", ("is no YAML", "stands in quotes; fix this line, or restore the file: git restore case.yaml")),
]


def test_what_is_no_case_is_refused_in_one_line_and_at_a_quick_look():
    for text, told in NO_CASE:
        assert len(refused(text, *told)) < 1500
    for text in (b"", b"[]", b"a: b: c", b"id: \xff", b"id: !!x y", b"a: 1\na: 2", b"id: &a x"):
        with pytest.raises(CaseError):
            parse.headline(text)


def test_all_complaints_come_at_once_in_the_order_of_the_file():
    mistakes = "titel: x\nexpect: broken\nobserved:\n- status: fine\n- outptu: {}\n"
    said = refused(HEAD + mistakes, "case.yaml:3:1: 'titel'")
    places = [said.index(place) for place in (":3:1: ", "; 4:1: ", "; 6:3: ", "; 7:3: ")]
    assert places == sorted(places)
    many = refused(HEAD + "".join(f"k{n}: 1\n" for n in range(40)), "and 32 more")
    assert many.count("is no key") == 8


def test_a_newer_minor_form_is_read_with_a_note():
    more = "mood: dark\nsource: {format: x, planet: earth}\nobserved:\n- mood: 1\n"
    text = HEAD.replace("1.0", "1.4") + more
    case = read(text)
    assert case.notes == ("case.yaml: is of form 1.4, and this release reads 1.0; left aside: mood, source.planet",)
    assert case.observed[0].word == "mood"
    refused(text.replace("lost-order", "a/b"), "the name of the folder")


def test_words_of_other_packages_are_taken_when_they_are_named():
    text = HEAD + "desired:\n- polite: {anything: [goes]}\n"
    refused(text, "'polite' is no word")
    assert read(text, words={"polite"}).desired == (Check("polite", {"anything": ["goes"]}, "4:3"),)
    assert read(text, words=None).desired[0].word == "polite"
    refused(text.replace("polite", "polit"), "did you mean polite?", words={"polite"})


def test_the_headline_is_that_of_the_case():
    case, line = read(FULL), parse.headline(FULL.encode())
    assert (line.id, line.expect, line.labels, line.title) == (case.id, case.expect, case.labels, case.title)
    assert parse.headline(b"observed: 7\nid: [x]\nlabels: {a: b}\n").labels == ()
    assert parse.headline(b"expect: cold\ncold: {reason: gone}\n").reason == "gone"
    with pytest.raises(CaseError, match=r"case.yaml:1:1"):
        parse.headline(b"- 1\n")


@pytest.mark.process
def test_a_quick_look_loads_no_model():
    look = "form.headline(b'id: a'); print('pydantic' in sys.modules)"
    code = f"import sys; from pytest_agentreplay.cases.schema import parse as form; {look}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


# Writing


def without_places(case):
    bare = {half: tuple(replace(check, place="") for check in case.checks(half)) for half in LIST_NAMES}
    return replace(case, places={}, **bare)


@pytest.mark.parametrize("text", [FULL, HEAD, HEAD + "expect: cold\ncold: {reason: x, missing: [y]}\n"])
def test_what_is_written_is_read_back(text):
    case = read(text)
    written = render.case_text(case)
    assert without_places(read(written)) == without_places(case)
    assert render.case_text(read(written)) == written


def test_what_is_written_is_made_to_be_read():
    text = render.case_text(read(FULL), schema="../case.schema.json")
    first, *rest = text.splitlines()
    assert first == "# yaml-language-server: $schema=../case.schema.json"
    assert rest[:2] == HEAD.splitlines()
    assert "# what went wrong: true of the frozen run\nobserved:\n  - tool_failed: issue_refund\n" in text
    assert "  - The answer says that the refund was not made\n" in text
    assert max(map(len, text.splitlines())) <= 120


LINES = st.text("aZ9 :-#'\"{}[]\\éß🙂$.", min_size=1, max_size=20).filter(lambda text: text == " ".join(text.split()))
WANTED = st.dictionaries(st.sampled_from(["a", "$.b", "$['c d']"]), LINES | st.integers() | st.none(), max_size=3)
WORDS = {
    "output": st.fixed_dictionaries({"contains": LINES}),
    "tool_called": st.fixed_dictionaries({"name": LINES, "arguments": WANTED}),
    "turns": st.fixed_dictionaries({"at_most": st.integers(0, 10**6)}),
    "status": st.sampled_from(["ok", "error"]),
}
CHECKS = st.lists(st.one_of(st.builds(Check, st.just(w), how) for w, how in WORDS.items()), max_size=4).map(tuple)
SERVED, TOOLS = st.sampled_from(["strict", "position", "live"]), st.sampled_from(["strict", "position", "arguments"])
ARGUMENTS = st.dictionaries(LINES, LINES | st.booleans(), max_size=3)
CASES = st.builds(
    Case,
    file=st.just("case.yaml"),
    folder=st.just(Path("lost-order")),
    id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True),
    title=LINES | st.just(""),
    input=st.none() | st.fixed_dictionaries({"arguments": ARGUMENTS}),
    runners=st.dictionaries(st.sampled_from(LIST_NAMES), LINES),
    observed=CHECKS,
    desired=CHECKS,
    semantic=st.lists(LINES, max_size=3).map(tuple),
    expect=st.sampled_from(["reproduces", "fixed"]),
    serving=st.fixed_dictionaries(dict.fromkeys(LIST_NAMES, st.builds(ServingPolicy, SERVED, TOOLS, SERVED))),
    ignore=st.lists(st.sampled_from(["$.now", "$..id"]), max_size=2).map(tuple),
    labels=st.lists(LINES, max_size=3).map(tuple),
    extras=st.dictionaries(LINES.map(lambda text: f"x-{text}"), LINES | st.integers(), max_size=2),
)


@given(CASES)
def test_any_case_comes_back(case):
    assert without_places(read(render.case_text(case))) == without_places(case)


def test_a_title_of_a_stranger_becomes_a_line_and_what_no_text_can_hold_is_refused():
    title = "Refund\x1b[2J\n\u202eevil " + "x" * 600
    case = read(render.case_text(replace(read(HEAD), title=title)))
    assert case.title.startswith("Refund\\x1b[2J \\u202eevil xxx")
    assert len(case.title) == 500
    with pytest.raises(CaseError, match="input cannot be written"):
        render.case_text(replace(read(HEAD), input={"arguments": {"a": "\ud800"}}))


FULL_OF_MISTAKES = {
    "keys": "".join(f"key{n}: 1\n" for n in range(8_000)),
    "nested": "source: {" + ", ".join(f"x{n}: 1" for n in range(8_000)) + "}\n",
    "words": "observed:\n" + "".join(f"- wor{n}: 1\n" for n in range(6_000)),
    "one check": "observed:\n- {" + ", ".join(f"wor{n}: 1" for n in range(8_000)) + "}\n",
    "patterns": "observed:\n" + "- output: {matches: '(a{90}){90}b'}\n" * 4_000,
    "tolerances": "tolerance: {" + ", ".join(f"x{n}: 1" for n in range(8_000)) + "}\n",
}


@pytest.mark.parametrize("what", FULL_OF_MISTAKES)
def test_a_file_full_of_mistakes_is_refused_as_shortly_as_any(what):
    assert len(refused(HEAD + FULL_OF_MISTAKES[what])) < 4000
