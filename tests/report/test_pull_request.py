"""The comment on a pull request: what is known of cost, what is left out, and the hostile corpus as recorded text."""

import json
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report.change_blocks import LONGEST
from pytest_agentreplay.report.escape import escape_code
from pytest_agentreplay.report.pull_request import (
    RevisionComparison,
    RunFacts,
    compare_runs,
    describe_facts,
    format_comment,
    list_case_changes,
    list_fact_changes,
)
from pytest_agentreplay.snapshots.codec import Snapshot
from tests.support.dead_text import TEXTS, list_alive


def run_of(text, answer="fine"):
    """A run in which `text` is the prompt, a tool, the model, and the id of the test."""
    tool = {"type": "function", "function": {"name": text, "description": text, "parameters": {}}}
    request = {"model": text, "messages": [{"role": "system", "content": text}], "tools": [tool]}
    reply = json.dumps({"model": text, "choices": [{"message": {"content": answer + text}}]}).encode()
    call = HttpCall("POST", "http://127.0.0.1:1/v1/chat/completions", (), Body(json.dumps(request).encode()))
    answered = HttpReply(200, body=Body(reply), cuts=(len(reply),))
    exchanges = (Exchange(call, answered, 0, 1), Exchange(ToolCall(text, {"a": text}), ToolReply(text), 2, 3))
    return Run(Header(f"test_a.py::test_b[{text}]", outcome={"status": text}), exchanges)


def compared(old, new, former=()):
    """Return what differs between two revisions, given as snapshots, or as runs that nobody edited."""
    comparison = RevisionComparison("a" * 40, "b" * 40)
    old, new = (
        {name: Snapshot(each, "1.0") if isinstance(each, Run) else each for name, each in side.items()}
        for side in (old, new)
    )
    compare_runs(comparison, (old, new), dict(former), Matching(READER, RULES), ())
    return comparison


@pytest.mark.parametrize("row", TEXTS, ids=lambda row: row["id"])
def test_recorded_text_is_dead_wherever_it_stands(row):
    text = row["payload"]
    old, new = run_of("hello"), run_of(text, "fine, ")
    comparison = compared({"a": old, "gone" + text: old}, {"a": new, "new" + text: replace(new, exchanges=())})
    comparison.unreadable[text] = text
    comparison.cases[text] = list_case_changes({"title": text}, {"title": "x", text: text})
    comment = format_comment(comparison, f"agentreplay summarize {text} --json")
    assert list_alive(comment) == []
    assert all(char.isprintable() or char == "\n" for char in comment)
    assert not [line for line in comment.splitlines() if line.startswith(("::", "##"))]


def test_the_check_of_dead_text_sees_what_is_alive():
    for text in ("[a](http://b)", "![a](http://b)", "<b>", "@all", "closes #1", "# title", "https://a.example"):
        assert list_alive(text), text


@pytest.mark.parametrize("text", ["a|b", "a\\|b", "``a`|b", "`", "", "a\\", "||", "@x|@y"])
def test_code_in_a_table_is_one_cell(text):
    table = f"| x | y |\n| --- | --- |\n| {escape_code(text, cell=True)} | end |\n"
    cells = [token for token in MarkdownIt("commonmark").enable("table").parse(table) if token.type == "td_open"]
    assert len(cells) == 2
    assert list_alive(table) == []


def test_a_comment_has_an_end_and_says_what_it_leaves_out():
    runs = {str(number): run_of(f"{number} " + "word " * 200) for number in range(300)}
    comment = format_comment(compared({}, runs), "agentreplay summarize a..b --json")
    assert len(comment) <= LONGEST
    assert re.search(r"\d+ more parts left out, .* `agentreplay summarize a\.\.b --json`\n$", comment)
    assert comment.startswith("**agentreplay: 300 recorded runs new.**")


def test_a_long_difference_is_folded_and_has_an_end():
    old, new = run_of("same"), run_of("\n".join(f"rule {number}" for number in range(500)))
    comment = format_comment(compared({"a": old}, {"a": new}), "x")
    assert "<details><summary>" in comment
    assert re.search(r"@@ \d+ more lines @@\n```\n\n</details>\n", comment)
    assert list_alive(comment) == []


def test_a_kind_with_many_differences_shows_the_first_and_folds_the_others():
    old = {str(number): replace(run_of("hello"), header=Header(f"t.py::t{number}")) for number in range(9)}
    new = {name: replace(run_of("hello", f"fine {name} "), header=run.header) for name, run in old.items()}
    comment = format_comment(compared(old, new), "x")
    assert comment.count("**Model reply changed** in 9 tests") == 1
    assert (comment.count("```diff"), comment.count("<details>")) == (9, 4)


def test_what_a_run_comes_to_and_what_has_no_price():
    before = RunFacts("t", "passed", 7, ("m",), 1200, 0.015)
    assert list_fact_changes(before, before) == []
    unpriced = RunFacts("t", "passed", 7, ("m",), 1, None)
    assert list_fact_changes(unpriced, RunFacts("t", "passed", 7, ("m",), None, None)) == [
        "tokens 1 -> unknown",
        "cost unknown (no price in `agentreplay_prices`)",
    ]
    assert list_fact_changes(before, RunFacts("t", "failed", 8, ("n",), 1300, None)) == [
        "test `passed` -> `failed`",
        "turns 7 -> 8",
        "model `m` -> `n`",
        "tokens 1,200 -> 1,300",
        "cost USD 0.0150 -> unknown (no price in `agentreplay_prices`)",
    ]
    told = "tool `refund` runs for real in a replay (AR-UNFROZEN)"
    assert list_fact_changes(before, replace(before, unfrozen=("refund",))) == [told]
    assert told in describe_facts(replace(before, unfrozen=("refund",)))


def test_a_run_that_was_edited_by_hand_since_says_why_that_was_accepted():
    recorded, edited = Snapshot(run_of("hello"), "1.0"), run_of("hello", "lost ")
    cheap = Snapshot(edited, "1.0", revisions=({"reason": "cheap|`x`", "at": "2026-11-29"},))
    told = "- `test_a.py::test_b[hello]`: model reply changed; `` edited by hand, accepted: cheap|`x` (2026-11-29) ``\n"
    assert told in format_comment(compared({"a": recorded}, {"a": cheap}), "x")
    assert "edited by hand" not in format_comment(compared({"a": cheap}, {"a": replace(cheap, run=recorded.run)}), "x")
    assert "edited by hand, accepted" in format_comment(compared({}, {"a": cheap}), "x")
    opened = format_comment(compared({"a": cheap}, {"a": replace(cheap, sealed=False)}), "x")
    assert "`edited by hand, not accepted`" in opened


def test_the_same_change_in_many_runs_is_one_and_a_run_under_another_name_is_renamed():
    old = {str(number): replace(run_of("hello"), header=Header(f"t.py::t{number}")) for number in range(12)}
    new = {name: replace(run, exchanges=run.exchanges[:1]) for name, run in old.items()}
    (shared,) = compared(old, new).shared
    assert len(shared.tests) == 12
    comment = format_comment(compared(old, new), "x")
    assert "**A recorded call was not made** in 12 tests\n\n`" in comment
    assert comment.count("in `t.py::t0`, `t.py::t1`, `t.py::t10`, `t.py::t11`, `t.py::t2` and 7 more\n") == 1
    moved = compared({"a": old["1"]}, {"b": replace(old["1"], header=Header("u.py::t9"))}, {"b": "a"})
    assert (moved.renamed, moved.new, moved.removed) == ({"b": "a"}, {}, {})
    changed = compared({"a": old["1"]}, {"b": replace(new["1"], header=Header("u.py::t9"))}, {"b": "a"})
    assert [(run.file, run.former) for run in changed.changed] == [("b", "a")]
    assert "- `u.py::t9` (renamed from `t.py::t1`): " in format_comment(changed, "x")
