"""SDKs that run the tools by themselves: google-genai's automatic function calling, anthropic's tool runner."""

import json

import pytest

from tests.support.model_script import Ask
from tests.support.small_projects import furnished, passed, recorded

pytestmark = pytest.mark.env("clients", "lastyear")

AGENT = '''
import asyncio, os, pathlib
import anthropic
from anthropic import beta_async_tool, beta_tool
from google import genai

URL = os.environ["MODEL_URL"]
PROMPT = "You help customers of a bookshop. Be brief."

def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")

def lookup_order(order_id: str) -> str:
    """Where an order is.

    Args:
        order_id: The number of the order.
    """
    note(f"lookup {order_id}")
    if order_id == "Z-0":
        raise LookupError(f"no such order: {order_id}")
    return f"order {order_id} is late"

async def later(order_id: str) -> str:
    """Where an order is."""
    return lookup_order(order_id)

later.__name__ = "lookup_order"

def claude(question, way):
    more = {"model": "claude-x", "max_tokens": 99, "system": PROMPT, "messages": [{"role": "user", "content": question}]}
    if way == "sync":
        with anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0) as client:
            return str(client.beta.messages.tool_runner(tools=[beta_tool(lookup_order)], **more).until_done().content)

    async def run():
        async with anthropic.AsyncAnthropic(base_url=URL, api_key="none", max_retries=0) as client:
            runner = client.beta.messages.tool_runner(tools=[beta_async_tool(later)], **more)
            return str((await runner.until_done()).content)

    return asyncio.run(run())

def gemini(question, way):
    client = genai.Client(api_key="none", http_options={"base_url": URL})
    config = {"system_instruction": PROMPT, "tools": [lookup_order if way == "sync" else later]}
    if way == "sync":
        return client.models.generate_content(model="gemini-x", contents=question, config=config).text

    async def run():
        return (await client.aio.models.generate_content(model="gemini-x", contents=question, config=config)).text

    return asyncio.run(run())
'''

TEST = """
import pytest, agent

@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("sdk", [agent.claude, agent.gemini], ids=["claude", "gemini"])
def test_order(agentreplay, sdk, way):
    assert "answer" in sdk("Where is my order?", way)
    agentreplay.run.assert_tool_calls(["lookup_order"])

@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("sdk", [agent.claude, agent.gemini], ids=["claude", "gemini"])
def test_error(agentreplay, sdk, way):
    assert "I saw no such order" in sdk("There is no order of mine.", way)
    agentreplay.run.assert_tool_calls(["lookup_order"])
"""

THEIRS = ("-W", "ignore")
"""SDKs warn of themselves, and leave clients open."""


def shop(body, number):
    """The model of a bookshop."""
    said = json.dumps(body)
    if "no order" in said or "no such order" in said:
        seen = "no such order" in said
        return f"answer {number}, I saw no such order" if seen else Ask("lookup_order", {"order_id": "Z-0"})
    return f"answer {number}" if "is late" in said else Ask("lookup_order", {"order_id": "A-17"})


def test_a_tool_loop_of_an_sdk_is_recorded_replayed_and_told_where_it_parts(shared_project):
    project = shared_project(shop, environ={"COLUMNS": "200"})
    recorded(furnished(project, agent=AGENT, test_shop=TEST), *THEIRS)
    assert "AR-UNFROZEN" not in project.recording.stdout
    assert sorted(project.ledger) == ["lookup A-17"] * 4 + ["lookup Z-0"] * 4
    passed(project.offline(*THEIRS))
    told, _ = project.diverged(*THEIRS)
    assert len(told) == 8
    assert all("[AR-PROMPT] turn 1/" in said for said in told.values()), told
