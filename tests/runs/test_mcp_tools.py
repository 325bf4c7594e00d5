"""Tools behind an MCP server, served to a fixed agent like any other tool: by position, and from fixtures."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from pytest_agentreplay.cases.case import ServingPolicy
from pytest_agentreplay.model.divergence import Kind
from tests.runs.shop import furnished, recorded, tried

pytestmark = pytest.mark.env("frameworks")

SERVER = """
import os

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

app = Server("orders")

@app.tool()
async def lookup_order(order_id: str, user_id: str = "") -> str:
    with open(os.environ["LEDGER"], "a", encoding="utf-8") as ledger:
        ledger.write(order_id + "\\n")
    return f"{order_id} of {user_id or 'everybody'}"

if __name__ == "__main__":
    app.run()
"""
ANSWERS = (
    "{arguments: {order_id: A-1}, result: A-1 of everybody, recorded: true}",
    "{arguments: {order_id: A-1, user_id: u-7}, result: A-1 of u-7 alone, written: true, why: whose order it is}",
)


@pytest.fixture
def shop(tmp_path):
    """A recorded run of two lookups: gives what tries another agent on it."""
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    furnished(tmp_path, *ANSWERS)
    both = [{"order_id": "A-1"}, {"order_id": "A-2"}]
    run = recorded(tmp_path, lambda: asyncio.run(agent(tmp_path, both)([])))

    def tried_with(asked, **serving):
        policies = {"desired": ServingPolicy(**serving)}
        evidence = tried(tmp_path, run, agent(tmp_path, asked), half="desired", serving=policies)
        assert (tmp_path / "ledger.txt").read_text(encoding="utf-8").split() == ["A-1", "A-2"]
        return evidence

    return tried_with


def agent(root, asked):
    async def lookups(messages):
        from mcp import ClientSession, StdioServerParameters
        from mcp.client.stdio import stdio_client

        env = {**os.environ, "LEDGER": str(root / "ledger.txt")}
        server = StdioServerParameters(command=sys.executable, args=[str(root / "server.py")], env=env)
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            results = [await session.call_tool("lookup_order", arguments) for arguments in asked]
        return [result.content[0].text for result in results]

    return lookups


def test_strictly_the_recorded_calls_are_answered(shop):
    evidence = shop([{"order_id": "A-1"}, {"order_id": "A-2"}])
    assert evidence.divergence is None
    assert evidence.output == ["A-1 of everybody", "A-2 of everybody"]
    assert shop([{"order_id": "A-1", "user_id": "u-7"}]).divergence.kind is Kind.ARGS


def test_by_position_the_next_answer_of_the_tool_comes(shop):
    evidence = shop([{"order_id": "A-9"}, {"order_id": "A-1", "user_id": "u-7"}], tools="position")
    assert (evidence.divergence, evidence.output) == (None, ["A-1 of everybody", "A-2 of everybody"])
    assert shop([{"order_id": "A-9"}] * 3, tools="position").divergence.kind is Kind.EXTRA


def test_by_arguments_a_written_answer_comes_over_the_wire(shop):
    evidence = shop([{"order_id": "A-2"}, {"order_id": "A-1", "user_id": "u-7"}], tools="arguments")
    assert (evidence.divergence, evidence.output) == (None, ["A-2 of everybody", "A-1 of u-7 alone"])
    assert "tools 1 arguments (recorded), tools 1 arguments (written)" in evidence.served
    assert [call.arguments for call in evidence.tool_calls] == [
        {"order_id": "A-2"},
        {"order_id": "A-1", "user_id": "u-7"},
    ]
