"""`--replay-tools=verify` for MCP tools: read ones are asked of the real server, all others of the snapshot."""

import json

import pytest

from pytest_agentreplay.demo.server import Ask
from tests.plugin.mcp.test_mcp import INI, Served

pytestmark = pytest.mark.env("frameworks", "lastyear")

SERVER = """
import asyncio, json, os, pathlib, socket, sys, threading, warnings
from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as Server

warnings.simplefilter("ignore")
app = Server("orders")
HERE = pathlib.Path(__file__).parent

def note(line):
    with open(os.environ["LEDGER"], "a", encoding="utf-8") as ledger:
        ledger.write(line + "\\n")

class Choice(BaseModel):
    sure: bool

@app.tool()
async def look_up(order_id: str) -> str:
    note(f"look_up {order_id}")
    return json.loads((HERE / "world.json").read_text(encoding="utf-8"))[order_id]

@app.tool()
async def refund(order_id: str) -> str:
    note(f"refund {order_id}")
    return "refunded"

@app.tool()
async def sure(order_id: str, ctx: Context) -> str:
    note(f"sure {order_id}")
    return (await ctx.elicit("Sure?", Choice)).action

def serve():
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    uvicorn.Server(uvicorn.Config(app.streamable_http_app(), log_level="error")).run(sockets=[listening])

if __name__ == "__main__":
    if (HERE / "broken").exists():
        sys.exit(3)
    note("a server was started")
    app.run() if len(sys.argv) == 1 else serve()
"""

AGENT = """
import contextlib, os, pathlib, sys
import mcp.types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client import streamable_http

HERE = pathlib.Path(__file__).parent
http_client = getattr(streamable_http, "streamable_http_client", None) or streamable_http.streamablehttp_client

def server():
    here = {"LEDGER": str(HERE / "ledger.txt"), "PATH": os.environ["PATH"]}
    return StdioServerParameters(command=sys.executable, args=[str(HERE / "orders.py")], env=here)

TRANSPORTS = {"stdio": lambda: stdio_client(server()), "http": lambda: http_client(os.environ["HTTP_URL"] + "/mcp")}

async def elicit(context, params):
    return mcp.types.ElicitResult(action="accept", content={"sure": True})

@contextlib.asynccontextmanager
async def connected(kind):
    async with TRANSPORTS[kind]() as (read, write, *_):
        async with ClientSession(read, write, elicitation_callback=elicit) as session:
            await session.initialize()
            await session.list_tools()
            yield session

async def called(session, *names):
    return [(await session.call_tool(name, {"order_id": "A-17"})).content[0].text for name in names]

async def said(kind, *names):
    async with connected(kind) as session:
        return await called(session, *names)
"""

FRAMEWORK = """
import openai
from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio

set_tracing_disabled(True)

async def framework():
    words = {"command": sys.executable, "args": [str(HERE / "orders.py")], "env": server().env}
    async with (
        MCPServerStdio(params=words, client_session_timeout_seconds=20) as orders,
        openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-live-0123456789abcdef") as client,
    ):
        agent = Agent(name="orders", model=OpenAIChatCompletionsModel("m-1", client), mcp_servers=[orders])
        return (await Runner.run(agent, "Where is A-17?")).final_output
"""

TESTS = """
import asyncio
import pytest
import agent

@pytest.mark.parametrize("kind", agent.TRANSPORTS)
def test_order(agentreplay, kind):
    assert asyncio.run(agent.said(kind, "look_up", "refund", "look_up")) == ["late", "refunded", "late"]

def test_asks_back(agentreplay):
    assert asyncio.run(agent.said("stdio", "sure", "look_up")) == ["accept", "late"]

def test_inside(agentreplay):
    async def main():
        async with agent.connected("stdio") as session:

            async def both(order_id: str) -> list:
                return await agent.called(session, "look_up", "refund")

            return await agentreplay.tool(both, effects="read")("A-17")

    assert asyncio.run(main()) == ["late", "refunded"]

def test_framework(agentreplay):
    assert asyncio.run(agent.framework()) == "It is as it is."
    agentreplay.run.assert_tool_calls([("look_up", {"order_id": "A-17"})])

def test_writes(agentreplay):
    assert asyncio.run(agent.said("stdio", "refund")) == ["refunded"]
"""


def script(body, number):
    """The model of the framework's agent: looks up, answers."""
    asked = any(message["role"] == "tool" for message in body["messages"])
    return "It is as it is." if asked else Ask("look_up", {"order_id": "A-17"})


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(script)
    made.write(orders=SERVER, agent=AGENT + FRAMEWORK, test_shop=TESTS)
    (made.root / "pytest.ini").write_text(INI + "agentreplay_read_tools =\n    look_*\n    sure\n", encoding="utf-8")
    world(made, "late")
    with Served(made, "http") as http:
        made.environ["HTTP_URL"] = http
        made.recorded = made.record("-q")
        yield made


def world(project, status):
    (project.root / "world.json").write_text(json.dumps({"A-17": status}), encoding="utf-8")


def verified(project, *words):
    """A run with verify, and what servers did meanwhile."""
    before = len(project.ledger)
    done = project.run("-q", "--replay-tools=verify", *words)
    return done, project.ledger[before:]


def test_it_is_recorded(project):
    assert project.recorded.returncode == 0, project.recorded.stdout + project.recorded.stderr
    assert "all replay" in project.recorded.stdout, project.recorded.stdout


def test_a_replay_asks_no_server(project):
    done = project.offline("-q")
    assert done.returncode == 0, done.stdout + done.stderr


def test_read_tools_are_asked_and_no_other(project):
    done, ledger = verified(project, "-k", "order")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ledger == ["a server was started", *["look_up A-17"] * 4]


def test_what_they_give_otherwise_is_told(project):
    world(project, "shipped")
    try:
        done, ledger = verified(project, "-k", "order")
        near, _ = verified(project, "-k", "order", "-o", "agentreplay_tolerances=look_up $ = ignore")
    finally:
        world(project, "late")
    assert done.returncode == 1
    told = " ".join(done.stdout.split())
    # Two calls in each of two tests.
    assert told.count("[AR-RESULT] tool look_up: result changed, $.content[0].text late -> shipped") == 2, told
    assert told.count("[AR-RESULT] call 5/7: tool look_up: result changed, $.content[0].text late -> shipped") == 2
    assert "4 verified live" in told
    assert "refund A-17" not in ledger
    assert near.returncode == 0, near.stdout


def test_a_server_that_asks_back_is_told_and_answers_the_next_call(project):
    done, ledger = verified(project, "-k", "asks_back")
    assert done.returncode == 1
    assert "no answer: the server asks back (elicitation/create)" in done.stdout, done.stdout
    assert "tool look_up" not in done.stdout
    assert ledger == ["a server was started", "sure A-17", "look_up A-17"]


def test_a_server_that_does_not_start_is_told(project):
    (project.root / "broken").touch()
    try:
        done, ledger = verified(project, "-k", "order and stdio")
    finally:
        (project.root / "broken").unlink()
    assert done.returncode == 1
    assert "no answer: ConnectionError: the server has gone" in done.stdout, done.stdout
    assert ledger == []


def test_within_a_verified_tool_only_read_ones_are_asked(project):
    done, ledger = verified(project, "-k", "inside")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ledger == ["a server was started", "look_up A-17"]


def test_a_frameworks_tool_runs_on_what_the_server_gives_now(project):
    same, ledger = verified(project, "-k", "framework")
    world(project, "shipped")
    try:
        changed, _ = verified(project, "-k", "framework")
    finally:
        world(project, "late")
    assert same.returncode == 0, same.stdout + same.stderr
    assert ledger == ["a server was started", "look_up A-17"]
    assert changed.returncode == 1
    assert "tool look_up: result changed" in changed.stdout, changed.stdout
    assert "shipped" in changed.stdout


def test_nothing_is_verified_where_no_tool_reads(project):
    done, ledger = verified(project, "-k", "writes")
    assert done.returncode == 4, done.stdout
    assert ledger == []
