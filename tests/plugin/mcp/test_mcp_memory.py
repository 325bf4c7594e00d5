"""MCP servers in the test's own process, both SDK majors: their tools run once, when recorded, and never in a replay."""

import pytest

from tests.support.mcp_orders import ASKING, INI, SERVER, assert_each_run_told_the_same, script, told
from tests.support.small_projects import edited, flat, furnished, passed, recorded

pytestmark = pytest.mark.env("frameworks", "lastyear")

AGENT = (
    ASKING
    + """
import anyio
import mcp.types
from mcp import ClientSession
from mcp.server.lowlevel import Server
from mcp.shared import memory
import orders

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
"""
)

TESTS = """
import asyncio
import anyio
import pytest
import agent, orders
from agent import tell

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated as of 2026")
every_tie = pytest.mark.parametrize("kind", agent.TIES)

@every_tie
def test_order_status(agentreplay, kind):
    async def main():
        async with agent.TIES[kind](orders.app) as session:
            return await agent.answered(session, "Where is A-17?")

    tell(f"order-{kind}", asyncio.run(main()))
    agentreplay.run.assert_tool_calls(
        [("lookup_order", {"order_id": "A-17"}), ("refund", {"order_id": "A-17", "amount": 18.5})]
    )

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

    return recorded(furnished(shared_project(asked), INI, orders=SERVER, agent=AGENT, test_shop=TESTS), "-q")


def ties(project, prefix="order-"):
    return sum(name.startswith(prefix) for name in told(project))


def lives(project):
    return len((project.root / "lives.txt").read_text(encoding="utf-8").splitlines())


def test_a_replay_says_the_same_and_runs_no_tool(project):
    assert "AR-UNFROZEN" not in project.recording.stdout
    assert ties(project) >= 2
    assert {project.ledger.count(line) for line in ("lookup A-17", "refund A-17 18.5")} == {ties(project)}
    assert project.ledger.count("low A-1") == ties(project, "low-")
    lived = lives(project)
    passed(project.offline("-q"))
    assert lives(project) - lived == ("low-direct" in told(project))  # there the client begins the server's life
    assert_each_run_told_the_same(project)


def test_a_changed_argument_is_a_divergence_at_that_call(project):
    with edited(project, "test_shop.py", '"amount": 500}', '"amount": 501}'):
        said = flat(project.offline("-q", "-k", "talk"))
    assert "[AR-ARGS] before turn 1/1: tool refund: $.params.arguments.amount changed, 500 -> 501" in said, said
    assert f"diverged {ties(project)} [{ties(project)} AR-ARGS]" in said


def test_another_server_is_a_divergence(project):
    with edited(project, "agent.py", 'Server("low"', 'Server("high"'):
        done = project.offline("-q", "-k", "low")
    assert f"{ties(project, 'low-')} failed" in done.stdout
    assert "OPEN low: url changed, memory://low -> memory://high" in done.stdout, done.stdout
