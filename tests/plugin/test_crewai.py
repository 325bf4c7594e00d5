"""crewai: a crew of one agent with a function tool, over the client that it brings."""

import pytest

pytestmark = pytest.mark.env("crewai")

AGENT = """
import os, pathlib
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

URL = os.environ["MODEL_URL"]
GOAL = "Tell customers where their order is."


def lookup_order(order_id: str) -> str:
    "Where an order is."
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(order_id + "\\n")
    return f"order {order_id} is late"

LOOKUP = tool("lookup_order")(lookup_order)


def answer(question):
    model = LLM(model="openai/gpt-4o", base_url=URL + "/v1", api_key="sk-live-0123456789abcdef")
    clerk = Agent(role="clerk", goal=GOAL, backstory="A bookshop.", tools=[LOOKUP], llm=model, verbose=False)
    task = Task(description=question, expected_output="one sentence", agent=clerk)
    return Crew(agents=[clerk], tasks=[task], verbose=False).kickoff().raw
"""

TEST = """
import agent

def test_order(agentreplay):
    assert agent.answer("Look up order A-17.")
    agentreplay.run.assert_tool_calls(["lookup_order"])
"""

THEIRS = ("-W", "ignore")
"""crewai and what it stands on warn of themselves."""


@pytest.fixture
def shop(shared_project):
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
    made = shared_project(environ=quiet)
    made.write(agent=AGENT, test_shop=TEST)
    ini = "[pytest]\npythonpath = .\nagentreplay_tools = agent.lookup_order = read\n"
    (made.root / "pytest.ini").write_text(ini, encoding="utf-8")
    return made


def test_crewai_is_recorded_replayed_and_told_where_it_parts(shop):
    recorded = shop.record(*THEIRS)
    assert recorded.returncode == 0, recorded.stdout
    assert "   replays" in recorded.stdout, recorded.stdout
    assert shop.ledger == ["A-17"]
    assert "sk-live-0123456789abcdef" not in shop.files[0].read_text(encoding="utf-8")
    shop.server.stop()
    replayed = shop.replay(*THEIRS)
    assert replayed.returncode == 0, replayed.stdout
    assert "replayed 1 test" in replayed.stdout
    assert len(shop.ledger) == 1
    shop.edit("agent.py", "Tell customers", "Tell friends")
    parted = shop.replay(*THEIRS, COLUMNS="200")
    assert parted.returncode == 1
    assert parted.stdout.count("[AR-PROMPT] turn 1/2: model gpt-4o: ") == 2, "in its report and in the summary"
