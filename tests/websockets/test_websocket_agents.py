"""The OpenAI Agents SDK over WebSockets: its Responses model and its realtime session, recorded and replayed."""

from __future__ import annotations

import json

import pytest

from tests.support.small_projects import passed
from tests.support.voice import heard_in, record_voice

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


async def talk(server, ws):
    realtime = "/realtime" in ws.request.path
    answered = False

    async def say(kind, **fields):
        await ws.send(json.dumps({"type": kind, "event_id": f"e{server.count()}", **fields}))

    if realtime:
        await say("session.created", session={"type": "realtime", "model": "gpt-realtime"})
    async for message in ws:
        event = json.loads(message)
        answered = answered or "function_call_output" in message
        if event["type"] == "session.update":
            await say("session.updated", session=event["session"])
        elif event["type"] == "conversation.item.create":
            item = {"id": f"item_{server.count()}", "status": "completed", **event["item"]}
            await say("conversation.item.added", item=item, previous_item_id=None)
        elif event["type"] == "response.create":
            await answer(server, say, realtime=realtime, answered=answered)


async def answer(server, say, *, realtime, answered):
    number = server.count()
    whole = {"id": f"resp_{number}", "object": "response" if not realtime else "realtime.response"}
    whole |= {"status": "completed", "output": []}
    if not realtime:
        whole |= {"created_at": 1, "model": "gpt-5", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    await say("response.created", response={**whole, "status": "in_progress"}, sequence_number=0)
    if not answered:
        item = {"type": "function_call", "id": f"i{number}", "call_id": f"call_{number:08}", "name": "lookup"}
        item |= {"arguments": '{"order": "A-17"}', "status": "completed"}
    elif realtime:
        said = {"response_id": whole["id"], "item_id": f"i{number}", "output_index": 0, "content_index": 0}
        await say("response.output_audio_transcript.delta", delta=f"It is late ({number}).", **said)
        part = {"type": "output_audio", "transcript": f"It is late ({number})."}
        item = {"type": "message", "id": f"i{number}", "role": "assistant", "status": "completed", "content": [part]}
    else:
        part = {"type": "output_text", "text": f"It is late ({number}).", "annotations": []}
        item = {"type": "message", "id": f"i{number}", "role": "assistant", "status": "completed", "content": [part]}
    more = {"response_id": whole["id"]} if realtime else {"sequence_number": 5}
    await say("response.output_item.done", output_index=0, item=item, **more)
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    if not realtime:
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    done = "response.done" if realtime else "response.completed"
    await say(done, response={**whole, "output": [item], "usage": usage}, sequence_number=9)


@pytest.fixture(scope="module")
def recorded(shared_project):
    return record_voice(shared_project(), talk, agent=AGENT, test_voice=TEST)


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
