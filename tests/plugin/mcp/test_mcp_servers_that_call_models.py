"""An MCP server in the test's own process whose tools call a model runs in a replay, and its model calls are frozen."""

import re
from importlib.metadata import version

import pytest

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
QUESTIONS = {
    "two-equal": ["Paris?"] * 2,
    "two": ["Paris?", "Rome?"],
    "three-equal": ["Paris?"] * 3,
    "three": ["Paris?", "Rome?", "Oslo?"],
}

@pytest.mark.parametrize("questions", QUESTIONS)
@pytest.mark.parametrize("kind", agent.TIES)
def test_gathered(kind, questions, agentreplay):
    async def main():
        async with agent.TIES[kind]() as client:
            async def ask(question):
                first = await client.call_tool("ask", {"question": question})
                await client.call_tool("plain", {"text": question})
                return agent.text(await client.call_tool("ask", {"question": agent.text(first)}))
            return await asyncio.gather(*map(ask, QUESTIONS[questions]))
    answers = asyncio.run(main())
    recorded = pathlib.Path(f"{kind}-{questions}.txt")
    if not recorded.exists():
        recorded.write_text(repr(answers))
    assert recorded.read_text() == repr(answers)
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_shop=TESTS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record("-W", "ignore", COLUMNS="250")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout
    project.tests = int(re.search(r"(\d+) passed", done.stdout)[1])
    return project


def test_it_replays_without_the_model_and_a_tool_without_calls_does_not_run(shop):
    agent = (shop.root / "agent.py").read_text(encoding="utf-8")
    if not version("mcp").startswith("1."):  # which does not tell the tools of one server apart
        shop.edit("agent.py", "    return text.upper()", "    raise RuntimeError")
    done = shop.offline("-W", "ignore")
    shop.write(agent=agent)
    assert f"{shop.tests} passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("Be brief.", "Be short.", r"\[AR-PROMPT\]"),
        ("    async with openai", '    raise RuntimeError("broken")\n    async with openai', ""),
    ],
)  # fmt: skip
def test_a_changed_tool_fails(old, new, code, shop):
    agent = (shop.root / "agent.py").read_text(encoding="utf-8")
    shop.edit("agent.py", old, new)
    done = shop.offline("-W", "ignore", COLUMNS="200")
    shop.write(agent=agent)
    assert f"{shop.tests} failed" in done.stdout, done.stdout
    assert len(re.findall(rf"^FAILED .*{code}", done.stdout, re.MULTILINE)) == shop.tests, done.stdout


def test_other_arguments_of_a_tool_diverge(shop):
    shop.edit("test_shop.py", '"text": "a"', '"text": "A"')
    done = shop.offline("-W", "ignore", COLUMNS="200")
    shop.edit("test_shop.py", '"text": "A"', '"text": "a"')
    assert len(re.findall(r"^FAILED .*\[AR-ARGS\]", done.stdout, re.MULTILINE)) == shop.tests, done.stdout


def test_concurrent_calls_replay_the_same_each_time(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_gathered=GATHERED)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record("-W", "ignore", COLUMNS="250")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout
    assert "not recorded" not in done.stdout, done.stdout
    for _ in range(2):
        done = project.offline("-W", "ignore", COLUMNS="250")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "the clock ran on" not in done.stdout, done.stdout
