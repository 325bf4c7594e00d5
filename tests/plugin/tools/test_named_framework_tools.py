"""Frameworks in which no patch stands: their tools are named, as functions or as the objects that hold them."""

import pytest

from tests.support.model_script import Ask
from tests.support.small_projects import edited, furnished, passed, recorded, summary

pytestmark = pytest.mark.env("toolkits")

SHOP = """
import os, pathlib

URL = os.environ["MODEL_URL"]
PROMPT = "You help customers of a bookshop. Be brief."

def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")
"""
TOOLS = '''
def {lookup}(order_id: str) -> str:
    """Where an order is.

    Args:
        order_id: The number of the order.
    """
    note(f"lookup {{order_id}}")
    return f"order {{order_id}} is late"

{decorator}
async def refund(order_id: str) -> dict:
    """Pay an amount back.

    Args:
        order_id: The number of the order.
    """
    note(f"refund {{order_id}}")
    return {{"status": "refunded"}}
'''
TEST = """
import agent

def test_order(agentreplay):
    assert "answer" in agent.answer("Where is my order?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
"""
HEAD = "from shop import PROMPT, URL, note\n"
STRANDS = (
    HEAD
    + """
from strands import Agent, tool
from strands.models.openai import OpenAIModel

@tool(name="lookup_order")"""
    + TOOLS.format(lookup="look", decorator="@tool")
    + """
def answer(question):
    model = OpenAIModel(model_id="gpt-x", client_args={"base_url": URL + "/v1", "api_key": "sk-live-0123456789abcdef"})
    return str(Agent(model=model, tools=[look, refund], system_prompt=PROMPT, callback_handler=None)(question))
"""
)
AUTOGEN = (
    HEAD
    + """
import asyncio
from autogen_agentchat.agents import AssistantAgent
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

INFO = {"vision": False, "function_calling": True, "json_output": False, "family": "unknown", "structured_output": False}
"""
    + TOOLS.format(lookup="look", decorator="")
    + """
lookup_order = FunctionTool(look, name="lookup_order", description="Where an order is.")

def answer(question):
    async def run():
        client = OpenAIChatCompletionClient(
            model="gpt-x", base_url=URL + "/v1", api_key="sk-live-0123456789abcdef", model_info=INFO
        )
        clerk = AssistantAgent(
            "clerk", client, tools=[lookup_order, refund], system_message=PROMPT, max_tool_iterations=3
        )
        done = await clerk.run(task=question)
        await client.close()
        return done.messages[-1].to_text()
    return asyncio.run(run())
"""
)
ADK = (
    HEAD
    + """
import asyncio
from google.adk.agents import Agent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
"""
    + TOOLS.format(lookup="lookup_order", decorator="")
    + """
def answer(question):
    async def run():
        model = Gemini(model="gemini-x", base_url=URL)
        clerk = Agent(name="clerk", model=model, instruction=PROMPT, tools=[lookup_order, FunctionTool(refund)])
        runner = InMemoryRunner(clerk, app_name="shop")
        events = await runner.run_debug(question, quiet=True)
        return events[-1].content.parts[-1].text
    return asyncio.run(run())
"""
)
AGENTS = {
    "strands": (STRANDS, ["agent.look = write as lookup_order", "agent.refund"]),
    "autogen": (AUTOGEN, ["agent.look = write as lookup_order", "agent.refund"]),
    "google-adk": (ADK, ["agent.lookup_order", "agent.refund"]),
}


def clerk(body, number):
    said = str(body)
    if "is late" not in said:
        return Ask("lookup_order", {"order_id": "A-17"})
    return f"answer {number}" if "refunded" in said else Ask("refund", {"order_id": "A-17"})


@pytest.mark.parametrize("framework", AGENTS)
def test_tools_are_frozen_by_the_lines_that_init_writes(shared_project, framework):
    agent, lines = AGENTS[framework]
    project = furnished(shared_project(clerk), shop=SHOP, agent=agent, test_order=TEST)
    project.environ |= {"GOOGLE_API_KEY": "AIzaSyA0123456789abcdefghijklmnopqrstu"}
    project.proves = True
    unseen = project.record()
    assert unseen.stdout.count("[AR-UNFROZEN]") == 2, unseen.stdout + unseen.stderr
    assert [line for line in lines if f"add to agentreplay_tools:   {line}\n" not in unseen.stdout] == []
    passed(project.command("init", "--yes", "--no-workflow"))
    assert [
        line for line in lines if f"    {line}\n" not in (project.root / "pytest.ini").read_text(encoding="utf-8")
    ] == []
    recorded(project)
    assert "replays" in project.recording.stdout, project.recording.stdout
    assert "AR-UNFROZEN" not in project.recording.stdout
    passed(project.offline())
    with edited(project, "shop.py", "Be brief.", "Be long."):
        assert "AR-PROMPT" in summary(project.offline())["order"]
