"""`agentreplay live drift`: what live runs gave over time, as text, plain data and a page."""

import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from pytest_agentreplay.cli.verbs import Exit
from pytest_agentreplay.compare.live_result import LiveResult
from pytest_agentreplay.report.live_reports import build_rows, format_page, format_trend
from pytest_agentreplay.runs.live import history

TEST = "tests/test_shop.py::test_order"


def runs(date, passes, failures, model="small", **changes):
    made = LiveResult(
        TEST, "LF", at=date, tokens={"input": 1000, "output": 250}, cost=0.0125, seconds=2.0, model=model, session=date
    )
    return [
        dataclasses.replace(made, run=run, passed=run <= passes, **changes) for run in range(1, passes + failures + 1)
    ]


HISTORY = [
    *runs("2026-11-01T09:00:00Z", 14, 0, served_models=("small-0801",), fingerprints=("fp_1",)),
    *runs("2026-11-01T10:00:00Z", 9, 1, "a-model-with-a-long-name-20260801", cost=None),
    *runs("2026-11-08T09:00:00Z", 4, 6, served_models=("small-1105",), fingerprints=("fp_1",), seconds=3.25),
    *runs("2026-11-15T09:00:00Z", 1, 2, served_models=("small-1105",), fingerprints=("fp_2",), cost=0.02),
    *runs("2026-11-15T09:00:00Z", 0, 9, stopped="a budget", model="never asked"),
    *runs("2026-11-15T09:00:00Z", 0, 9, cell="FF", model="never asked"),
]

TABLE = """\
date        model             passed    rate [interval]  tokens    cost  seconds
2026-11-01  small              14/14  1.00 [0.67, 1.00]   1,250  0.0125     2.00
2026-11-01  a-model-with-a-~    9/10  0.90 [0.45, 1.00]   1,250       -     2.00
2026-11-08  small               4/10  0.40 [0.08, 0.81]   1,250  0.0125     3.25
  ^ served model small-0801 -> small-1105
2026-11-15  small                1/3  0.33 [0.00, 0.93]   1,250  0.0200     2.00
  ^ fingerprint fp_1 -> fp_2

pass rate                     0                                               1
2026-11-01  small             |                               ░░░░░░░░░░░░░░░░█|
2026-11-01  a-model-with-a-~  |                     ░░░░░░░░░░░░░░░░░░░░░░█░░░░|
2026-11-08  small             |   ░░░░░░░░░░░░░░░░█░░░░░░░░░░░░░░░░░░░         |
2026-11-15  small             |░░░░░░░░░░░░░░░░█░░░░░░░░░░░░░░░░░░░░░░░░░░░░   |
"""


def test_a_table_with_a_plot_marks_what_changed_at_the_provider(root, typed):
    history.append(root, HISTORY)
    done = typed("live", "drift")
    assert (done.code, done.err) == (Exit.SAME, "")
    assert done.out == TABLE
    assert max(map(len, done.out.splitlines())) == 80


def test_a_wider_terminal_shows_whole_names_and_one_without_blocks_shows_other_signs():
    lines = format_trend(build_rows(HISTORY[:24]), 120, "cp1252")
    assert "\n".join(lines).isascii()
    assert lines[2].startswith("2026-11-01  a-model-with-a-long-name-20260801    9/10  0.90 [0.45, 1.00]")
    assert re.fullmatch(r"2026-11-01  small {30}\| {46,49}-{20,24}#\|", lines[5])
    assert len(lines[5]) == 120


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ((), [("2026-11-01", "small", 14), ("2026-11-01", "a-model-with-a-long-name-20260801", 9), ("2026-11-08", "small", 4), ("2026-11-15", "small", 1)]),
        (("--by", "model"), [("", "small", 19), ("", "a-model-with-a-long-name-20260801", 9)]),
        (("--by", "date"), [("2026-11-01", "", 23), ("2026-11-08", "", 4), ("2026-11-15", "", 1)]),
        (("--test", "test_other"), [("2026-11-16", "small FL +prompt", 3)]),
    ],
)  # fmt: skip
def test_rows_are_those_of_days_and_models(root, typed, words, rows):
    history.append(root, HISTORY)
    other = runs("2026-11-16T09:00:00Z", 3, 0, test="test_other", cell="FL", changed={"model": "small", "prompt": "@p"})
    if words[:1] == ("--test",):
        history.append(root, other)
    data = json.loads(typed("live", "drift", "--json", *words).out)
    assert [(row["date"], row["model"], row["passes"]) for row in data["rows"]] == rows


def test_without_a_live_run_it_says_what_to_type(root, typed):
    assert typed("live", "drift") == (
        Exit.NOTHING, "", "agentreplay: there is no live run in the history. To make one:\n  pytest --replay=live\n"
    )  # fmt: skip
    history.append(root, HISTORY)
    assert typed("live", "drift", "--test", "x::y").err.endswith("\n  pytest --replay=live x::y\n")


def test_bad_histories_are_named(root, typed):
    (root / "h.jsonl").write_text("{}\n", encoding="utf-8")
    assert typed("live", "drift", "none.jsonl")[::2] == (Exit.USAGE, "agentreplay: none.jsonl: there is no such file\n")
    done = typed("live", "drift", "h.jsonl")
    assert (done.code, done.err[:21]) == (Exit.DAMAGED, "agentreplay: h.jsonl:")


JUDGED = """

live  same                       14/14  0.67-1.00  ...s/test_shop.py::test_order
live  1 same; 28 calls, 17,500 tokens, $0.1750
"""


def test_the_runs_of_all_shards_are_judged_together(root, typed):
    (root / "1").mkdir()
    for shard, made in enumerate((runs("2026-11-01T09", 7, 0, calls=2), runs("2026-11-01T10", 7, 0, calls=2))):
        history.append(root / str(shard), made)
    done = typed("live", "drift", "0", "1", "--judge")
    assert (done.code, done.out[-len(JUDGED) :]) == (Exit.SAME, JUDGED)
    assert typed("live", "drift", "0", "--judge").code == Exit.INCONCLUSIVE
    assert typed("live", "drift", "0", "1").code == Exit.SAME


def test_a_test_that_drifted_decides_over_others_and_the_ini_file_says_what_drift_is(root, typed):
    history.append(root, runs("2026-11-01T09", 14, 0) + runs("2026-11-01T10", 3, 3, test="test_other"))
    history.append(root, runs("2026-11-01T11", 2, 0, test="test_other", changed={"model": "new"}))
    done = typed("live", "drift", "--judge", "--json")
    words = {verdict["test"]: (verdict["word"], verdict["layer"]) for verdict in json.loads(done.out)["verdicts"]}
    assert words == {
        TEST: ("same", ""), "test_other": ("drifted", "model"), "test_other model=new": ("inconclusive", "")
    }  # fmt: skip
    assert done.code == Exit.DIVERGED
    assert typed("live", "drift", "--judge", "--test", "test_order").code == Exit.SAME
    (root / "pytest.ini").write_text("[pytest]\nagentreplay_live = p0=0.6 p1=0.2\n", encoding="utf-8")
    done = typed("live", "drift", "--judge", "--json")
    assert [verdict["word"] for verdict in json.loads(done.out)["verdicts"]] == ["same", "inconclusive", "inconclusive"]
    assert done.code == Exit.INCONCLUSIVE
    (root / "pytest.ini").write_text("[pytest]\nagentreplay_live = p0=0.6 p1=0.7\n", encoding="utf-8")
    message = (
        "agentreplay: p0 = 0.6 and p1 = 0.7 make no test: p0, the pass rate without drift, must be above p1, "
        "the one with drift, and both between 0 and 1; for example agentreplay_live = p0=0.95 p1=0.80\n"
    )
    assert typed("live", "drift", "--judge")[::2] == (Exit.USAGE, message)


class Elements(HTMLParser):
    """What a browser would make of a page: its elements and attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.attributes, self.text = set(), [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def test_the_page_has_the_figures_and_loads_nothing(root, typed):
    history.append(root, HISTORY)
    assert typed("live", "drift", "--html", "page.html").out == TABLE
    page = Elements((root / "page.html").read_text(encoding="utf-8"))
    assert {"table", "meter", "pre"} <= page.elements
    assert not {"script", "link", "img", "iframe", "object"} & page.elements
    assert not [name for name, _ in page.attributes if name in {"src", "href", "srcset", "style"} or name[:2] == "on"]
    for text in ("a-model-with-a-long-name-20260801", "0.40 [0.08, 0.81]", "served model small-0801 -> small-1105"):
        assert text in page.text


def test_no_text_of_a_history_becomes_markup_or_moves_the_cursor(root, typed):
    evil = '</td><script>alert("1")</script>\x1b[2J\u202e'
    rows = runs("2026-11-01", 1, 0, evil, served_models=(evil,)) + runs("<b>'\n-x", 1, 0, evil, served_models=("new",))
    page = format_page(build_rows(rows))
    assert not {"script", "b"} & Elements(page).elements
    history.append(root, rows)
    for text in (page, typed("live", "drift").out):
        assert not re.search("[\x1b\u202e]", text)
