"""The verbs with captured runs: from a store, in a folder or behind a URL, to cases; each run listed, shown, compared."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_agentreplay.runs import inventory
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store.run_store import RunStore
from tests.support.chat_runs import ask, refund, run, say, tool

SAME, DIVERGED, USAGE, DAMAGED, NOTHING = 0, 1, 2, 4, 5
DAY = "2026-11-27"
NOW = 1_795_780_800  # 2026-11-27T12:00:00Z
RAISED = {"status": "failed", "type": "KeyError", "message": "'total'"}
SAID = {"status": "failed", "type": "failed", "message": "the customer said no"}


def put(store, identity, made, *, hour="11", name="refund", reason="failed", cold=""):
    """Write a run as a service does, and return where."""
    capture = {"id": identity, "name": name, "reason": reason} | ({"cold": cold} if cold else {})
    kit = {"capture": capture, "input": {"arguments": {"question": f"Where is {identity}?"}}, "output": "Sorry."}
    header = replace(made.header, test=f"{name}/{identity}", recorded=f"{DAY}T{hour}:00:00+00:00", kit=kit)
    return RunStore(store).write(name, DAY, identity, codec.dumps(replace(made, header=header)).encode())


def look_up(answer, **more):
    return run((ask(), say(None, ("find", {"q": "x"}))), tool("find", "none", q="x"), (ask(), say(answer)), **more)


@pytest.fixture
def store(root, monkeypatch):
    """Five runs: the same failure twice, another one, one that somebody disliked, one that passed."""
    monkeypatch.setattr(inventory.clocks, "wall", lambda: NOW)
    put(root / "runs", "r1", refund(outcome=RAISED), hour="08")
    put(root / "runs", "r2", refund(outcome=RAISED))
    put(root / "runs", "r3", look_up("Sorry.", outcome=SAID))
    put(root / "runs", "r4", look_up("No."), reason="kept: thumbs down")
    put(root / "runs", "r5", look_up("Yes.", outcome={"status": "passed"}), reason="all")
    return root / "runs"


def list_cases(root):
    return sorted(file.name for file in (root / "cases").iterdir())


def test_all_makes_one_case_of_each_failure_and_nothing_twice(typed, root, store):
    first = typed("case", "new", "runs", "--since", "1d", "--all")
    assert first.code == SAME, first.err
    assert "1 left out, of a failure like another\n" in first.out
    assert "1 left out, of runs that passed\n" in first.out
    assert "3 cases of 3 files in cases\n" in first.out
    assert len(list_cases(root)) == 3
    put(store, "r6", refund(outcome=RAISED))
    before = {file: file.read_bytes() for file in (root / "cases").rglob("*") if file.is_file()}
    again = typed("case", "new", "runs", "--all")
    assert (
        "3 left out, of a failure that is a case\n" in again.out
        or "4 left out, of a failure that is a case\n" in again.out
    )
    assert {file: file.read_bytes() for file in (root / "cases").rglob("*") if file.is_file()} == before


def test_a_case_has_the_input_and_the_runner_of_its_run(typed, root, store):
    shown = typed("case", "new", "runs/refund/2026-11-27/r2.run.json")
    [folder] = list_cases(root)
    assert folder.startswith("refund-")
    text = (root / "cases" / folder / "case.yaml").read_text(encoding="utf-8")
    assert "runner: refund\n" in text
    assert "Where is r2?" in text
    assert "expect: reproduces\n" in text
    assert f"pytest cases/{folder}" in shown.out
    assert "nothing to write" in typed("case", "new", "runs/refund/2026-11-27/r2.run.json").out


def test_what_the_service_said_is_no_error_that_its_function_raises(typed, root, store):
    shown = typed("case", "new", "runs/refund/2026-11-27/r3.run.json").out
    assert "The run failed: the customer said no" in shown
    text = (root / "cases" / list_cases(root)[0] / "case.yaml").read_text(encoding="utf-8")
    assert "status: error" not in text
    assert "The answer gives no reason for: the customer said no" in text


def test_what_somebody_said_of_a_run_later_is_in_the_notes_of_its_case(typed, root, store):
    typed("case", "new", "runs/refund/2026-11-27/r4.run.json")
    notes = (root / "cases" / list_cases(root)[0] / "notes.md").read_text(encoding="utf-8")
    assert "- What the service heard of it later: `thumbs down`." in notes


def test_a_cold_run_makes_a_cold_case_that_says_why(typed, root):
    put(root / "runs", "big", run(outcome=RAISED), cold="32,000,000 bytes are more than max_bytes")
    assert "cannot be replayed: 32,000,000 bytes are more than max_bytes" in typed("case", "new", "runs").out


def test_several_runs_are_named_and_none_is_taken(typed, root, store):
    shown = typed("case", "new", "runs")
    assert shown.code == USAGE
    assert shown.out.splitlines()[0] == "agentreplay case new runs/refund/2026-11-27/r1.run.json"
    assert shown.err == "agentreplay: runs: holds 5 captured runs: name one, or take each failure with --all\n"
    assert not (root / "cases").exists()
    assert "holds 5 captured runs" in typed("case", "new", "runs", "--since", "2026-11-27").err
    assert typed("case", "new", "runs", "--since", "2026-11-28").code == NOTHING
    assert "'soon' is no time; write 1d, 2w or a date" in typed("case", "new", "runs", "--since", "soon").err


def test_runs_are_listed_counted_shown_and_compared(typed, root, store):
    rows = json.loads(typed("ls", "runs", "--json").out)["entries"]
    assert [(row["name"], row["kind"], row["outcome"]) for row in rows][2:] == [
        ("runs/refund/2026-11-27/r3.run.json", "run", "failed"),
        ("runs/refund/2026-11-27/r4.run.json", "run", "kept: thumbs down"),
        ("runs/refund/2026-11-27/r5.run.json", "run", "passed"),
    ]
    assert "5 captured runs" in typed("ls", "--totals", "runs").out
    first, second = (f"runs/refund/2026-11-27/r{number}.run.json" for number in (3, 4))
    assert "outcome: failed the customer said no\n" in (shown := typed("show", first).out)
    assert "Sorry." in shown
    assert "captured  captured             reason=failed\n" in typed("show", first, "--kit").out
    assert "to list its runs: agentreplay ls runs" in typed("show", "runs").err
    assert typed("diff", first, second).code == DIVERGED
    assert typed("html", "runs").code == typed("html", first, second, "--force").code == SAME
    assert typed("redact", "--dry-run", "runs").code == typed("verify", "runs").code == SAME
    assert typed("redact", "runs").code == NOTHING
    assert "3 failures, 2 causes" in (shown := typed("case", "cluster", "runs").out)
    assert "make a case of it: agentreplay case new runs/refund" in " ".join(shown.split())


def test_replay_says_how_a_captured_run_is_replayed(typed, root, store):
    shown = typed("replay", "runs/refund/2026-11-27/r1.run.json")
    assert shown.code == USAGE
    assert "pytest --agentreplay-runs=runs -k r1, or" in shown.err
    assert "agentreplay case new runs/refund/2026-11-27/r1.run.json" in shown.err


def test_a_url_is_read_and_not_written(typed, root, store):
    url = "memory://shop/runs"
    for file in store.rglob("*.run.json"):
        RunStore(url).write("refund", DAY, file.name.partition(".")[0], file.read_bytes())
    assert f"{url}/refund/2026-11-27/r3.run.json" in typed("ls", url, "--plain").out
    assert "Sorry." in typed("show", f"{url}/refund/2026-11-27/r3.run.json").out
    assert typed("case", "new", url, "--since", "1d", "--all").code == SAME
    assert len(list_cases(root)) == 3
    refused = typed("redact", url)
    assert refused.code == USAGE
    assert f"{url}: files are redacted where they lie" in refused.err
    assert "no.run.json: is not there" in typed("show", f"{url}/refund/2026-11-27/no.run.json").err
