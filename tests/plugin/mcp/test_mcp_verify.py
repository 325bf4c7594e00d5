"""`--replay-tools=checked` for MCP tools: read ones are asked of the real server, all others of the snapshot."""

import json

import pytest

from tests.support.mcp_orders import AGENT, INI, OPENAI_AGENTS, SERVER, Served
from tests.support.model_server import Ask
from tests.support.small_projects import edited, flat, furnished, passed, recorded

pytestmark = pytest.mark.env("frameworks", "lastyear")

TESTS = """
import asyncio
import pytest
import agent

async def called(session, *names):
    return [agent.text(await session.call_tool(name, {"order_id": "A-17"})) for name in names]

async def said(kind, *names):
    async with agent.connected(kind) as session:
        await session.list_tools()
        return await called(session, *names)

@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_order(agentreplay, kind):
    assert asyncio.run(said(kind, "look_up", "cancel", "look_up")) == ["late", "cancelled", "late"]

def test_asks_back(agentreplay):
    assert asyncio.run(said("stdio", "sure", "look_up")) == ["accept", "late"]

def test_inside(agentreplay):
    async def main():
        async with agent.connected("stdio") as session:

            async def both(order_id: str) -> list:
                return await called(session, "look_up", "cancel")

            return await agentreplay.tool(both, effects="read")("A-17")

    assert asyncio.run(main()) == ["late", "cancelled"]

def test_framework(agentreplay):
    assert asyncio.run(agent.openai_agents()) == "It is as it is."
    agentreplay.run.assert_tool_calls([("look_up", {"order_id": "A-17"})])

def test_writes(agentreplay):
    assert asyncio.run(said("stdio", "cancel")) == ["cancelled"]
"""

READ = "agentreplay_tools =\n    look_* = read\n    sure = read\n"
STARTED, LOOKED_UP = "a server was started", "look_up A-17"


def script(body, number):
    """The model of the framework's agent: looks up, answers."""
    asked = any(message["role"] == "tool" for message in body["messages"])
    return "It is as it is." if asked else Ask("look_up", {"order_id": "A-17"})


@pytest.fixture(scope="module")
def project(shared_project):
    made = furnished(shared_project(script), READ + INI, orders=SERVER, agent=AGENT + OPENAI_AGENTS, test_shop=TESTS)
    (made.root / "world.json").write_text(json.dumps({"A-17": "late"}), encoding="utf-8")
    with Served(made, "http") as http:
        made.environ["HTTP_URL"] = http
        yield recorded(made, "-q")


def verified(project, *words):
    """A run with verify, and what servers did meanwhile."""
    before = len(project.ledger)
    done = project.run("-q", "--replay-tools=checked", *words)
    return done, [line for line in project.ledger[before:] if not line.startswith("session ")]


def test_read_tools_are_asked_and_no_other_and_only_where_that_is_wanted(project):
    passed(project.offline("-q"))
    done, ledger = verified(project, "-k", "order or inside or framework")
    passed(done)
    assert sorted(ledger) == sorted([STARTED] * 3 + [LOOKED_UP] * 6)


def test_what_they_give_otherwise_is_told(project):
    with edited(project, "world.json", "late", "shipped"):
        done, ledger = verified(project, "-k", "order or framework")
        near, _ = verified(project, "-k", "order", "-o", "agentreplay_tolerances=look_up $ = ignore")
    told = flat(done)
    # Two calls in each of two tests, and that of a framework; the first test shows them for all.
    assert told.count("[AR-RESULT] tool look_up: result changed, $.content[0].text late -> shipped") == 1, told
    assert "diverged 3 [3 AR-RESULT]" in told
    assert "5 verified live" in told
    assert "cancel A-17" not in ledger
    passed(near)


def test_a_server_that_asks_back_is_told_and_answers_the_next_call(project):
    done, ledger = verified(project, "-k", "asks_back")
    assert "no answer: the server asks back (elicitation/create)" in done.stdout, done.stdout
    assert "tool look_up" not in done.stdout
    assert ledger == [STARTED, "sure A-17", LOOKED_UP]


def test_a_server_that_does_not_start_is_told(project):
    (project.root / "broken").touch()
    try:
        done, ledger = verified(project, "-k", "order and stdio")
    finally:
        (project.root / "broken").unlink()
    assert "no answer: ConnectionError: the server has gone" in done.stdout, done.stdout
    assert ledger == []


def test_nothing_is_verified_where_no_tool_reads(project):
    done, ledger = verified(project, "-k", "writes")
    assert done.returncode == 4, done.stdout
    assert ledger == []
