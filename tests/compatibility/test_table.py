"""The page is what the script wrote, it leaves nothing out, and what it says yes to was tried."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def table(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(HERE)
    return importlib.import_module("table")


def test_the_page_is_what_the_script_writes_and_no_row_is_blank_or_falls_short(table):
    results = json.loads(table.RESULTS.read_text(encoding="utf-8"))
    written = table.PAGE.read_text(encoding="utf-8")
    assert table.page(results, written) == written, "run python tests/compatibility/table.py --page"
    rows = {row.name: row for row in (*table.PLUGINS, *table.VERSIONS)}
    assert len(rows) == len(table.PLUGINS) + len(table.VERSIONS)
    assert {*results} <= {*rows}, "found for a row that is no more"
    missing = [name for name, row in rows.items() if name not in results and not row.elsewhere]
    assert not missing, "never tried"
    assert not [(name, step) for name, found in results.items() for step in table.STEPS if found[step] is not True]
    cells = re.findall(r"^\| (.*) \|$", written, re.MULTILINE)
    assert len(cells) == len(rows) + 4, "two heads, two rules, and each row once"
    assert all(cell.strip() for line in cells for cell in line.split("|"))


def test_a_row_that_failed_says_so_and_one_that_was_not_tried_too(table):
    rows = (table.Row("a"), table.Row("b", elsewhere="CI's matrix"))
    steps = {"record": True, "replay": False, "divergence": True}
    shown = table.rendered({"a": {"with": "x 1", "python": "3", "system": "S", "on": "D", **steps}}, rows)
    assert "| a | FAILED (replay): x 1, Python 3, S |" in shown
    assert "| b | not yet: only in CI's matrix |" in shown


def test_every_plugin_and_environment_of_the_suite_has_a_row(table):
    names = {package for row in (*table.PLUGINS, *table.VERSIONS) for package in (*row.needs, *row.shown)}
    envs = HERE.parent / "envs"
    listed = (HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    plugins = re.findall(
        r'^  "([\w-]+)', listed.partition("# plugins of pytest\n")[2].partition("\n  #")[0], re.MULTILINE
    )
    assert len(plugins) > 10
    assert not {*plugins} - names
    others = {file.stem for file in envs.glob("*.txt")} - {"main", "legacy", "docs", "model", "service", "cassetter"}
    assert others == {row.env for row in table.VERSIONS} - {""}
