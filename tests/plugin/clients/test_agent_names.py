"""Agents that a test names: kept in the snapshot, told where the run parts, and never what fails a test."""

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import asyncio, os
import httpx2
import pytest_agentreplay

URL = os.environ["MODEL_URL"] + "/v1/chat/completions"
PROMPT = "Be brief."
READER = "reader"

def body(question):
    return {"model": "m-1", "messages": [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]}

def ask(question):
    return httpx2.post(URL, json=body(question)).json()["choices"][0]["message"]["content"]

async def aask(question):
    async with httpx2.AsyncClient() as client:
        reply = await client.post(URL, json=body(question))
    return reply.json()["choices"][0]["message"]["content"]

async def work(name, question, before, answered, over):
    # The second turn comes after `before`: the recording has the two agents in this order.
    with pytest_agentreplay.agent(name):
        try:
            answers = [await aask(question)]
            answered.set()
            await before.wait()
            return [*answers, await aask(f"{LAST} {name}")] if TWICE else answers
        finally:
            over.set()

@pytest_agentreplay.agent("writer")
def write():
    return ask("Write it."), ask(LAST)

LAST = "Shorter."
TWICE = True
"""

TESTS = """
import asyncio
import agent

def test_handoff(agentreplay):
    with agentreplay.agent(agent.READER):
        agent.ask("Read it.")
    agent.write()
    names = [turn.agent for turn in agentreplay.run.turns]
    assert names in (["reader", "writer", "writer"], []), names
    if agentreplay.mode != "off":
        agentreplay.run.assert_turn(2, agent="writer", text_contains="3")
        agentreplay.run.assert_turn(3, text_contains="3")

def test_beside(agentreplay):
    async def both():
        answered, over, rest = (asyncio.Event() for _ in range(3))
        await asyncio.gather(agent.work("reader", "Read it.", answered, rest, over), agent.work("writer", "Write it.", over, answered, rest))
    asyncio.run(both())
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    project = shared_project(lambda body, number: f"answer {len(body['messages'])}, {said(body)}")
    project.write(agent=AGENT, test_team=TESTS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record()
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def said(body):
    return {"Read it.": 1, "Write it.": 2}.get(body["messages"][-1]["content"], 3)


@pytest.fixture
def parted(recorded):
    """A replay with a changed agent; what its report says, test by test."""

    def run(old, new, *words):
        recorded.edit("agent.py", old, new)
        try:
            done = recorded.offline(*words)
        finally:
            recorded.edit("agent.py", new, old)
        return done

    return run


def test_each_call_keeps_the_name_of_its_agent(recorded):
    beside, handoff = recorded.snapshots
    assert [x.agent for x in handoff.run.exchanges] == ["reader", "writer", "writer"]
    assert {x.lane for x in handoff.run.exchanges} == {"main"}
    assert {(x.lane, x.agent) for x in beside.run.exchanges} == {("main.1", "reader"), ("main.2", "writer")}


def test_it_replays_and_names_nobody_where_nothing_is_kept(recorded):
    assert recorded.offline().returncode == 0
    done = recorded.run("--replay=off")
    assert done.returncode == 0, done.stdout


def test_another_name_fails_nothing(parted):
    done = parted('READER = "reader"', 'READER = "writer"', "-k", "handoff")
    assert "['writer', 'writer', 'writer']" not in done.stdout, "a replay tells the recorded names"
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("test", ["handoff", "beside"])
def test_the_turn_is_told_by_the_agent(parted, golden, test):
    done = parted('LAST = "Shorter."', 'LAST = "Longer."', "-k", test)
    assert done.returncode == 1
    golden(f"agents.{test}", done)


def test_what_both_leave_out_is_told_by_their_names(parted, golden):
    golden("agents.left_out", parted("TWICE = True", "TWICE = False", "-k", "beside"))
