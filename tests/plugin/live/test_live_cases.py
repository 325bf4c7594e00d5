"""A case that asks a live model, as live runs: many items, one budget, a history, a row of a comparison."""

import json
import sys

import pytest

from tests.support.case_project import opened
from tests.support.model_server import Ask, Raw
from tests.support.project import NOBODY, refunds

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

CASE = "cases/refund/case.yaml::refund"
LIVE = """serve: {desired: {model: live, tools: arguments}}
tolerance: {refund $.amount: 1%}
"""
TELL = """
import os, pathlib
pathlib.Path(os.environ["AGENTREPLAY_OUTPUT_PATH"]).write_text('{"status": "ok", "final_output": "done"}')
"""
FILE = "cases/refund/case.yaml"


class RefundModel:
    """Refunds as recorded; `m-bad`, and any model in the runs of `drifts`, refunds too much. `status` refuses it all."""

    def __init__(self):
        self.runs, self.drifts, self.status = 0, set(), 200

    def __call__(self, body, number):
        if self.status != 200:
            return Raw(status=self.status, headers=[("content-type", "application/json")], chunks=(b"{}",))
        reply = refunds(body, number)
        self.runs += getattr(reply, "name", "") == "lookup_order"
        drifts = body["model"] == "m-bad" or self.runs in self.drifts
        return Ask("refund", reply.arguments | {"amount": 20.0}) if drifts and reply.name == "refund" else reply


@pytest.fixture(scope="module")
def shared(shared_project):
    return opened(shared_project())


@pytest.fixture
def shop(shared):
    shared.clear()
    shared.case(expect="fixed", more=LIVE)
    shared.model = shared.project.server._replies = RefundModel()
    shared.project.server.requests.clear()
    return shared


def verify(shop, *words, **environ):
    """The finished session over the cases, and what it handed over."""
    into = shop.root / "into.json"
    into.unlink(missing_ok=True)
    words = ("cases", "--replay=live", f"--agentreplay-live-into={into}", *words)
    done = shop.project.run(*words, AGENT="fixed", **environ)
    return done, json.loads(into.read_text(encoding="utf-8")) if into.exists() else {"verdicts": [], "results": []}


def test_each_run_of_a_case_is_an_item_and_stands_in_the_history(shop):
    done, into = verify(shop, "--replay-runs=2", "-v")
    assert done.returncode == 0, done.stdout
    assert [f"{FILE}::{name}" in done.stdout for name in ("refund[live-1] ", "refund[live-2] ")]
    [first, second] = into["results"]
    assert [run["test"] for run in (first, second)] == [CASE, CASE]
    assert (first["cell"], first["calls"], first["model"], first["served_models"]) == ("LF", 3, "m-1", ["m-1"])
    assert first["tokens"]["input"] > 0
    assert (first["passed"], first["drifts"], first["stopped"], second["run"]) == (True, [], "", 2)
    assert f"same         {'':11} {'2/2':>7}" in done.stdout
    shown = shop.project.command("live", "drift", "--test", CASE, "--json")
    [row] = json.loads(shown.stdout)["rows"]
    assert (row["runs"], row["passes"]) == (2, 2)


def test_one_run_of_a_case_is_selected_by_its_name(shop):
    done = shop.project.run(f"{FILE}::refund[live-2]", "--replay=live", "--replay-runs=3", AGENT="fixed")
    assert (done.returncode, shop.project.server.hits) == (0, 3), done.stdout


def test_a_run_that_drifted_fails_only_if_it_decides(shop):
    shop.model.drifts = {2}
    done, into = verify(shop, "--replay-runs=2")
    [verdict] = into["verdicts"]
    assert (verdict["word"], verdict["cells"]["LF"]["passes"]) == ("drifted", 1)
    assert "1 failed, 1 passed" in done.stdout
    print(done.stdout)
    text = " ".join(done.stdout.split())
    assert "[AR-DRIFT] MODEL DRIFT in 1 of 2 live runs: " in text
    assert "--snapshot-record" not in text, "a case is not recorded anew"
    shop.model.runs, shop.model.drifts = 0, {1}
    done, into = verify(shop, "--replay-runs=2", "-oagentreplay_live=p0=0.5 p1=0.2")
    assert (done.returncode, into["verdicts"][0]["word"]) == (0, "same")
    assert "1 passed, 1 drifted" in done.stdout


def test_the_budget_stops_a_case_before_the_call(shop):
    done, into = verify(shop, "--replay-runs=3", "--replay-budget=calls=4")
    assert shop.project.server.hits == 4
    assert [run["stopped"].partition(":")[0] for run in into["results"]] == ["", "budget"]
    assert (into["verdicts"][0]["word"], done.returncode) == ("inconclusive", 1)
    assert "calls=4 allows no further call: calls=4" in " ".join(done.stdout.split())


def test_on_ci_a_case_needs_permission_and_budget(shop):
    for words in ([], ["-oagentreplay_ci=live"]):
        done, _ = verify(shop, *words, CI="1")
        assert done.returncode == 4
    refused = shop.project.command("replay", "cases/refund", "--live", AGENT="fixed", CI="1")
    assert refused.returncode == 125
    assert "a live run is refused because CI is set" in refused.stderr
    assert shop.project.server.hits == 0
    done, _ = verify(shop, "-oagentreplay_ci=live", "--replay-budget=calls=3", CI="1")
    assert (done.returncode, shop.project.server.hits) == (0, 3), done.stdout


def test_models_are_compared_by_a_case(shop):
    words = ("live", "compare", "--set=model=m-1", "--set=model=m-bad", "--runs=6", "--json", "cases")
    done = shop.project.command(*words, AGENT="fixed")
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {(row["test"], row["setting"]): row for row in json.loads(done.stdout)["rows"]}
    assert (rows[CASE, "model=m-1"]["passes"], rows[CASE, "model=m-bad"]["passes"]) == (6, 0)
    assert rows["", "model=m-bad"]["verdict"] == "worse"


def test_what_a_live_replay_of_a_case_ends_with(shop):
    def replay(code, *words, **environ):
        done = shop.project.command("replay", "cases/refund", "--live", *words, **{"AGENT": "fixed"} | environ)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stdout + done.stderr
        return " ".join((done.stdout + done.stderr).split())

    replay(0)
    shop.model.drifts = {2}
    assert "[AR-ARGS]" in replay(1)
    ini = shop.root / "pytest.ini"
    before = ini.read_text(encoding="utf-8")
    ini.write_text(f"{before}agentreplay_live = calls=2\n", encoding="utf-8")
    hits = shop.project.server.hits
    stopped = replay(3)
    ini.write_text(before, encoding="utf-8")
    assert "[AR-LIVE] budget: calls=2 allows no further call" in stopped
    assert shop.project.server.hits == hits + 2
    assert "cannot tell whether it is fixed: [AR-LIVE] the model did not answer" in replay(3, MODEL_URL=NOBODY)
    shop.model.status = 401
    assert "cannot tell whether it is fixed: [AR-LIVE] the model answered 401" in replay(3)
    (shop.root / "told.py").write_text(TELL, encoding="utf-8")
    assert "take --runner" in replay(125, "--runner-cmd", f'"{sys.executable}" told.py')
    (shop.root / FILE).write_text("{", encoding="utf-8")
    replay(4)
