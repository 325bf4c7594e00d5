"""An MCP server in the test's own process whose tools call a model runs in a replay, and its model calls are frozen."""

from importlib.metadata import version

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded, summary

pytestmark = pytest.mark.env("frameworks", "lastyear")

AGENT = """
import contextlib, os, uuid
import openai
try:
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server.mcpserver import MCPServer as Server
from mcp.shared import memory

app = Server("shop")
PROMPT = "Be brief."

@app.tool()
async def ask(question: str) -> str:
    async with openai.AsyncOpenAI(
        base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(verify=False),
    ) as client:
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": f"{question} {uuid.uuid4()}"}]
        reply = await client.chat.completions.create(model="m", messages=messages)
    return reply.choices[0].message.content

@app.tool()
async def plain(text: str) -> str:
    return text.upper()

TIES = {}
if hasattr(memory, "create_connected_server_and_client_session"):
    TIES["session"] = lambda: memory.create_connected_server_and_client_session(app._mcp_server)
else:
    from mcp import Client
    TIES["direct"] = lambda: Client(app)
    TIES["legacy"] = lambda: Client(app, mode="legacy")
try:
    import fastmcp
except ImportError:
    pass
else:
    TIES["fastmcp"] = lambda: fastmcp.Client(app)

def text(result):
    return " ".join(block.text for block in result.content)
"""

TESTS = """
import asyncio
import pytest
import agent

pytestmark = pytest.mark.filterwarnings("ignore")

@pytest.mark.parametrize("kind", agent.TIES)
def test_ask(kind, agentreplay):
    async def main():
        async with agent.TIES[kind]() as client:
            first = await client.call_tool("ask", {"question": "Paris?"})
            second = await client.call_tool("ask", {"question": "Rome?"})
            third = await client.call_tool("ask", {"question": agent.text(first)})
            assert agent.text(await client.call_tool("plain", {"text": "a"})) == "A"
            return [agent.text(result) for result in (first, second, third)]
    answers = asyncio.run(main())
    assert ["Paris?" in answers[0], "Rome?" in answers[1], "Paris?" in answers[2]] == [True] * 3, answers
    assert len(agentreplay.run.model_calls) == 3
    assert sorted(call.name for call in agentreplay.run.tool_calls) == ["ask", "ask", "ask", "plain"]
"""

GATHERED = """
import asyncio
import pathlib
import pytest
import agent

pytestmark = pytest.mark.filterwarnings("ignore")

@pytest.mark.parametrize("kind", agent.TIES)
def test_gathered(kind, agentreplay):
    async def main():
        async with agent.TIES[kind]() as client:
            async def ask(question):
                first = await client.call_tool("ask", {"question": question})
                return agent.text(await client.call_tool("ask", {"question": agent.text(first)}))
            return await asyncio.gather(*map(ask, ["Paris?", "Rome?", "Paris?"]))
    recorded, answers = pathlib.Path(f"{kind}.txt"), repr(asyncio.run(main()))
    if not recorded.exists():
        recorded.write_text(answers)
    assert recorded.read_text() == answers
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    return recorded(furnished(shared_project(), agent=AGENT, test_shop=TESTS), "-W", "ignore")


def test_it_replays_without_the_model_and_a_tool_without_calls_does_not_run(shop):
    # The SDK 1 does not tell the tools of one server apart.
    plain = "return text.upper()" if version("mcp").startswith("1.") else "raise RuntimeError"
    with edited(shop, "agent.py", "    return text.upper()", f"    {plain}"):
        passed(shop.offline("-W", "ignore"))


@pytest.mark.parametrize(
    ("file", "old", "new", "code"),
    [
        ("agent", "Be brief.", "Be short.", "[AR-PROMPT]"),
        ("agent", "    async with openai", '    raise RuntimeError("broken")\n    async with openai', ""),
        ("test_shop", '"text": "a"', '"text": "A"', "[AR-ARGS]"),
    ],
    ids=["prompt", "broken", "arguments"],
)
def test_a_changed_tool_or_other_arguments_fail(shop, file, old, new, code):
    with edited(shop, f"{file}.py", old, new):
        told = summary(shop.offline("-W", "ignore", COLUMNS="200"))
    assert len(told) == len(shop.files)
    assert all(code in said for said in told.values()), told


def test_concurrent_calls_replay_the_same(shared_project):
    project = recorded(furnished(shared_project(), agent=AGENT, test_gathered=GATHERED), "-W", "ignore")
    assert "not recorded" not in project.recording.stdout
    assert "the clock ran on" not in passed(project.offline("-W", "ignore")).stdout
