"""The OpenAI Agents SDK over WebSockets: its Responses model and its realtime session, recorded and replayed."""

from __future__ import annotations

import pytest

from tests.support.small_projects import passed
from tests.support.voice import heard_in, record_voice, talk_as_openai

pytestmark = pytest.mark.env("frameworks")

AGENT = """
import asyncio, os, pathlib
from agents import Agent, Runner, function_tool, responses_websocket_session, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner

set_tracing_disabled(True)
PROMPT = "Be brief."
LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
URL = os.environ["VOICE_URL"] + "/v1"

@function_tool
def lookup(order: str) -> str:
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"lookup {order}\\n")
    return f"{order} is late"

async def over_responses():
    agent = Agent(name="orders", instructions=PROMPT, model="gpt-5", tools=[lookup])
    async with responses_websocket_session(api_key=os.environ["MODEL_API_KEY"], websocket_base_url=URL) as session:
        done = await session.run(agent, "Where is A-17?")
    return done.final_output

async def over_realtime():
    agent = RealtimeAgent(name="orders", instructions=PROMPT, tools=[lookup])
    heard = []
    config = {"url": URL + "/realtime?model=gpt-realtime", "api_key": os.environ["MODEL_API_KEY"]}
    async with await RealtimeRunner(agent).run(model_config=config) as session:
        await session.send_message("Where is A-17?")
        async for event in session:
            heard.append(event.type)
            if event.type == "tool_end":
                heard.append(event.output)
            if event.type == "raw_model_event" and event.data.type == "transcript_delta":
                heard.append(event.data.delta)
            if event.type == "agent_end" and "tool_end" in heard:
                return [one for one in heard if one != "raw_model_event" and one != "history_updated"]
"""

TEST = """
import asyncio
import agent
from heard import keep

def test_responses(agentreplay):
    keep("responses", asyncio.run(agent.over_responses()))

def test_realtime(agentreplay):
    keep("realtime", asyncio.run(agent.over_realtime()))
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    return record_voice(shared_project(), talk_as_openai, agent=AGENT, test_voice=TEST)


def test_the_agents_say_again_what_they_said(recorded):
    project, heard = recorded
    passed(project.offline())
    assert heard_in(project) == heard
    assert "late" in heard["responses"]
    assert "A-17 is late" in heard["realtime"]
    assert any("It is late (" in one for one in heard["realtime"])


def test_one_changed_word_is_told(recorded):
    project, _ = recorded
    said, _done = project.diverged()
    assert len(said) == 2
    assert all("AR-PROMPT" in line for line in said.values())
