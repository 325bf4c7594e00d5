"""Agents that a framework names: nobody says anything, and the report tells whose turn it was."""

import json

import pytest

from pytest_agentreplay.demo.script import Ask

pytestmark = pytest.mark.env("frameworks", "lastyear")

AGENT = """
import asyncio, atexit, os

URL = os.environ["MODEL_URL"] + "/v1"
KEY = "sk-live-0123456789abcdef"
WRITE = "You write."

LOOP = asyncio.new_event_loop()
atexit.register(LOOP.close)
"""

LANGGRAPH = """
import operator
from typing import Annotated, TypedDict
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

import agent

class State(TypedDict):
    said: Annotated[list, operator.add]

def model():
    return ChatOpenAI(model="gpt-x", base_url=agent.URL, api_key=agent.KEY, max_retries=0)

async def research(state):
    answer = await model().ainvoke([SystemMessage("You research."), HumanMessage("What?")])
    return {"said": [answer.content]}

async def write(state):
    first = await model().ainvoke([SystemMessage("You plan."), HumanMessage("What?")])
    answer = await model().ainvoke([SystemMessage(agent.WRITE), first])
    return {"said": [answer.content]}

def test_team(agentreplay):
    made = StateGraph(State)
    for node in (research, write):
        made.add_node(node.__name__, node)
        made.add_edge(START, node.__name__)
        made.add_edge(node.__name__, END)
    result = agent.LOOP.run_until_complete(made.compile().ainvoke({"said": []}))
    assert len(result["said"]) == 2
"""

OPENAI_AGENTS = """
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

import agent

set_tracing_disabled(True)

@function_tool
def lookup_order(order_id: str) -> str:
    return f"order {order_id} is late"

CLIENT = AsyncOpenAI(base_url=agent.URL, api_key=agent.KEY, max_retries=0)

def test_team(agentreplay):
    model = OpenAIChatCompletionsModel("gpt-x", CLIENT)
    write = Agent("write", instructions=agent.WRITE, tools=[lookup_order], model=model)
    research = Agent("research", instructions="You research.", handoffs=[write], model=model)
    result = agent.LOOP.run_until_complete(Runner.run(research, "What?"))
    assert result.last_agent.name == "write"
    agentreplay.run.assert_tool_calls(["lookup_order"])
"""

PYDANTIC_AI = """
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import agent

CLIENT = AsyncOpenAI(base_url=agent.URL, api_key=agent.KEY, max_retries=0)

def test_team(agentreplay):
    model = OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=CLIENT))
    research = Agent(model, name="research", instructions="You research.")
    write = Agent(model, name="write", instructions=agent.WRITE)

    @write.tool_plain
    def lookup_order(order_id: str) -> str:
        return f"order {order_id} is late"

    async def team():
        found = await research.run("What?")
        return await write.run(found.output)

    assert "answer" in agent.LOOP.run_until_complete(team()).output
    agentreplay.run.assert_tool_calls(["lookup_order"])
"""

FRAMEWORKS = {"langgraph": LANGGRAPH, "openai_agents": OPENAI_AGENTS, "pydantic_ai": PYDANTIC_AI}

INI = """[pytest]
pythonpath = .
"""


def team(body, number):
    """Research hands over where it can; who writes looks an order up first, where it can."""
    offered, said = json.dumps(body.get("tools", ())), json.dumps(body["messages"])
    if "transfer_to_write" in offered:
        return Ask("transfer_to_write", {})
    if "lookup_order" in offered and "is late" not in said:
        return Ask("lookup_order", {"order_id": "A-17"})
    return f"the answer, {len(body['messages'])} messages later"


@pytest.fixture(params=FRAMEWORKS, scope="module")
def project(request, shared_project, pytestconfig):
    if (request.param, pytestconfig.getoption("env")) == ("pydantic_ai", "lastyear"):
        pytest.skip("a year ago pydantic-ai kept nowhere which agent runs")
    made = shared_project(team)
    made.framework = request.param
    made.write(agent=AGENT, test_team=FRAMEWORKS[request.param])
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = made.record()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_each_call_of_a_model_keeps_the_name_of_its_agent(project):
    (snapshot,) = project.snapshots
    asked = [x for x in snapshot.run.exchanges if x.call.boundary == "http"]
    assert {x.agent for x in asked} == {"research", "write"}
    for x in asked:
        assert (b"You research." in x.call.body.data) == (x.agent == "research")
    assert project.offline().returncode == 0


def test_the_turn_is_told_by_the_agent(project, golden):
    project.edit("agent.py", "You write.", "You write well.")
    try:
        done = project.offline()
    finally:
        project.edit("agent.py", "You write well.", "You write.")
    assert done.returncode == 1
    golden(f"agents.{project.framework}", done)
