"""Settings compared over the same tests: pairs of runs, the sign test, and the tables that show them."""

import csv
import io
import random

from pytest_agentreplay.compare.live_result import Drift, LiveResult
from pytest_agentreplay.report.live_reports import (
    compare_settings,
    format_comparison,
    format_comparison_csv,
    format_comparison_html,
)

DRIFT = (Drift("model", "$.tools", "exact", "another tool"),)


def runs(test, pattern, *, cost=0.01, tokens=100, seconds=1.0, cell="LF"):
    """One run for each letter: "+" as recorded, "-" drifted, "!" stopped."""
    return [
        LiveResult(
            test,
            cell,
            number,
            drifts=DRIFT if word == "-" else (),
            tokens={"input": tokens, "output": 20},
            cost=cost,
            seconds=seconds,
            stopped="budget: calls=3" if word == "!" else "",
        )
        for number, word in enumerate(pattern, 1)
    ]


def rows_of(**patterns):
    """The rows by test and setting, for settings that are dicts of patterns by test."""
    results = {
        name: [run for test, row in tests.items() for run in runs(test, row)] for name, tests in patterns.items()
    }
    return {(row["test"], row["setting"]): row for row in compare_settings(results)}


def test_runs_are_paired_by_test_and_number():
    rows = rows_of(a={"t": "++--", "u": "++++"}, b={"t": "+-+-", "u": "----"})
    assert list(rows) == [("t", "a"), ("t", "b"), ("u", "a"), ("u", "b"), ("", "a"), ("", "b")]
    row = rows["t", "b"]
    assert (row["passes"], row["runs"], row["wins"], row["losses"], row["ties"], row["p"]) == (2, 4, 1, 1, 2, 1.0)
    assert (rows["u", "b"]["losses"], rows["u", "b"]["p"]) == (4, 0.125)
    assert (rows["", "b"]["wins"], rows["", "b"]["losses"], rows["", "b"]["ties"]) == (1, 5, 2)
    assert {row["verdict"] for (_, setting), row in rows.items() if setting == "a"} == {""}


def test_what_the_pairs_show():
    ten = "+" * 10
    expected = {
        "----------": "worse",
        "++++------": "worse",
        "+++++-----": "no difference shown",
        "++++++++++": "no difference shown",
        "++++": "inconclusive",
        "!!!!!!!!!!": "inconclusive",
        "++++++++!!": "inconclusive",
        "------!!!!": "worse",
    }
    assert {pattern: rows_of(a={"t": ten}, b={"t": pattern})["", "b"]["verdict"] for pattern in expected} == expected
    assert rows_of(a={"t": "-" * 10}, b={"t": ten})["", "b"]["verdict"] == "better"


def test_equal_models_are_seldom_called_worse():
    chance, wrong = random.Random(31), 0
    for _ in range(2000):
        a, b = ("".join(chance.choices("+-", [0.8, 0.2], k=20)) for _ in range(2))
        wrong += rows_of(a={"t": a}, b={"t": b})["", "b"]["verdict"] == "worse"
    print(f"a model that is as good is called worse in {wrong} of 2,000 comparisons of 20 runs")
    assert wrong <= 2000 * 0.025


def test_what_a_run_takes_is_that_of_runs_that_were_finished():
    results = {
        "a": runs("t", "++", cost=0.25, tokens=80, seconds=2.0) + runs("t", "!", tokens=9000, cost=9.0),
        "b": [*runs("t", "+", cost=None), *runs("t", "+", cell="FF", tokens=5000)],
        "c": [],
    }
    (a, b, c), (*_, last) = compare_settings(results)[:3], compare_settings({"a": runs("t", "-", cell="FF")})
    assert (last["runs"], last["stopped"]) == (0, "left out: it is not as recorded even with a frozen model")
    assert (a["cost"], a["tokens"], a["seconds"], a["runs"], a["stopped"]) == (0.25, 100, 2.0, 2, "budget: calls=3")
    assert (b["cost"], b["tokens"], b["runs"]) == (None, 120, 1)
    assert (c["runs"], c["cost"], c["verdict"], c["stopped"]) == (0, None, "inconclusive", "no run was made")


def test_nothing_is_concluded_where_the_first_setting_has_no_runs():
    assert rows_of(a={"t": "!!"}, b={"t": "++++++++"})["", "b"]["verdict"] == "inconclusive"


def test_the_table_of_a_terminal():
    results = {
        "model=a": [
            *runs("tests/test_shop.py::test_refund[x]", "+++++++++-"),
            *runs("tests/test_shop.py::test_\x1b[31m", "+!"),
        ],
        "model=b": [
            *runs("tests/test_shop.py::test_refund[x]", "+---------", cost=None),
            *runs("tests/test_shop.py::test_\x1b[31m", "++"),
        ],
    }
    text = format_comparison(compare_settings(results))
    assert text.splitlines() == [
        "  setting  passed  + - =      p      cost  tokens   time",
        "tests/test_shop.py::test_refund[x]",
        "  model=a    9/10                $0.01000     120  1.00s",
        "  model=b    1/10  0 8 2  0.008               120  1.00s",
        "    worse",
        "tests/test_shop.py::test_\\x1b[31m",
        "  model=a     1/1                $0.01000     120  1.00s",
        "    budget: calls=3",
        "  model=b     2/2  0 0 1  1.000  $0.01000     120  1.00s",
        "    inconclusive",
        "all tests",
        "  model=a   10/11                $0.01000     120  1.00s",
        "    budget: calls=3",
        "  model=b    3/12  0 8 3  0.008               120  1.00s",
        "    worse",
    ]
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_table_of_a_spreadsheet_holds_no_formula():
    names = ['=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", "\tx", "a,b\n=1"]
    rows = compare_settings({"=model": [run for name in names for run in runs(name, "+")]})
    head, *cells = csv.reader(io.StringIO(format_comparison_csv(rows)))
    assert head == list(rows[0])
    tests = [row[0] for row in cells if row[0]]
    assert tests == [*("'" + name for name in names[:5]), "a,b\n=1"]
    assert {row[1] for row in cells} == {"'=model"}
    assert len(cells) == len(rows)


def test_the_page_escapes_what_it_shows():
    rows = compare_settings({"<b>&": runs("<script>alert(1)</script>\u202e", "+")})
    page = format_comparison_html(rows, ["<i>note"])
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in page
    assert "&lt;b&gt;&amp;" in page
    assert "&lt;i&gt;note" in page
    assert "://" not in page
    assert page.count("<tr>") == 1 + len(rows)
    assert all(f"<td>{name}</td>" in page for name in rows[0])
