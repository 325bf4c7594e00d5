"""`agentreplay live compare` against a model whose quality depends on its name and its prompt."""

import csv
import json
import re

import pytest

from tests.support.model_server import Ask
from tests.support.small_projects import furnished, recorded

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import json, os, pathlib

import openai

PROMPT = "Be kind."
SCHEMA = {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}

def lookup(order):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(order)
    return "shipped"

def answer(question):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0) as client:
        while True:
            reply = client.chat.completions.create(model="m-good", messages=messages, tools=[SCHEMA]).choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                return reply.content
            for call in reply.tool_calls:
                result = lookup(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
"""

TESTS = """
import pytest
import agent

pytestmark = pytest.mark.agentreplay

@pytest.mark.parametrize("order", ["A-17", "B-2"])
def test_order(order):
    assert "shipped" in agent.answer(f"Where is {order}?")

def test_without_a_snapshot():
    pass
"""

INI = """agentreplay_tools =
    agent.lookup = read
agentreplay_prices =
    m-good = 10 in, 10 out
    m-cheap = 1 in, 1 out
    m-bad = 1 in, 1 out
"""


class Model:
    """Looks the order up and says so; `m-bad` looks up another one in most runs, as does any model that is told to be brief."""

    def __init__(self):
        self.bad = 0

    def __call__(self, body, number):
        system, question = (message["content"] for message in body["messages"][:2])
        if any(message["role"] == "tool" for message in body["messages"]):
            return "Your order has shipped, and is on its way to you."
        order = question.rpartition(" ")[2].strip("?")
        if body["model"] == "m-bad" or "brief" in system:
            self.bad += 1
            order = order if self.bad % 4 == 0 else "C-3"
        return Ask("lookup", {"order": order})


@pytest.fixture(scope="module")
def shop(shared_project):
    project = furnished(shared_project(Model()), INI, agent=AGENT, test_shop=TESTS)
    (project.root / "brief.txt").write_text("Be brief.", encoding="utf-8")
    recorded(project)
    project.ran = project.ledger
    return project


def compared(project, code, *words):
    """What a comparison printed as data, and the names of the models that were asked."""
    before = project.server.hits
    done = project.command("live", "compare", *words, "--json", "test_shop.py")
    assert done.returncode == code, done.stdout + done.stderr
    sent = [request.json["model"] for request in project.server.requests[before:]]
    assert project.ledger == project.ran, "a tool ran"
    return (json.loads(done.stdout) if done.stdout else None), sent, done


def totals(data):
    return {row["setting"]: row for row in data["rows"] if not row["test"]}


def test_a_worse_model_is_named_and_a_cheaper_one_that_is_as_good_is_not(shop):
    words = [f"--set=model={name}" for name in ("m-good", "m-cheap", "m-bad")]
    data, sent, _ = compared(shop, 1, *words, "--runs=8", "--csv=out/table.csv", "--html=table.html")
    assert data["settings"] == ["model=m-good", "model=m-cheap", "model=m-bad"]
    good, cheap, bad = totals(data).values()
    assert (good["passes"], good["runs"], cheap["passes"], cheap["runs"], bad["runs"]) == (16, 16, 16, 16, 16)
    assert (cheap["verdict"], cheap["ties"]) == ("no difference shown", 16)
    assert (bad["verdict"], bad["losses"], bad["wins"]) == ("worse", 12, 0)
    assert good["cost"] == pytest.approx(10 * cheap["cost"])
    assert good["tokens"] == cheap["tokens"] > 0
    assert {row["test"] for row in data["rows"]} == {
        "test_shop.py::test_order[A-17]",
        "test_shop.py::test_order[B-2]",
        "",
    }
    assert sent.count("m-good") == sent.count("m-cheap") == 32
    with (shop.root / "out/table.csv").open(newline="", encoding="utf-8") as file:
        assert [row["verdict"] for row in csv.DictReader(file)][-3:] == ["", "no difference shown", "worse"]
    assert "test_order[A-17]" in (shop.root / "table.html").read_text(encoding="utf-8")


def test_one_setting_is_compared_with_what_the_code_asks(shop):
    data, sent, _ = compared(shop, 1, "--set=prompt=@brief.txt", "--runs=8")
    assert data["settings"] == ["as recorded", "prompt=@brief.txt"]
    assert totals(data)["prompt=@brief.txt"]["verdict"] == "worse"
    assert set(sent) == {"m-good"}


def test_settings_that_differ_in_two_things_are_marked_and_few_runs_prove_nothing(shop):
    data, _, done = compared(shop, 3, "--set=model=m-good", "--set=model=m-cheap + temperature=0", "--runs=1")
    note = "model=m-cheap + temperature=0 differs from model=m-good in 2 things: model, temperature"
    assert data["notes"] == [f"{note}; which of them counts is not shown"]
    assert totals(data)["model=m-cheap + temperature=0"]["verdict"] == "inconclusive"
    done = shop.command("live", "compare", "--set=model=m-good", "--set=model=m-cheap", "--runs=1", "test_shop.py")
    assert done.returncode == 3
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert re.search(r"all tests\n  model=m-good +2/2", done.stdout)


def test_a_budget_is_shared_and_never_exceeded(shop):
    words = ("--set=model=m-good", "--set=model=m-cheap", "--runs=8", "--budget=calls=20")
    data, sent, _ = compared(shop, 3, *words)
    assert len(sent) <= 20
    assert sent.count("m-good") == sent.count("m-cheap") > 0
    assert all("budget" in row["stopped"] for row in totals(data).values())


def test_what_cannot_be_compared(shop):
    nothing = shop.command("live", "compare", "--set=model=m-2", "test_shop.py::test_without_a_snapshot")
    assert (nothing.returncode, nothing.stdout) == (5, "")
    assert "there is nothing to compare" in nothing.stderr
    for words, why in (
        (["--set=model", "."], "--set 'model': write NAME=VALUE"),
        (["--set=stream=true", "."], "--set stream: the agent writes it"),
        (["--set=prompt=@gone.txt", "."], "--set prompt=@gone.txt: gone.txt: there is no such file"),
        (["--set=model=m-2", "gone.py"], "file or directory not found: gone.py"),
        (["--set=model=m-2", "--budget=calls=none", "."], "--budget: 'calls=none'"),
        (["."], "the following arguments are required: --set"),
    ):
        done = shop.command("live", "compare", *words)
        assert done.returncode == 2, done.stdout + done.stderr
        assert why in done.stderr
        assert "Traceback" not in done.stderr
