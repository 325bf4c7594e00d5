"""The page about other recorders shows the results that its script has written, all of them."""

import importlib
import json
from pathlib import Path

import pytest


@pytest.fixture
def script(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    return importlib.import_module("compare_peers")


@pytest.fixture
def results(script):
    return json.loads(script.RESULTS.read_text(encoding="utf-8"))


def test_the_table_of_the_page_is_that_of_the_results(script, results):
    begin, end = script.BEGINS.format("comparison"), script.ENDS.format("comparison")
    shown = script.PAGE.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0].strip()
    assert shown == script.table_of(results), "python tests/compatibility/compare_peers.py --page"


def test_every_recorder_has_a_result_in_every_row(script, results):
    rows = {(row["name"], row["settings"]): row for row in results["rows"]}
    assert set(rows) == {(peer.name, peer.settings) for peer in [*script.TABLE, script.PLAIN]}
    for peer in script.TABLE:
        assert set(rows[peer.name, peer.settings]["cells"]) == set(script.COLUMNS)


def test_our_column_says_what_we_promise(script, results):
    ours = next(row for row in results["rows"] if row["name"] == script.OURS)["cells"]
    promised = {
        "prompt": "fails",
        "report": "turn 3",
        "fewer": "fails",
        "extra": "fails",
        "order": "passes",
        "tools": "no",
    }
    assert ours | promised == ours
    assert ours["secrets"] == "none of them"
    assert float(ours["size"].replace(",", "")) < 1000
