"""MCP servers over stdio, streamable HTTP and SSE, both SDK majors: recorded once, replayed when they are gone."""

import pytest

from tests.support.mcp_orders import AGENT, INI, OPENAI_AGENTS, SERVER, Served, script, told
from tests.support.mcp_orders import assert_each_run_told_the_same as assert_the_same
from tests.support.small_projects import edited, furnished, passed, summary

pytestmark = pytest.mark.env("frameworks", "lastyear")

PYDANTIC_AI = """
import pydantic_ai
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

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
            return (await agent.run("Where is A-17?")).output

FRAMEWORKS = {"openai_agents": openai_agents, "pydantic": pydantic}
"""

TESTS = """
import asyncio
import mcp.types
import pytest
import agent
from agent import tell

@pytest.mark.parametrize("kind", agent.TRANSPORTS)
def test_order_status(agentreplay, kind):
    async def main():
        async with agent.connected(kind) as session:
            return await agent.answered(session, "Where is A-17?")

    tell(f"order-{kind}", asyncio.run(main()))
    agentreplay.run.assert_tool_calls(
        [("lookup_order", {"order_id": "A-17"}), ("refund", {"order_id": "A-17", "amount": 18.5})]
    )
    looked, refunded = agentreplay.run.tool_calls
    assert (looked.turn, refunded.turn) == (1, 2)
    assert looked.result["content"][0]["text"].startswith("A-17 is late") and not looked.failed

@pytest.mark.parametrize("framework", agent.FRAMEWORKS)
def test_order_of_a_framework(agentreplay, framework):
    tell(f"order-{framework}", asyncio.run(agent.FRAMEWORKS[framework]()))
    agentreplay.run.assert_tool_calls(
        [("lookup_order", {"order_id": "A-17"}), ("refund", {"order_id": "A-17", "amount": 18.5})]
    )

@pytest.mark.parametrize("kind", agent.TRANSPORTS)
def test_talk(agentreplay, kind):
    heard = []

    async def log(params):
        heard.append(["log", params.data])

    async def progress(done, total, message):
        heard.append(["progress", done, message])

    async def elicit(context, params):
        heard.append(["elicit", params.message])
        return mcp.types.ElicitResult(action="accept", content={"sure": True})

    async def sample(context, params):
        heard.append(["sample", params.messages[0].content.text])
        content = mcp.types.TextContent(type="text", text="with kind regards")
        return mcp.types.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(context):
        heard.append(["roots"])
        return mcp.types.ListRootsResult(roots=[])

    async def main():
        async with agent.connected(
            kind, logging_callback=log, elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=roots
        ) as session:
            await session.call_tool("lookup_order", {"order_id": "A-1"}, progress_callback=progress)
            order = []

            async def look(order_id, seconds):
                result = await session.call_tool("lookup_order", {"order_id": order_id, "seconds": seconds})
                order.append(agent.text(result))

            await asyncio.gather(look("slow", 0.4), look("quick", 0))
            assert order[0].startswith("quick")
            settled = agent.text(await session.call_tool("settle", {"order_id": "A-1"}))
            wrong = await session.call_tool("refund", {"order_id": "A-1", "amount": 500})
            assert agent.failed(wrong) is True
            tell(f"talk-{kind}", order, settled, agent.text(wrong), heard)

    asyncio.run(main())
    assert [name for name, *_ in heard][-3:] == ["elicit", "sample", "roots"]
    assert ["progress", 1.0, "asking for A-1"] in heard  # over HTTP it comes by another stream than the log does
    calls = agentreplay.run.tool_calls
    assert [(call.name, call.failed) for call in calls] == [
        ("lookup_order", False), ("lookup_order", False), ("lookup_order", False), ("settle", False), ("refund", True)
    ]
    assert calls[1].arguments["order_id"] in calls[1].result["content"][0]["text"]
    assert "with kind regards" in calls[3].result["content"][0]["text"]

def test_died(agentreplay):
    async def main():
        async with agent.connected("stdio") as session:
            with pytest.raises(Exception, match="Connection closed") as caught:
                await session.call_tool("die", {})
            tell("died", type(caught.value).__name__, str(caught.value))

    asyncio.run(main())
    (call,) = agentreplay.run.tool_calls
    assert call.failed and call.name == "die"

def test_no_such_server(agentreplay):
    async def main():
        params = mcp.StdioServerParameters(command="no-such-program-anywhere")
        with pytest.raises(FileNotFoundError) as caught:
            async with agent.stdio_client(params):
                pass
        tell("missing", caught.value.errno)

    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def project(shared_project):
    """Recorded with three servers at hand, which are gone afterwards."""
    agent = AGENT + OPENAI_AGENTS + PYDANTIC_AI
    made = furnished(shared_project(script), INI, orders=SERVER, agent=agent, test_shop=TESTS)
    with Served(made, "http") as http, Served(made, "sse") as sse:
        made.recording = passed(made.record("-q", HTTP_URL=http, SSE_URL=sse))
    made.environ |= {"HTTP_URL": "http://127.0.0.1:10", "SSE_URL": "http://127.0.0.1:11"}
    return made


def test_a_replay_says_the_same_and_starts_nothing(project):
    assert "AR-UNFROZEN" not in project.recording.stdout
    passed(project.offline("-q"))
    assert project.ledger.count("lookup A-17") == project.ledger.count("refund A-17 18.5") == 5
    assert len(told(project)) == 10
    assert_the_same(project)


def test_the_id_of_a_session_is_in_no_file(project):
    issued = {line.split()[1] for line in project.ledger if line.startswith("session ")}
    assert len(issued) >= 2, "no streamable HTTP server has issued a session id"
    assert project.files
    for file in project.root.rglob("*"):
        data = file.read_bytes() if file.is_file() and file.name != "ledger.txt" else b""
        assert not [session for session in issued if session.encode() in data], file


def test_a_changed_prompt_is_the_first_divergent_turn(project):
    found, done = project.diverged("-k", "order_status or order_of", COLUMNS="200")
    assert len(found) == 5, done.stdout
    assert all("[AR-PROMPT] turn 1/3" in said for said in found.values()), found


def test_a_fork_serves_every_message_and_asks_the_model_for_the_last_turn(project):
    asked, ledger = project.server.hits, project.ledger
    with edited(project, "agent.py", "Be brief.", "Be short."):
        done = passed(project.record("-k", "order_status", "--record-from=-1", COLUMNS="250"))
    assert done.stdout.count("forked at turn 3 (") == project.server.hits - asked == 3
    assert project.ledger == ledger


def test_a_changed_argument_is_a_divergence_at_that_call(project):
    with edited(project, "test_shop.py", '"amount": 500}', '"amount": 501}'):
        done = project.offline("-k", "talk", COLUMNS="200")
    found = summary(done).values()
    assert len(found) == 3
    assert all("[AR-ARGS]" in said for said in found)
    assert "tool refund: $.params.arguments.amount changed, 500 -> 501" in done.stdout


def test_a_message_that_is_no_longer_sent_ends_the_test_and_is_named(project):
    call = 'settled = agent.text(await session.call_tool("settle", {"order_id": "A-1"}))'
    with edited(project, "test_shop.py", call, 'settled = ""'):
        done = project.offline("-k", "talk and stdio", COLUMNS="200")
    assert [
        message
        for message in summary(done).values()
        if "[AR-MISSING]" in message and "tool settle was not called" in message
    ]
