"""Many live runs of a test as items: what decides, what fails, what goes no further, and what is kept."""

import json
import random
import sys
from contextlib import closing

import pytest

from pytest_agentreplay.snapshots.store.files import Appending
from tests.support.model_server import Raw
from tests.support.small_projects import furnished, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import os, pathlib

import openai

PROMPT = "Where is A-17?"

def look_up():
    return pathlib.Path("world.txt").read_text()

def answer():
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-1", max_retries=0) as client:
        messages = [{"role": "user", "content": PROMPT + look_up()}]
        reply = client.chat.completions.create(model="m-1", messages=messages, max_tokens=100)
        return reply.choices[0].message.content
"""

TESTS = """
import agent

def test_answer(agentreplay):
    assert "shipped" in agent.answer()
"""

INI = "agentreplay_prices = m-* = 1000 in, 1000 out\nagentreplay_tools = agent.look_up = read\n"


class RefundModel:
    """Answers as recorded, and refuses a share of the calls."""

    def __init__(self):
        self.share, self.random = 0.0, random.Random(7)

    def __call__(self, body, number):
        refuses = self.random.random() < self.share
        text = "I cannot help with that at all." if refuses else "It has shipped, and is on its way to you."
        message = {"role": "assistant", "content": text}
        reply = {
            "id": f"c-{number}",
            "object": "chat.completion",
            "created": 1,
            "model": "m-1",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
        return Raw(headers=[("content-type", "application/json")], chunks=(json.dumps(reply).encode(),))


@pytest.fixture(scope="module")
def shop(shared_project):
    model = RefundModel()
    project = shared_project(model)
    project.plugins += ("xdist.plugin",)
    furnished(project, INI, agent=AGENT, test_shop=TESTS)
    (project.root / "world.txt").write_text("in stock", encoding="utf-8")
    project.model = model
    recorded(project)
    return project


@pytest.fixture(autouse=True)
def fresh(shop):
    shop.model.share = 0.0
    shop.model.random.seed(7)
    shop.server.requests.clear()
    yield
    assert not list(shop.root.rglob("ledger.jsonl"))


def verify(shop, *words, **environ):
    """The finished session, and what it handed over."""
    into = shop.root / "into.json"
    into.unlink(missing_ok=True)
    done = shop.run("--replay=live", f"--agentreplay-live-into={into}", *words, **environ)
    return done, json.loads(into.read_text(encoding="utf-8")) if into.exists() else {"verdicts": [], "results": []}


def test_the_same_model_is_the_same_in_14_runs_and_no_more_are_made(shop):
    done, into = verify(shop, "--replay-runs=auto", "-rs")
    assert done.returncode == 0, done.stdout
    assert shop.server.hits == 14
    assert "15 passed" in done.stdout
    [verdict] = into["verdicts"]
    assert (verdict["word"], verdict["cells"]["LF"]["passes"]) == ("same", 14)


def test_a_refusal_rate_is_a_drift_of_the_model_and_only_the_run_that_decides_fails(shop):
    shop.model.share = 0.2
    done, into = verify(shop, "--replay-runs=auto")
    [verdict] = into["verdicts"]
    assert (verdict["word"], verdict["layer"]) == ("drifted", "model")
    cell = verdict["cells"]["LF"]
    assert shop.server.hits == cell["runs"] == len([run for run in into["results"] if run["cell"] == "LF"])
    passed, drifted = cell["passes"] + 1, cell["runs"] - cell["passes"] - 1
    assert f"1 failed, {passed} passed, {drifted} drifted" in done.stdout


def test_a_budget_is_never_exceeded_whoever_spends_it(shop):
    done, into = verify(shop, "--replay-runs=auto", "--replay-budget=calls=5", "-n", "2")
    assert shop.server.hits == 5
    assert into["verdicts"][0]["word"] == "inconclusive"
    assert done.returncode == 1


@pytest.mark.parametrize("tools", [(), ("--replay-tools=live",)], ids=["LF", "LL"])
def test_where_the_frozen_run_is_red_no_model_is_asked(shop, tools):
    shop.edit("agent.py", "Where is A-17?", "Where is A-18?")
    try:
        _, into = verify(shop, "--replay-runs=auto", "-rs", *tools)
    finally:
        shop.edit("agent.py", "Where is A-18?", "Where is A-17?")
    assert shop.server.hits == 0
    assert [(verdict["word"], verdict["layer"]) for verdict in into["verdicts"]] == [("drifted", "agent")]


def test_a_changed_tool_is_named_by_the_matrix_whose_last_cell_comes_last(shop):
    (shop.root / "world.txt").write_text("sold out", encoding="utf-8")
    try:
        done, into = verify(shop, "--replay-tools=live", "--replay-runs=2", "-n", "2")
    finally:
        (shop.root / "world.txt").write_text("in stock", encoding="utf-8")
    [verdict] = into["verdicts"]
    assert {cell: each["word"] for cell, each in verdict["cells"].items()} == {
        "FF": "same",
        "FL": "drifted",
        "LF": "same",
        "LL": "drifted",
    }
    assert (verdict["layer"], done.returncode, shop.server.hits) == ("tool", 1, 4)
    assert [result["cell"] for result in into["results"]][-2:] == ["LL", "LL"]
    shown = " ".join(done.stdout.split())
    assert "[AR-DRIFT] TOOL DRIFT in 2 of 2 live runs: " in shown
    assert "tool look_up: result changed" in shown


def test_a_live_job_is_not_told_that_it_needs_no_key(shop):
    done, _ = verify(
        shop, "--replay-budget=calls=5", "-oagentreplay_ci=live", CI="1", SHOP_API_KEY="sk-aB3dE5gH7jK9mN1pQ3"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "secrets " not in done.stdout
    done = shop.run("--replay=model", CI="1", SHOP_API_KEY="sk-aB3dE5gH7jK9mN1pQ3")
    assert "secrets   " in done.stdout


def test_a_fixed_number_of_runs_and_a_plain_live_run(shop):
    done, _ = verify(shop)
    assert (done.returncode, shop.server.hits) == (0, 1)
    shop.model.share = 1.0
    done, _ = verify(shop, "--replay-runs=2", "-v")
    assert (done.returncode, shop.server.hits) == (1, 3)


STOP = """
import os, signal

def pytest_runtest_setup(item):
    if item.name == os.environ.get("STOP"):
        raise KeyboardInterrupt
    if item.name == os.environ.get("KILL"):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def history(shop):
    """The runs and verdicts that the history has got, which is emptied."""
    file = shop.root / ".agentreplay" / "live" / "history.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    file.unlink(missing_ok=True)
    return [each["result"] for each in lines if "result" in each], [
        each["verdict"] for each in lines if "verdict" in each
    ]


def test_an_interrupted_session_keeps_the_runs_that_it_has_made(shop):
    shop.write(conftest=STOP)
    history(shop)
    done, _ = verify(shop, "--replay-runs=auto", STOP="test_answer[live-4]")
    assert done.returncode == 2
    results, [verdict] = history(shop)
    assert [result["run"] for result in results if result["cell"] == "LF"] == [1, 2, 3]
    assert (verdict["word"], verdict["evidence"]) == ("inconclusive", ["the session ended before it was decided"])


@pytest.mark.skipif(sys.platform == "win32", reason="no signal kills there")
@pytest.mark.parametrize("reader", ["drift", "session"])
def test_the_runs_of_a_killed_session_are_in_the_history_once_and_those_of_a_running_one_are_not(shop, reader):
    shop.write(conftest=STOP)
    history(shop)
    verify(shop, "--replay-runs=5", KILL="test_answer[live-3]")
    (ledger,) = shop.root.rglob("ledger.jsonl")
    with closing(Appending(ledger.with_name("other"))) as running:
        ledger.with_name("running").unlink()
        running.path.rename(ledger.with_name("running"))
        shop.command("live", "drift")
        assert ledger.exists(), "its session runs"
    for _ in range(2):
        shop.command("live", "drift") if reader == "drift" else verify(shop, "--replay-runs=1")
    runs = [result for result in history(shop)[0] if result["session"] == ledger.parent.name]
    assert [(run["cell"], run["run"]) for run in runs] == [("FF", 1), ("LF", 1), ("LF", 2)]


def test_a_shard_judges_the_runs_that_it_has(shop):
    names = [f"test_shop.py::test_answer[live-{number}]" for number in (3, 4)]
    done, into = verify(shop, "--replay-runs=auto", *names)
    assert done.returncode == 1
    assert "[AR-LIVE] INCONCLUSIVE, the same in 2 of 2 live runs: more runs are needed" in " ".join(done.stdout.split())
    assert into["verdicts"][0]["cells"].keys() == {"LF"}
    assert verify(shop, "--replay-runs=2", *names[:0], "-x")[0].returncode == 0


def test_a_method_of_a_testcase_is_one_live_run(shop):
    case = "import unittest, agent\n\nclass TestShop(unittest.TestCase):\n    def test_it(self):\n"
    mark = "import pytest\npytestmark = pytest.mark.agentreplay\n"
    shop.write(test_case=mark + case + "        self.assertIn('shipped', agent.answer())\n")
    recorded(shop, "test_case.py")
    shop.server.requests.clear()
    for share, word in ((0.0, "same"), (1.0, "drifted")):
        shop.model.share = share
        done, into = verify(shop, "test_case.py")
        assert [(verdict["test"], verdict["word"]) for verdict in into["verdicts"]] == [
            ("test_case.py::TestShop::test_it", word)
        ]
        assert done.returncode == (word == "drifted"), done.stdout
    assert shop.server.hits == 2
    (shop.root / "test_case.py").unlink()


def test_where_nothing_can_be_kept_nothing_goes_live(shop):
    folder = shop.root / ".agentreplay"
    folder.rename(shop.root / "kept")
    folder.write_text("a file", encoding="utf-8")
    try:
        done, _ = verify(shop)
    finally:
        folder.unlink()
        (shop.root / "kept").rename(folder)
    assert (done.returncode, shop.server.hits) == (4, 0)
    assert "ERROR: " in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_test_that_skips_itself_is_skipped_and_nothing_more(shop):
    before, skips = (
        "def test_answer(agentreplay):\n",
        "    import pytest, os\n    os.environ.get('SKIP') and pytest.skip()\n",
    )
    shop.edit("test_shop.py", before, before + skips)
    try:
        done, into = verify(shop, SKIP="1")
    finally:
        shop.edit("test_shop.py", skips, "")
    assert (done.returncode, shop.server.hits, into["verdicts"], into["results"]) == (0, 0, [], [])
    assert "1 skipped" in done.stdout


def test_a_limit_in_money_needs_a_price(shop):
    done, _ = verify(shop, "--replay-budget=usd=1", "-o", "agentreplay_prices=other = 1 in, 1 out")
    assert shop.server.hits == 0
    assert "no price of m-1 is known; add it to agentreplay_prices" in " ".join(done.stdout.split())
    done, into = verify(shop, "--replay-budget=usd=0.215", "--replay-runs=3")
    assert (shop.server.hits, into["verdicts"][0]["word"]) == (2, "inconclusive"), "0.196 at most a call, 0.01 in truth"
