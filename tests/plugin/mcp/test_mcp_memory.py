"""MCP servers in the test's own process, both SDK majors: their tools run once, when recorded, and never in a replay."""

import json

import pytest

from tests.plugin.mcp.test_mcp import INI, SERVER, script

pytestmark = pytest.mark.env("frameworks", "lastyear")

AGENT = """
import contextlib, json, os, pathlib
import anyio
import mcp.types
import openai
from mcp import ClientSession
from mcp.server.lowlevel import Server
from mcp.shared import memory
import orders

HERE = pathlib.Path(__file__).parent
PROMPT = "You help customers. Be brief."
os.environ.setdefault("LEDGER", str(HERE / "ledger.txt"))

def model():
    return openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-live-0123456789abcdef", max_retries=0)

@orders.app.tool()
async def think(topic: str) -> str:
    async with model() as client:
        asked = await client.chat.completions.create(model="m-1", messages=[{"role": "user", "content": topic}])
    return asked.choices[0].message.content

SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}

async def low_call(order_id):
    orders.note(f"low {order_id}")
    return [mcp.types.TextContent(type="text", text=f"{order_id} is low ({orders.random.randrange(10**9)})")]

@contextlib.asynccontextmanager
async def lifespan(server):
    with (HERE / "lives.txt").open("a", encoding="utf-8") as lives:
        lives.write("one more\\n")
    yield {}

try:
    low = Server("low", lifespan=lifespan)

    @low.call_tool()
    async def _called(name, arguments):
        return await low_call(arguments["order_id"])

    @low.list_tools()
    async def _listed():
        return [mcp.types.Tool(name="lookup", inputSchema=SCHEMA)]
except AttributeError:
    async def _called(context, params):
        return mcp.types.CallToolResult(content=await low_call(params.arguments["order_id"]))

    async def _listed(context, params):
        return mcp.types.ListToolsResult(tools=[mcp.types.Tool(name="lookup", input_schema=SCHEMA)])

    low = Server("low", lifespan=lifespan, on_call_tool=_called, on_list_tools=_listed)

@contextlib.asynccontextmanager
async def streams(server, **callbacks):
    server = getattr(server, "_mcp_server", None) or getattr(server, "_lowlevel_server", server)
    async with memory.create_client_server_memory_streams() as ((read, write), (server_read, server_write)):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, server_read, server_write, server.create_initialization_options())
            async with ClientSession(read, write, **callbacks) as session:
                await session.initialize()
                yield session
            tasks.cancel_scope.cancel()

TIES = {"streams": streams}
if hasattr(memory, "create_connected_server_and_client_session"):
    TIES["session"] = memory.create_connected_server_and_client_session
else:
    from mcp import Client
    from fastmcp.client.transports.memory import FastMCPTransport

    TIES["direct"] = lambda server, **callbacks: Client(server, log_level="info", **callbacks)
    TIES["legacy"] = lambda server, **callbacks: Client(server, mode="legacy", **callbacks)

    @contextlib.asynccontextmanager
    async def fast(server, **callbacks):
        async with FastMCPTransport(server).connect_session(**callbacks) as session:
            await session.initialize()
            yield session

    TIES["fastmcp"] = fast

def failed(result):
    return result.is_error if hasattr(result, "is_error") else result.isError

def text(result):
    return " ".join(block.text for block in result.content)

async def answer(kind, question):
    async with TIES[kind](orders.app) as session, model() as client:
        offered = (await session.list_tools()).tools
        tools = [
            {"type": "function", "function": {"name": tool.name, "parameters": {"type": "object", "properties": {}}}}
            for tool in offered
        ]
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
        while True:
            reply = (await client.chat.completions.create(model="m-1", messages=messages, tools=tools)).choices[0].message
            if not reply.tool_calls:
                return reply.content
            messages.append(reply.model_dump(exclude_none=True))
            for call in reply.tool_calls:
                result = await session.call_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text(result)})
"""

TESTS = """
import asyncio, json
import anyio
import mcp.types
import pytest
import agent, orders

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated as of 2026")
every_tie = pytest.mark.parametrize("kind", agent.TIES)

def tell(name, *told):
    with (agent.HERE / f"{name}.told").open("a", encoding="utf-8") as file:
        file.write(json.dumps(told) + "\\n")

@every_tie
def test_order_status(agentreplay, kind):
    tell(f"order-{kind}", asyncio.run(agent.answer(kind, "Where is A-17?")))
    agentreplay.run.assert_tool_calls(
        [("lookup_order", {"order_id": "A-17"}), ("refund", {"order_id": "A-17", "amount": 18.5})]
    )
    looked, refunded = agentreplay.run.tool_calls
    assert (looked.turn, refunded.turn) == (1, 2)
    assert looked.result["content"][0]["text"].startswith("A-17 is late") and not looked.failed

@every_tie
def test_talk(agentreplay, kind):
    heard = []

    async def log(params):
        heard.append(["log", params.data])

    async def main():
        async with agent.TIES[kind](orders.app, logging_callback=log) as session:

            async def progress(done, total, message):
                heard.append(["progress", done, message])
                if kind == "direct" and message == "asking for A-1":  # the others would wait for themselves
                    heard.append([agent.text(await session.call_tool("refund", {"order_id": "n", "amount": 1}))])

            await session.call_tool("lookup_order", {"order_id": "A-1"}, progress_callback=progress)
            order = []

            async def look(order_id, seconds):
                result = await session.call_tool(
                    "lookup_order", {"order_id": order_id, "seconds": seconds}, progress_callback=progress
                )
                order.append(agent.text(result))

            await asyncio.gather(look("slow", 0.2), look("quick", 0))
            assert order[0].startswith("quick")
            wrong = await session.call_tool("refund", {"order_id": "A-1", "amount": 500})
            assert agent.failed(wrong) is True
            with anyio.move_on_after(0.5) as scope:
                await session.call_tool("lookup_order", {"order_id": "never", "seconds": 60})
            thought = agent.text(await session.call_tool("think", {"topic": "kindness"}))
            with pytest.raises(Exception) as caught:
                await session.get_prompt("no such prompt")
            tell(f"talk-{kind}", order, agent.text(wrong), scope.cancelled_caught, thought, str(caught.value), heard)

    asyncio.run(main())
    assert heard[0] == ["progress", 1.0, "asking for A-1"]
    assert ["log", "looking at A-1"] in heard
    calls = agentreplay.run.tool_calls
    nested = [("refund", False)] if kind == "direct" else []
    looked = ("lookup_order", False)
    assert [(call.name, call.failed) for call in calls][:-2] == [looked, *nested, looked, looked, ("refund", True)]
    assert [call.name for call in calls][-2:] == ["lookup_order", "think"]
    assert len(agentreplay.run.model_calls) == 1

@pytest.mark.parametrize("kind", sorted(agent.TIES.keys() - {"fastmcp"}))  # which takes no servers of the lower level
def test_low(agentreplay, kind):
    async def main():
        async with agent.TIES[kind](agent.low) as session:
            tell(f"low-{kind}", agent.text(await session.call_tool("lookup", {"order_id": "A-1"})))

    asyncio.run(main())
    agentreplay.run.assert_tool_calls([("lookup", {"order_id": "A-1"})])
"""


@pytest.fixture(scope="module")
def project(shared_project):
    def asked(body, number):
        return f"Think kindly ({number})." if not body.get("tools") else script(body, number)

    made = shared_project(asked)
    made.write(orders=SERVER, agent=AGENT, test_shop=TESTS)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    made.recorded = made.record("-q")
    return made


def told(project):
    return {
        file.stem: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for file in project.root.glob("*.told")
    }


def ties(project, prefix="order-"):
    return sum(name.startswith(prefix) for name in told(project))


def test_everything_is_recorded_and_proved(project):
    assert project.recorded.returncode == 0, project.recorded.stdout + project.recorded.stderr
    assert "all replay" in project.recorded.stdout, project.recorded.stdout
    assert "AR-UNFROZEN" not in project.recorded.stdout, project.recorded.stdout
    assert ties(project) >= 2
    for line in ("lookup A-17", "refund A-17 18.5"):
        assert project.ledger.count(line) == ties(project), line
    assert project.ledger.count("low A-1") == ties(project, "low-")


def lives(project):
    return len((project.root / "lives.txt").read_text(encoding="utf-8").splitlines())


def test_a_replay_says_the_same_and_runs_no_tool(project):
    lived = lives(project)
    done = project.offline("-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert lives(project) - lived == ("low-direct" in told(project))  # there the client begins the server's life
    for name, lines in told(project).items():
        assert len(lines) in (3, 4), name  # recorded, proved, replayed; the proof tries its first test again if slow
        assert all(line == lines[0] for line in lines), name


def test_a_changed_argument_is_a_divergence_at_that_call(project):
    project.edit("test_shop.py", '{"order_id": "A-1", "amount": 500}', '{"order_id": "A-1", "amount": 501}')
    try:
        done = project.offline("-q", "-k", "talk")
    finally:
        project.edit("test_shop.py", '{"order_id": "A-1", "amount": 501}', '{"order_id": "A-1", "amount": 500}')
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert said.count("tool refund: $.params.arguments.amount changed, 500 -> 501") >= ties(project), done.stdout


def test_another_server_is_a_divergence(project):
    project.edit("agent.py", 'Server("low"', 'Server("high"')
    try:
        done = project.offline("-q", "-k", "low")
    finally:
        project.edit("agent.py", 'Server("high"', 'Server("low"')
    assert done.returncode == 1
    assert f"{ties(project, 'low-')} failed" in done.stdout
    assert "OPEN low: url changed, memory://low -> memory://high" in done.stdout, done.stdout
