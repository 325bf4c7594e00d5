"""`agentreplay ls`: what a project has recorded, in terminals of any width, and in a broken or empty project."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest
from rich.cells import cell_len

from pytest_agentreplay.runs import inventory
from pytest_agentreplay.snapshots import codec
from tests.cli.test_show import as_kept
from tests.support.chat_runs import ask, refund, run, say

SAME, USAGE, DAMAGED, NOTHING = 0, 2, 4, 5
NOW = 1_795_780_800  # 2026-11-27T12:00:00Z
FOLDER = "tests/__agent_snapshots__/test_shop"
CASE = 'schemaVersion: "1.0"\nid: %s\ninput: {arguments: {}}\nexpect: %s\n'


def put(root, path, made, test="", **header):
    if not isinstance(made, str):
        made = codec.dumps(replace(made, header=replace(made.header, test=test, **header)))
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(made, encoding="utf-8")


@pytest.fixture
def shop(root, monkeypatch):
    """A project with snapshots, one of them from a model without a price, a pending run, a case and a cold case."""
    monkeypatch.setattr(inventory.clocks, "wall", lambda: NOW)
    put(root, "pytest.ini", "[pytest]\nagentreplay_prices =\n    gpt-5 = 1.25 in, 10 out\n")
    passed, failed = {"status": "passed"}, {"status": "failed"}
    name = "tests/test_shop.py::test_a_refund_that_the_bank_refuses_is_told_to_the_customer[de]"
    put(root, f"{FOLDER}/a.snapshot.json", refund(outcome=passed), name, recorded="2026-11-27T09:00:00+00:00")
    other = run((ask(model="m-1"), say("hello")), (ask(), say("again")), outcome=failed)
    put(root, f"{FOLDER}/b.snapshot.json", other, "tests/test_shop.py::test_b", recorded="2026-10-28T00:00:00+00:00")
    pending = f".pytest_agentreplay/pending/{FOLDER}/b.snapshot.json"
    put(root, pending, other, "tests/test_shop.py::test_b", recorded="2026-11-20T00:00:00+00:00")
    put(root, "cases/refund/case.yaml", CASE % ("refund", "reproduces"))
    put(root, "cases/refund/run.snapshot.json", refund("Sorry."), "tests/test_shop.py::test_c", recorded="2025-11-20")
    put(root, "cases/lost/case.yaml", CASE % ("lost", "cold") + "cold: {reason: of a log, missing: [result of pay]}\n")
    return root


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("what", ["list", "totals"])
def test_it_is_readable_in_any_terminal(typed, shop, monkeypatch, what, width):
    monkeypatch.setenv("COLUMNS", str(width))
    shown = typed("ls", *["--totals"] * (what == "totals"))
    assert (shown.code, shown.err) == (SAME, "")
    ids = [line for line in shown.out.splitlines() if "__agent_snapshots__" in line or line.endswith("_customer[de]")]
    assert max(cell_len(line) for line in shown.out.splitlines() if line not in ids) <= width
    assert what == "totals" or "test_a_refund_that_the_bank_refuses_is_told_to_the_customer[de]" in shown.out
    as_kept(f"{what}.{width}.txt", shown.out)


def test_plain_is_an_entry_a_line_in_words(typed, shop):
    shown = typed("ls", "--plain").out
    assert not [char for char in shown if char == "\x1b" or "BOX" in unicodedata.name(char, "")]
    facts = "models m-1 +1, outcome failed, replays with gaps, turns 2, calls 2, tokens 24, size 2.3 kB"
    assert shown.splitlines()[1:] == [
        f"tests/test_shop.py::test_b: kind snapshot, {facts}, age 30 days",
        f"tests/test_shop.py::test_b: kind pending, {facts}, age 8 days",
        "cases/lost: kind case cold, replays no, size 117 bytes",
        "cases/refund: kind case reproduces, models gpt-5, replays unknown, turns 3, calls 5, tokens 36, size 4.2 kB, age 372 days",
        "2 snapshots, 1 pending run, 2 cases: 10 turns, 14 calls, 120 tokens, 13.1 kB",
    ]


def test_paths_choose_and_json_has_every_fact(typed, shop):
    data = json.loads(typed("ls", "--json", "cases").out)
    lost, case = data["entries"]
    assert (lost["state"], lost["cold"], lost["cost"]) == ("cold", ["result of pay"], None)
    assert (case["path"], case["tools"]) == ("cases/refund/case.yaml", {"lookup_order": 1, "issue_refund": 1})
    assert case["uses"][0]["cost"] == case["cost"] == pytest.approx(0.0000975)
    assert data["totals"] | {"bytes": 0} == {
        "snapshot": 0, "pending": 0, "run": 0, "case": 2, "unreadable": 0, "turns": 3, "calls": 5, "bytes": 0, "tokens": 36,
    }  # fmt: skip
    stats = json.loads(typed("ls", "--totals", "--json").out)
    assert [row["model"] for row in stats["by_model"] if row["cost"] is None] == ["m-1"]
    assert (stats["totals"]["cost"], stats["totals"]["seconds"]) == (None, 14.0)
    pending = f".pytest_agentreplay/pending/{FOLDER}/b.snapshot.json"
    assert stats["duplicates"] == [[f"{FOLDER}/b.snapshot.json", pending]]


def test_a_file_that_cannot_be_read_is_a_row_with_the_reason_and_the_rest_is_listed(typed, shop, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    put(shop, f"{FOLDER}/bad.snapshot.json", '{"schemaVersion": "1.0"')
    shown = typed("ls")
    assert shown.code == DAMAGED
    row = next(line for line in shown.out.splitlines() if "bad.snapshot.json: " in line)
    assert "not JSON any more" in row
    assert "test_b" in shown.out
    assert shown.out.endswith("; 1 cannot be read\n")
    stats = typed("ls", "--totals")
    assert (stats.code, "bad.snapshot.json: " in stats.err, "m-1" in stats.out) == (DAMAGED, True, True)


@pytest.mark.parametrize("verb", [("ls",), ("ls", "--totals")])
def test_an_empty_project_says_what_to_type_and_a_path_that_is_not_there_is_usage(typed, root, verb):
    shown = typed(*verb)
    assert (shown.code, shown.out) == (NOTHING, "")
    assert shown.err.endswith("to record its tests: pytest --snapshot-record\n")
    data = typed(*verb, "--json")
    assert (data.code, data.err, json.loads(data.out)["totals"]["calls"]) == (NOTHING, shown.err, 0)
    for words in ([*verb, "gone"], [*verb, "gone", "--json"]):
        assert typed(*words) == (USAGE, "", "agentreplay: there is no gone\n")


def test_show_takes_the_names_that_ls_prints(typed, shop):
    for name in ("tests/test_shop.py::test_b", "cases/refund", "cases/refund/case.yaml"):
        shown = typed("show", name, "--turn", "-1")
        assert (shown.code, shown.err, shown.out.startswith("turn ")) == (SAME, "", True), name
    put(shop, f"{FOLDER}/c.snapshot.json", refund(), "tests/test_shop.py::test_b[x]")
    several = typed("show", "tests/test_shop.py::test_b")
    assert (
        several.code,
        several.err.startswith("agentreplay: tests/test_shop.py::test_b is 2 snapshots; name one:\n"),
    ) == (USAGE, True)
    gone = typed("show", "tests/test_shop.py::test_d")
    assert (gone.code, "; the nearest: " in gone.err) == (USAGE, True)


def test_an_id_of_a_test_or_of_a_captured_run_is_listed_as_show_takes_it(typed, shop):
    put(shop, "runs/refund/2026-11-27/r2.run.json", refund())
    for word, kinds in (("tests/test_shop.py::test_b", ["snapshot", "pending"]), ("r2", ["run"])):
        assert [entry["kind"] for entry in json.loads(typed("ls", "--json", word).out)["entries"]] == kinds
        assert typed("show", word, "--turn", "1").code == SAME
    assert typed("ls", "tests/test_shop.py::test_d").code == typed("ls", "r3").code == USAGE


def test_cold_is_about_cases_that_cannot_be_replayed(typed, shop):
    shown = typed("ls", "--cold")
    assert (shown.code, shown.out.splitlines()[0]) == (SAME, "1 of 2 cases cannot be replayed")
    assert json.loads(typed("ls", "--cold", "--by", "tool", "--json").out)["by"]


def test_a_thousand_snapshots_take_seconds(typed, root, monkeypatch):
    """Not the seconds are measured, which are the machine's: no snapshot is opened twice, no setting read for each."""
    for number in range(50):
        put(root, f"{FOLDER}/{number}.snapshot.json", refund(), f"tests/test_shop.py::test_{number}")
    opened = []
    read, configured = inventory.files.read_file, inventory.projects.read_settings
    monkeypatch.setattr(inventory.files, "read_file", lambda *words: opened.append("file") or read(*words))
    monkeypatch.setattr(inventory.projects, "read_settings", lambda *words: opened.append("ini") or configured(*words))
    assert typed("ls").code == SAME
    assert (opened.count("file"), opened.count("ini") <= 3) == (50, True)
    lines = typed("ls", "--totals").out.splitlines()
    assert (lines[-5], lines[-1]) == ("50 files with the same calls and replies:", "  and 47 more")
