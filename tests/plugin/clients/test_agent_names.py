"""Agents that a test names: kept in the snapshot, told where the run parts, and never what fails a test."""

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded

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
            return [*answers, await aask(f"{LAST} {name}")]
        finally:
            over.set()

@pytest_agentreplay.agent("writer")
def write():
    return ask("Write it."), ask(LAST)

LAST = "Shorter."
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


def answer(body, number):
    asked = body["messages"][-1]["content"]
    return f"answer {len(body['messages'])}, {({'Read it.': 1, 'Write it.': 2}).get(asked, 3)}"


@pytest.fixture(scope="module")
def team(shared_project):
    return recorded(furnished(shared_project(answer), agent=AGENT, test_team=TESTS))


def test_each_call_keeps_the_name_of_its_agent(team):
    beside, handoff = team.snapshots
    assert [x.agent for x in handoff.run.exchanges] == ["reader", "writer", "writer"]
    assert {x.lane for x in handoff.run.exchanges} == {"main"}
    assert {(x.lane, x.agent) for x in beside.run.exchanges} == {("main.1", "reader"), ("main.2", "writer")}


def test_it_replays_by_any_name_and_names_nobody_where_nothing_is_kept(team):
    with edited(team, "agent.py", 'READER = "reader"', 'READER = "writer"'):
        passed(team.offline())
    passed(team.run("--replay=off"))


def test_the_turn_is_told_by_the_agent(team, golden):
    with edited(team, "agent.py", 'LAST = "Shorter."', 'LAST = "Longer."'):
        golden("agents.beside", team.offline("-k", "beside"))
