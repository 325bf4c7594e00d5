"""`agentreplay live lineup NODEID`: one planted fault in each layer, and the layer that is named; what it ran and cost."""

import json
import re
import shlex
import shutil

import pytest

from pytest_agentreplay.backends.lineup import smallest_guilty_set
from pytest_agentreplay.cli.live_commands import find_flags
from pytest_agentreplay.runs.live.lineup_cells import CellRuns
from tests.support.model_server import Ask
from tests.support.small_projects import edited, furnished, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import json, os, pathlib, random, time

import httpx2

HERE = pathlib.Path(__file__).parent
FACTOR = 1

def world(name):
    return json.loads(HERE.joinpath("world.json").read_text())[name]

def search(q: str) -> dict:
    return {"status": world("tool"), "q": q}

def policy(q: str) -> list:
    return [world("retrieval")]

def note(value: float) -> str:
    return "noted"

def pay(amount: int) -> str:
    with HERE.joinpath("ledger.txt").open("a") as ledger:
        ledger.write("pay\\n")
    return "paid"

TOOLS = {"search": search, "note": note, "pay": pay}
SCHEMAS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in TOOLS
]

def answer(name):
    if name == "world":
        policy("returns")
    if name == "inputs":
        note(time.time())
        note(random.random())
    messages = [{"role": "system", "content": world("prompt")}, {"role": "user", "content": name}]
    while True:
        sent = {"model": "m-1", "max_tokens": 64, "messages": messages, "tools": SCHEMAS}
        url, key = os.environ["MODEL_URL"], os.environ["MODEL_API_KEY"]
        reply = httpx2.post(url + "/v1/chat/completions", json=sent, headers={"authorization": "Bearer " + key})
        message = reply.json()["choices"][0]["message"]
        if not message.get("tool_calls"):
            pay(amount=5 * FACTOR)
            return message["content"]
        messages.append(message)
        for call in message["tool_calls"]:
            result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
"""


TESTS = """
import pytest

import agent

@pytest.mark.agentreplay
@pytest.mark.parametrize("name", ["inputs", "world", "same"])
def test_it(name):
    agent.answer(name)

def test_plain():
    pass

@pytest.mark.agentreplay(tolerances=["search $.status = ignore"])
def test_together():
    agent.answer("together")
"""

INI = """agentreplay_tools =
    agent.search = read
    agent.note = read
    agent.pay
    agent.policy = retrieval
"""

RECORDED = {"prompt": "Be kind.", "tool": "late", "retrieval": "30 days"}


class World:
    """The model: it answers as recorded, unless what it is told, or it itself, is another."""

    drifted = False

    def __call__(self, body, number):
        system, user, *rest = (str(message.get("content")) for message in body["messages"])
        if user in {"world", "together"} and not rest:
            return Ask("search", {"q": "boots"})
        drifts = self.drifted if user == "world" else "brief" in system and "lost" in "".join(rest)
        return Ask("search", {"q": "again"}) if drifts and len(rest) == 2 else "It is on its way to you."


@pytest.fixture(scope="module")
def shop(shared_project):
    project = furnished(shared_project(World()), INI, agent=AGENT, test_shop=TESTS)
    set_world(project)
    return recorded(project)


def set_world(project, **now):
    """Say what tools, retrievals and the prompt are now; the model drifts where it is named."""
    project.server._replies.drifted = now.pop("model", False)
    (project.root / "world.json").write_text(json.dumps(RECORDED | now), encoding="utf-8")


def history(project):
    """The kept results of live runs."""
    file = project.root / ".agentreplay" / "live" / "history.jsonl"
    return file.read_text(encoding="utf-8") if file.exists() else ""


class ForkedCells(CellRuns):
    """Cells whose pytest is a fork of a warm interpreter, as that of other tests is."""

    project = None

    def _run_pytest(self, *words):
        done = self.project.run(self.test, "-q", *words)
        assert done.returncode in {0, 1}, done.stdout + done.stderr
        return done


def line_up(project, name, runs="1", budget=(), **now):
    """Line up one test in the world of now; returns the answer and the cells."""
    set_world(project, **now)
    before = history(project)
    ForkedCells.project = project
    test = "test_shop.py::test_together" if name == "together" else f"test_shop.py::test_it[{name}]"
    cells = ForkedCells(project.root, test, runs, dict(budget), lambda _: None)
    cells.outcome_of(frozenset())
    (project.root / "ledger.txt").unlink(missing_ok=True)
    answer = smallest_guilty_set(cells.suspects, cells.outcome_of)
    assert project.ledger == [], "a tool that writes never runs"
    assert history(project) == before, "it is no history of the test"
    return answer, cells


@pytest.mark.parametrize(
    ("name", "now", "sentence"),
    [
        ("inputs", {}, "guilty: clock; random"),
        ("world", {"tool": "lost", "retrieval": "14 days", "model": True}, "guilty: retrieval; tool search; model"),
        ("same", {"prompt": "Be brief."}, "no layer is guilty: with all of them released the run is the recorded one"),
        (
            "together",
            {"prompt": "Be brief.", "tool": "lost"},
            "guilty: prompt and tool search together (seen through the live model, which alone changes nothing)",
        ),
    ],
)
def test_the_guilty_layers_are_named(shop, name, now, sentence):
    """Each is released while all others are pinned to the recording."""
    answer, cells = line_up(shop, name, **now)
    assert answer.describe() == sentence, "\n".join(map(str, cells.rows.values()))
    assert "writes:pay" in cells.layers
    assert ("prompt" in cells.suspects) == ("prompt" in now), "one that is the recorded one is no suspect"
    live = [row for row in cells.rows.values() if row["calls"]]
    assert live
    assert all("model" in row["released"] for row in live)


SHOWN = [
    ("inputs", {}, ["clock"], "clock drifted: before turn 1/1: note was called off script"),
    ("inputs", {}, ["random"], "random drifted: before turn 1/1: note was called off script"),
    ("world", {"retrieval": "14 days"}, ["retrieval"], "retrieval drifted: before turn 1/2: retrieval policy"),
    ("world", {"tool": "lost"}, ["tool:search"], "[AR-RESULT] turn 1/2: tool search: result changed"),
    ("world", {"tool": "lost", "prompt": "Be brief."}, ["tool:search"], "tool search drifted: turn 1/2: tool search"),
    ("together", {"prompt": "Be brief.", "tool": "lost"}, ["model", "prompt", "tool:search"],
     "MODEL + PROMPT + TOOL SEARCH DRIFT in 3 of 3 live runs: "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "now", "layers", "headline"), SHOWN)
def test_the_next_command_shows_what_was_found(shop, name, now, layers, headline):
    """And asks no model, unless that is one of the layers."""
    set_world(shop, **now)
    hits = shop.server.hits
    test = "test_shop.py::test_together" if name == "together" else f"test_shop.py::test_it[{name}]"
    done = shop.run(test, *shlex.split(find_flags(layers, ["prompt"] * ("prompt" in now))))
    assert headline in " ".join(done.stdout.split())
    assert (done.returncode, shop.server.hits > hits) == (1, "model" in layers)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("FACTOR = 1", "FACTOR = 2", "[AR-ARGS] turn 1/1: tool pay"),
        ('"content": name}', '"content": name + "!"}', "[AR-PROMPT] turn 1/1: model m-1: user text"),
        ('"max_tokens": 64', '"max_tokens": 65', "[AR-MODEL] turn 1/1: model m-1: $.max_tokens"),
    ],
)
def test_loop_code_is_what_is_left(shop, old, new, why):
    """Nothing is released, and no model is asked. Only the system text can be pinned of what the code sends."""
    hits = shop.server.hits
    with edited(shop, "agent.py", old, new):
        answer, cells = line_up(shop, "same")
    assert answer.describe() == "guilty: loop code"
    assert cells.rows[frozenset()]["why"].startswith(why)
    assert shop.server.hits == hits


def test_a_budget_that_is_spent_leaves_cells_undecided(shop):
    """They are neither guilty nor cleared."""
    hits = shop.server.hits
    answer, cells = line_up(shop, "same", budget={"calls": 1}, prompt="Be brief.")
    assert (answer.word, shop.server.hits - hits) == ("inconclusive", 1)
    assert [row["why"] for row in cells.rows.values() if row["outcome"] is None] == ["the budget is spent"]


def test_the_command_says_what_it_ran_what_it_cost_and_what_to_type(shop):
    """A row for each cell as soon as it was run, then the answer."""
    set_world(shop, model=True)
    words = ("live", "lineup", "test_shop.py::test_it[world]", "--runs", "1", "--budget", "calls=4 usd=1.5")
    done = shop.command(
        *words, PYTEST_ADDOPTS=" ".join([*shop.options, "-o", "'agentreplay_prices=m-1 = 1 in, 2 out'"])
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stdout + done.stderr
    assert lines[:5] == [
        f"same          {released}: 1 run, 0 calls, 0 tokens"
        for released in ("nothing released", "clock", "random", "retrieval", "tool search")
    ]
    assert re.fullmatch(r"drifted       model: 1 run, 2 calls, \d\d+ tokens, \$0\.000\d", lines[5])
    assert lines[6:] == [
        "              turn 2/2: search was called off script",
        "same          clock + random + retrieval + tool search: 1 run, 0 calls, 0 tokens",
        "",
        "guilty: model",
        "never released, since it may write: pay",
        'next: pytest "test_shop.py::test_it[world]" --replay=live --replay-runs=auto',
    ]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["test_shop.py::test_gone"], 125, "pytest ended with 4"),
        (["gone.snapshot.json"], 2, "gone.snapshot.json"),
        (["test_shop.py::test_it[same]", "--budget", "calls=0"], 2, "calls takes a whole number above zero"),
        (["test_shop.py::test_plain"], 125, "test_shop.py::test_plain: nothing ran live"),
    ],
)
def test_what_cannot_be_lined_up_is_said(shop, words, code, message):
    """With the exit codes of the other commands."""
    done = shop.command("live", "lineup", *words)
    assert (done.returncode, message in done.stderr, done.stdout) == (code, True, ""), done.stdout + done.stderr


def test_a_case_is_lined_up_by_the_test_of_its_run_and_the_answer_is_data_too(shop):
    """The frozen run names the test."""
    case = shop.root / "cases" / "kept"
    case.mkdir(parents=True)
    (case / "case.yaml").touch()
    snapshot = next(shop.root.rglob("*same*.snapshot.json"))
    (case / "run.snapshot.json").write_bytes(snapshot.read_bytes())
    with edited(shop, "agent.py", "FACTOR = 1", "FACTOR = 2"):
        done = shop.command("live", "lineup", "cases/kept", "--json")
    shutil.rmtree(shop.root / "cases")
    data = json.loads(done.stdout)
    assert (done.returncode, data["outcome"], data["guilty"]) == (1, "drifted", [["loop code"]])
    assert data["answer"] == "guilty: loop code"
    [row] = data["cells"]
    assert (row["released"], row["outcome"], row["runs"]) == ([], "drifted", 1)
    assert data["never_released"] == []


@pytest.mark.parametrize("words", [(), ("-p", "xdist", "-n", "2")], ids=["alone", "xdist"])
def test_a_test_with_a_parameter_goes_live_by_its_own_name(shop, words):
    """Its runs have other names, which nobody can know beforehand."""
    set_world(shop)
    hits = shop.server.hits
    done = shop.run(
        *words, "--replay=live", "--replay-runs=2", "test_shop.py::test_it[same]", "test_shop.py::test_plain"
    )
    assert (done.returncode, shop.server.hits - hits) == (0, 2), done.stdout
    assert "4 passed" in done.stdout
