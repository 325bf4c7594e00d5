"""crewai: a crew of one agent with tools that nobody names, over the client that it brings."""

import json

import pytest

from tests.support.model_script import Ask
from tests.support.small_projects import edited, furnished, passed, recorded

pytestmark = pytest.mark.env("crewai")

AGENT = """
import os, pathlib
from crewai import LLM, Agent, Crew, Task
from crewai.tools import BaseTool, tool

URL = os.environ["MODEL_URL"]
GOAL = "Tell customers where their order is."


def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")

@tool("Lookup Order")
def lookup(order_id: str) -> str:
    "Where an order is."
    note(order_id)
    if order_id == "Z-0":
        raise LookupError(f"no such order: {order_id}")
    return f"order {order_id} is late"

class Refund(BaseTool):
    name: str = "refund"
    description: str = "Pay an amount back."

    def _run(self, order_id: str, amount: float) -> str:
        note(f"refund {order_id} {amount}")
        return f"refunded {amount} for {order_id}"

REFUND = Refund(max_usage_count=1)


def answer(question):
    model = LLM(model="openai/gpt-4o", base_url=URL + "/v1", api_key="sk-live-0123456789abcdef")
    clerk = Agent(role="clerk", goal=GOAL, backstory="A bookshop.", tools=[lookup, REFUND], llm=model, verbose=False)
    task = Task(description=question, expected_output="one sentence", agent=clerk)
    return Crew(agents=[clerk], tasks=[task], verbose=False).kickoff().raw
"""

TEST = """
import agent

def test_order(agentreplay):
    agent.REFUND.reset_usage_count()
    assert "answer" in agent.answer("Refund my late order.")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
    assert agent.REFUND.current_usage_count == 1, "uses are counted in a replay too"
    assert "usage limit" in str(agent.REFUND.run(order_id="A-17", amount=1)), "and limited, without a call of the tool"

def test_error(agentreplay):
    assert "I saw no such order" in agent.answer("There is no order of mine.")

def test_by_hand(agentreplay):
    assert agent.lookup.run(order_id="A-3") == "order A-3 is late"
    assert agent.lookup.to_structured_tool().invoke({"order_id": "A-4"}) == "order A-4 is late"
    agentreplay.run.assert_tool_calls(["lookup_order", "lookup_order"])
"""


def shop(body, number):
    """The model of a bookshop."""
    said = json.dumps(body)
    if "There is no order" in said:
        seen = "no such order" in said
        return f"answer {number}, I saw no such order" if seen else Ask("lookup_order", {"order_id": "Z-0"})
    if "is late" not in said:
        return Ask("lookup_order", {"order_id": "A-17"})
    return f"answer {number}" if "refunded" in said else Ask("refund", {"order_id": "A-17", "amount": 18.5})


THEIRS = ("-W", "ignore")
"""crewai and what it stands on warn of themselves."""


def test_crewai_is_recorded_replayed_and_told_where_it_parts(shared_project):
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
    crew = recorded(furnished(shared_project(shop, environ=quiet), agent=AGENT, test_shop=TEST), *THEIRS)
    assert "AR-UNFROZEN" not in crew.recording.stdout
    assert crew.ledger == ["A-17", "refund A-17 18.5", "Z-0", "A-3", "A-4"]
    assert "sk-live-0123456789abcdef" not in crew.files[0].read_text(encoding="utf-8")
    assert "replayed 3 tests" in passed(crew.offline(*THEIRS)).stdout
    with edited(crew, "agent.py", "Tell customers", "Tell friends"):
        parted = crew.offline(*THEIRS, COLUMNS="200").stdout
    assert parted.count("[AR-PROMPT] turn 1/3: model gpt-4o: ") == 2, "in its report and in the summary"
    assert parted.count("[AR-PROMPT] turn 1/") == 4
