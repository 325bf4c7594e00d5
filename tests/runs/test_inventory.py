"""What a project has recorded: an entry for each snapshot, pending run and case, whatever the file holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.exchanges import Failure, Run
from pytest_agentreplay.runs.inventory import ModelUse, read_inventory
from pytest_agentreplay.snapshots import codec
from tests.support.chat_runs import ask, refund, run, say, tool

INI = "[pytest]\nagentreplay_prices =\n    gpt-5 = 1.25 in, 10 out\n"
CASE = """\
schemaVersion: "1.0"
id: refund
input: {arguments: {}}
expect: %s
"""


def put(root, path, made=None, name="tests/test_shop.py::test_refund", **header):
    """Write a run as the snapshot of a test; or a text."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(made, Run):
        made = codec.dumps(replace(made, header=replace(made.header, test=name, **header)))
    file.write_text(made, encoding="utf-8")
    return file


@pytest.fixture
def root(tmp_path):
    put(tmp_path, "pytest.ini", INI)
    return tmp_path


def test_a_snapshot_a_pending_run_and_a_case_are_counted_and_priced_and_a_copy_is_known_as_one(root):
    shown = refund(outcome={"status": "passed"}, kit={"clock": {"mode": "stepped"}})
    folder = "tests/__agent_snapshots__/test_shop"
    put(root, f"{folder}/refund.snapshot.json", shown, recorded="2026-11-20T10:00:00Z")
    put(root, f".pytest_agentreplay/pending/{folder}/refund.snapshot.json", shown, outcome={"status": "failed"})
    put(root, "cases/refund/case.yaml", CASE % "reproduces")
    put(root, "cases/refund/run.snapshot.json", refund("Sorry, the bank is closed."))
    put(root, "node_modules/x/case.yaml", "name: of another tool\n")
    put(root, "tests/case.yaml", "name: of another tool\n")
    snapshot, pending, case = read_inventory(root)
    assert [entry.kind for entry in (snapshot, pending, case)] == ["snapshot", "pending", "case"]
    assert (snapshot.name, pending.name, case.name) == (*["tests/test_shop.py::test_refund"] * 2, "refund")
    assert (snapshot.outcome, pending.outcome, case.state) == ("passed", "failed", "reproduces")
    assert (snapshot.turns, snapshot.calls, snapshot.seconds, snapshot.grade) == (3, 5, 5.0, "A")
    assert snapshot.uses == (ModelUse("gpt-5", 3, 30, 6, pytest.approx((30 * 1.25 + 6 * 10) / 1e6)),)
    assert snapshot.tools == (("lookup_order", 1), ("issue_refund", 1))
    assert (snapshot.cost, snapshot.input_tokens, snapshot.models) == (snapshot.uses[0].cost, 30, ("gpt-5",))
    assert snapshot.content == pending.content != case.content
    assert read_inventory(root, [root / "tests"]) == [snapshot, pending]
    assert read_inventory(root, [case.path.parent, case.path]) == [case]


@pytest.mark.parametrize(
    ("answer", "cost"),
    [
        pytest.param((ask(), say("a")), (12.5 + 20) / 1e6, id="priced"),
        pytest.param((ask(model="m-1"), say("a")), None, id="no price"),
        pytest.param((ask(), say("a", usage=False)), None, id="no tokens"),
        pytest.param((ask(), say("busy", status=429)), 0.0, id="an error is free"),
        pytest.param((ask(), Failure("httpx.ReadTimeout")), 0.0, id="so is a timeout"),
        pytest.param(tool("t", 1), 0.0, id="no model"),
    ],
)
def test_a_cost_is_known_or_it_is_none(root, answer, cost):
    put(root, "a.snapshot.json", run(answer))
    [entry] = read_inventory(root)
    assert entry.cost == (None if cost is None else pytest.approx(cost))


def test_what_cannot_be_read_is_an_entry_with_its_problem_and_a_cold_case_has_what_it_lacks(root):
    put(root, "bad.snapshot.json", '{"schemaVersion": "9.0"}')
    put(root, "cases/bad/case.yaml", "schemaVersion: [")
    put(root, "cases/lost/case.yaml", CASE.replace("refund", "lost") % "reproduces")
    put(root, "cases/cold/case.yaml", CASE % "cold" + "cold: {reason: of a log, missing: [result of pay]}\n")
    snapshot, *cases = read_inventory(root)
    problems = {entry.path.parent.name: entry.problem for entry in cases}
    assert snapshot.problem.startswith("schemaVersion: written in format 9.0")
    assert problems["cold"] == ""
    assert problems["bad"]
    assert "no such file" in problems["lost"] or "is missing" in problems["lost"]
    assert [(entry.cold, entry.grade) for entry in cases if not entry.problem] == [(("result of pay",), "cold")]


def test_a_price_that_is_none_is_refused(root):
    put(root, "pytest.ini", INI.replace("1.25 in", "cheap"))
    with pytest.raises(SettingsError, match=r"pytest\.ini: agentreplay_prices: 'gpt-5' has no price"):
        read_inventory(root)


def test_a_damaged_case_without_a_run_is_an_entry_as_it_is_a_test_for_pytest(root):
    put(root, "cases/refund/case.yaml", "<<<<<<< HEAD\n")
    put(root, "tests/case.yaml", "<<<<<<< HEAD\n")
    (case,) = read_inventory(root)
    assert (case.kind, case.name.endswith("cases/refund"), case.problem[:6]) == ("case", True, "1:1: a")


def test_a_brief_entry_says_what_the_ends_of_its_file_say_and_reads_the_rest_only_where_they_do_not(root, monkeypatch):
    folder = "tests/__agent_snapshots__/test_shop"
    kit = {"models": [{"model": "gpt-5"}], "unfrozen": [{"tool": "refund", "path": "shop.refund"}]}
    put(root, f"{folder}/refund.snapshot.json", refund(outcome={"status": "passed"}, kit=kit), recorded="2026-11-20")
    put(
        root,
        f".pytest_agentreplay/pending/{folder}/refund.snapshot.json",
        refund(outcome={"status": "failed"}, kit=kit),
    )
    put(root, "cases/refund/case.yaml", CASE % "reproduces")
    put(root, "cases/refund/run.snapshot.json", refund(kit=kit))
    whole = read_inventory(root)
    with monkeypatch.context() as patch:
        patch.setattr(codec, "loads", None)
        brief = read_inventory(root, briefly=True)
    names = [
        "path",
        "kind",
        "name",
        "test",
        "state",
        "outcome",
        "calls",
        "models",
        "bytes",
        "recorded",
        "unfrozen",
        "problem",
    ]
    assert [[getattr(entry, name) for name in names] for entry in brief] == [
        [getattr(entry, name) for name in names] for entry in whole
    ]
    assert whole[0].calls == 5
    long = put(root, f"{folder}/long.snapshot.json", refund(kit={"annotations": {"input": "where is it? " * 6_000}}))
    torn = put(root, f"{folder}/torn.snapshot.json", long.read_text(encoding="utf-8")[:-900])
    entries = {entry.path: entry for entry in read_inventory(root, briefly=True)}
    assert (entries[long].turns, entries[long].problem) == (3, "")
    assert "JSON" in entries[torn].problem
