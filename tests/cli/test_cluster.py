"""`agentreplay case cluster`: which kept failures have one cause, from the files that keep them."""

import json
import shutil
import textwrap
from dataclasses import replace

import pytest

from pytest_agentreplay.snapshots import codec
from tests.support.chat_runs import ask, run, say, tool
from tests.support.pages import ROOT

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

USERS = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gus", "Hal", "Ida", "Jo", "Kit", "Lou"]


def failed(message):
    return {"status": "failed", "type": "AssertionError", "message": message}


def variant(n):
    """The bank does not answer, and the agent promises the refund: other ids, dates, users, amounts, paths and turns."""
    order, looks = f"A-{1000 + 7 * n}", [(ask(), say("One moment.", ("lookup_order", {"id": n})))] * (n % 4)
    raises = (
        f"bank of '{USERS[n]}' closed since 2026-11-{n + 10}T08:{n + 10}:00Z, see /tmp/run-{n}/bank.log ({n + 20} s)"
    )
    return run(
        *looks,
        (ask(), say(None, ("issue_refund", {"order_id": order}))),
        tool("issue_refund", raises=raises, order_id=order),
        (ask(), say(f"I have refunded order {order}, {USERS[n]}.")),
        outcome=failed(f"assert 'not refunded' in 'I have refunded order {order}, {USERS[n]}.'"),
    )


def other():
    """A search that comes too late is not the bank's fault."""
    return run(
        (ask(), say(None, ("search", {"q": "router"}))),
        tool("search", raises="index is being built", q="router"),
        (ask(), say("I cannot help.")),
        outcome=failed("assert 'reset' in 'I cannot help.'"),
    )


def put(root, name, kept, folder="tests/__agent_snapshots__/test_a"):
    file = root / folder / f"{name}.snapshot.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(codec.dumps(kept), encoding="utf-8")
    return file


@pytest.fixture
def failures(root):
    """Twelve variants of one failure, another one, and a run that passed."""
    for n in range(12):
        put(root, f"refund_{n:02}", variant(n))
    put(root, "search", other())
    put(root, "fine", replace(variant(0), header=replace(variant(0).header, outcome={"status": "passed"})))
    return root


def test_twelve_variants_and_another_failure_are_two_clusters(failures, typed):
    done = typed("case", "cluster")
    assert (done.code, done.err) == (0, "")
    folder = "tests/__agent_snapshots__/test_a"
    assert done.out == textwrap.dedent(f"""\
        13 failures, 2 causes

        1. 12 failures: issue_refund; AR-RESULT, layer tool
           message  The answer says <text> after issue_refund failed; issue_refund
                    failed: RuntimeError: bank of <text> closed since <clock>, see
                    <place> (<id> s)
           kept in  {folder}/refund_00.snapshot.json,
                    {folder}/refund_01.snapshot.json,
                    {folder}/refund_02.snapshot.json and 9 more
           next     fix it on {folder}/refund_00.snapshot.json,
                    then verify on all 12: agentreplay case cluster --replay 1

        2. 1 failure: search; AR-RESULT, layer tool
           message  search failed: RuntimeError: index is being built; The test failed:
                    assert <text> in <text>
           kept in  {folder}/search.snapshot.json
           next     fix it on {folder}/search.snapshot.json,
                    then verify: agentreplay case cluster --replay 2
        """)


def test_clusters_as_data(failures, typed):
    clusters = json.loads(typed("case", "cluster", "tests", "--json").out)["clusters"]
    assert [len(each) for each in clusters] == [12, 1]
    assert {each["turn"] for each in clusters[0]} == {1, 2, 3, 4}
    assert clusters[1][0]["signature"]["target"] == "search"


def test_a_pending_failure_is_named_by_what_differs_from_the_snapshot(root, typed):
    calm = [(ask(), say(None, ("lookup", {"id": 1}))), tool("lookup", {"status": "late"}, id=1)]
    put(root, "refund", run(*calm, (ask(), say("It is late.")), outcome={"status": "passed"}))
    moved = [(ask(tools=[], seed=4), say(None, ("lookup", {"id": 1}))), *calm[1:]]
    pending = run(*moved, (ask(), say("It is here.")), outcome=failed("assert 'late' in 'It is here.'"))
    put(root, "refund", pending, ".pytest_agentreplay/pending/tests/__agent_snapshots__/test_a")
    ((kept,),) = json.loads(typed("case", "cluster", "--json").out)["clusters"]
    assert kept["signature"]["code"] == "AR-MODEL"
    assert kept["signature"]["path"] == "$.seed"
    assert (kept["replays"], kept["turn"]) == (False, 1)
    done = typed("case", "cluster", "--replay", "all")
    assert (done.code, done.out.splitlines()[0]) == (1, "0 of 1 failure gone, 1 cannot be replayed")


def test_the_cases_of_this_project_that_were_kept_of_one_failure(root, typed):
    shutil.copytree(ROOT / "cases", root / "cases")
    clusters = json.loads(typed("case", "cluster", "cases", "--json").out)["clusters"]
    assert [each["file"] for each in clusters[0]] == ["cases/refund", "cases/refund-claims-success"]
    assert {len(each) for each in clusters[1:]} == {1}
    (cold,) = (cluster[0] for cluster in clusters if cluster[0]["file"] == "cases/booking-lost")
    assert not cold["replays"]
    done = typed("case", "cluster", "cases/booking-lost", "cases/refund", "--replay", "3")
    assert (done.code, done.err) == (2, "agentreplay: there is no cluster 3: there are 2\n")


def test_nothing_to_group_and_what_cannot_be_read(failures, typed):
    done = typed("case", "cluster", "cases")
    assert (done.code, done.err) == (2, "agentreplay: there is no cases\n")
    (failures / "cases").mkdir()
    assert typed("case", "cluster", "cases")[::2] == (5, "agentreplay: no failure is kept in cases\n")
    file = put(failures, "torn", other())
    file.write_text(file.read_text(encoding="utf-8")[:200], encoding="utf-8")
    done = typed("case", "cluster")
    assert done.code == 4
    assert "torn.snapshot.json" in done.err
    assert done.out.startswith("13 failures, 2 causes\n")
    assert typed("case", "cluster", file).code == 4
    assert "argument --replay: invalid" in typed("case", "cluster", "--replay", "none").err
