"""What GitHub Actions is told: annotations that no text can end, and the table of a step."""

import re
from dataclasses import replace

import pytest

from pytest_agentreplay.report.finding import Cause
from pytest_agentreplay.report.github import (
    MOST_ROWS,
    DivergedTest,
    format_annotation,
    format_step_summary,
    make_diverged_test,
)
from tests.support.dead_text import TEXTS, list_alive

COMMAND = re.compile(r"::(?:error|notice) file=[^:,]*,line=\d+,title=[^:,]*::[^\r\n]*")


def diverged(
    test="test_a.py::test_b", code="AR-ARGS", what="turn 4/7: tool f: $.a changed", origin="shop/agent.py:88 in f"
):
    return DivergedTest(Cause("d", code, f"[{code}] {what}", test), "4/7", origin, ("test_a.py", 3))


def test_an_annotation_stands_where_the_agent_made_the_call():
    assert format_annotation(diverged(), "packages/shop/") == (
        "::error file=packages/shop/shop/agent.py,line=88,title=AR-ARGS turn 4/7 test_a.py%3A%3Atest_b"
        "::[AR-ARGS] turn 4/7: tool f: $.a changed"
    )
    assert format_annotation(diverged(origin="")).startswith("::error file=test_a.py,line=3,title=")


def test_beside_the_plugin_that_annotates_tests_it_is_a_notice_and_only_at_another_place():
    assert format_annotation(replace(diverged(), is_annotated=True)).startswith("::notice file=shop/agent.py,line=88,")
    assert format_annotation(replace(diverged(origin=""), is_annotated=True)) == ""


def test_data_and_properties_are_escaped_as_github_asks():
    line = format_annotation(diverged(test="a,b:c%\r\n", what="100 %, a:b\r\n::error::x", origin="a,b:c.py:1 in f"))
    assert line == (
        "::error file=a%2Cb%3Ac.py,line=1,title=AR-ARGS turn 4/7 a%2Cb%3Ac%25\\r\\n::[AR-ARGS] 100 %25, a:b\\r\\n\\x3a:error::x"
    )


@pytest.mark.parametrize("row", TEXTS, ids=lambda row: row["id"])
def test_no_recorded_text_ends_an_annotation_or_lives_in_the_table(row):
    text = row["payload"]
    test = diverged(test=text, code="AR-ARGS", what=text, origin=f"{text}:7 in f")
    assert COMMAND.fullmatch(format_annotation(test)), format_annotation(test)
    assert list_alive(format_step_summary([test], 1)) == []


def test_the_table_of_a_step():
    tests = [diverged(), diverged(test="test_a.py::test_c[a|b]"), diverged(code="AR-NEW", what="no snapshot")]
    assert format_step_summary(tests, 38) == (
        "**agentreplay: 3 of 38 tests diverged**: 2 AR-ARGS (tool arguments changed), 1 AR-NEW (no snapshot)\n"
        "\n"
        "| test | code | turn | what | see all of it |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| `test_a.py::test_b` | `AR-ARGS` | `4/7` | `tool f: $.a changed` | `pytest -vv test_a.py::test_b` |\n"
        "| `test_a.py::test_c[a\\|b]` | `AR-ARGS` | `4/7` | `tool f: $.a changed` |"
        ' `pytest -vv "test_a.py::test_c[a\\|b]"` |\n'
        "| `test_a.py::test_b` | `AR-NEW` | `4/7` | `no snapshot` | `pytest -vv test_a.py::test_b` |\n"
        "\n"
    )
    many = format_step_summary([diverged()] * (MOST_ROWS + 2), 0)
    assert many.endswith("\nand 2 more: the log of this step has them\n\n")


def test_the_turn_is_told_where_there_is_one():
    facts = {"agentreplay.turn": "2", "agentreplay.turns": "3", "agentreplay.origin": "a.py:1 in f"}
    cause = Cause("d", "AR-NEW", "[AR-NEW] x", "t")
    assert make_diverged_test(cause, facts, ("t.py", 1)).turn == "2/3"
    assert make_diverged_test(cause, {}, ("t.py", 1)).turn == ""
