"""MCP servers through agent frameworks: each tool is recorded once, and the server is not started in a replay."""

import json

import pytest

from tests.plugin.mcp.test_mcp import INI, SERVER, script

pytestmark = pytest.mark.env("frameworks", "lastyear")

AGENT = """
import os, pathlib, sys
import openai
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio
import pydantic_ai
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

set_tracing_disabled(True)
HERE = pathlib.Path(__file__).parent
PROMPT = "You help customers. Be brief."
QUESTION = "Where is A-17?"

def words():
    here = {"LEDGER": str(HERE / "ledger.txt"), "PATH": os.environ["PATH"]}
    return {"command": sys.executable, "args": [str(HERE / "orders.py")], "env": here}

def model():
    return openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-live-0123456789abcdef", max_retries=0)

async def openai_agents():
    async with MCPServerStdio(params=words(), client_session_timeout_seconds=60) as server, model() as client:
        agent = Agent(
            name="orders", instructions=PROMPT, model=OpenAIChatCompletionsModel("m-1", client), mcp_servers=[server]
        )
        return (await Runner.run(agent, QUESTION)).final_output

def toolset():
    try:
        from fastmcp.client.transports import StdioTransport
        from pydantic_ai.mcp import MCPToolset
    except ImportError:
        from pydantic_ai.mcp import MCPServerStdio
        return MCPServerStdio(**words(), timeout=60)
    return MCPToolset(StdioTransport(**words()))

async def pydantic():
    async with model() as client:
        asked = OpenAIChatModel("m-1", provider=OpenAIProvider(openai_client=client))
        agent = pydantic_ai.Agent(asked, instructions=PROMPT, toolsets=[toolset()])
        async with agent:
            return (await agent.run(QUESTION)).output

FRAMEWORKS = {"openai_agents": openai_agents, "pydantic": pydantic}
"""

# Its adapters want the SDK 1.x.
LANGCHAIN = """
from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI

async def langchain():
    tools = await MultiServerMCPClient({"orders": {"transport": "stdio", **words()}}).get_tools()
    asked = ChatOpenAI(model="m-1", base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-live-0123456789abcdef")
    found = await create_agent(asked, tools, system_prompt=PROMPT).ainvoke({"messages": [("user", QUESTION)]})
    return found["messages"][-1].content

FRAMEWORKS["langchain"] = langchain
"""

TESTS = """
import asyncio
import json
import pytest
import agent

@pytest.mark.parametrize("framework", agent.FRAMEWORKS)
def test_order_status(agentreplay, framework):
    said = asyncio.run(agent.FRAMEWORKS[framework]())
    assert "on its way" in said
    agentreplay.run.assert_tool_calls(
        [("lookup_order", {"order_id": "A-17"}), ("refund", {"order_id": "A-17", "amount": 18.5})]
    )
    with (agent.HERE / f"{framework}.told").open("a", encoding="utf-8") as file:
        file.write(json.dumps(said) + "\\n")
"""


@pytest.fixture(scope="module")
def project(shared_project, pytestconfig):
    made = shared_project(script)
    made.frameworks = ["openai_agents", "pydantic"]
    if pytestconfig.getoption("--env") == "lastyear":
        made.frameworks.append("langchain")
    made.write(orders=SERVER, agent=AGENT + LANGCHAIN * ("langchain" in made.frameworks), test_shop=TESTS)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    made.recorded = made.record("-q")
    return made


def test_everything_is_recorded_and_proved(project):
    assert project.recorded.returncode == 0, project.recorded.stdout + project.recorded.stderr
    assert "all replay" in project.recorded.stdout, project.recorded.stdout
    assert "AR-UNFROZEN" not in project.recorded.stdout
    assert project.ledger.count("lookup A-17") == project.ledger.count("refund A-17 18.5") == len(project.frameworks)


def test_a_replay_says_the_same_and_starts_nothing(project):
    done = project.offline("-q")
    assert done.returncode == 0, done.stdout + done.stderr
    for framework in project.frameworks:
        lines = (project.root / f"{framework}.told").read_text(encoding="utf-8").splitlines()
        assert len(lines) in (3, 4)  # recorded, proved, replayed; the proof tries its first test again if slow
        assert len({json.loads(line) for line in lines}) == 1


def test_a_changed_prompt_is_the_first_divergent_turn(project):
    found, done = project.diverged("-q")
    assert len(found) == len(project.frameworks), done.stdout
    for said in found.values():
        assert "[AR-PROMPT] turn 1/3" in said
