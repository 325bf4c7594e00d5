"""SDKs over WebSockets: OpenAI realtime and Responses, Gemini live. Recorded over loopback, replayed without a server."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest

from pytest_agentreplay.model.turns import turns
from pytest_agentreplay.providers import READER
from tests.support.small_projects import passed
from tests.support.voice import heard_in, record_voice, talk_as_openai

pytestmark = pytest.mark.env("clients", "lastyear")

HAS_RESPONSES = int(version("openai").partition(".")[0]) >= 3

AGENT = """
import asyncio, json, os, pathlib, warnings
from google import genai
from google.genai import types
from openai import AsyncOpenAI, OpenAI

PROMPT = "Be brief."
LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def lookup(order):
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"lookup {order}\\n")
    return {"order": order, "status": "late"}

def plain(event):
    return event.model_dump(mode="json", exclude_none=True)

def client(kind):
    return kind(api_key=os.environ["MODEL_API_KEY"], websocket_base_url=os.environ["VOICE_URL"] + "/v1")

TOOL = {"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {"order": {"type": "string"}}}}

def question(text):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

def result(use):
    output = json.dumps(lookup(**json.loads(use.arguments)))
    return {"type": "function_call_output", "call_id": use.call_id, "output": output}

async def realtime():
    events = []
    async with client(AsyncOpenAI).realtime.connect(model="gpt-realtime") as connection:
        await connection.session.update(session={"type": "realtime", "instructions": PROMPT, "tools": [TOOL]})
        await connection.conversation.item.create(item=question(f"Where is A-17? {PROMPT}"))
        await connection.response.create()
        asked = 0
        async for event in connection:
            events.append(plain(event))
            if event.type == "response.done":
                uses = [item for item in event.response.output if item.type == "function_call"]
                if not uses:
                    break
                for use in uses:
                    await connection.conversation.item.create(item=result(use))
                await connection.response.create()
    return events

def realtime_sync():
    events = []
    warnings.simplefilter("ignore")  # openai calls the newest websockets in its old way
    with client(OpenAI).realtime.connect(model="gpt-realtime") as connection:
        connection.session.update(session={"type": "realtime", "instructions": PROMPT, "tools": [TOOL]})
        connection.response.create(response={"instructions": PROMPT, "input": [question("Where is A-17?")]})
        while True:
            event = connection.recv()
            events.append(plain(event))
            if event.type == "response.done":
                uses = [item for item in event.response.output if item.type == "function_call"]
                if not uses:
                    return events
                connection.response.create(response={"input": [result(use) for use in uses]})

async def responses():
    events = []
    asked = {"model": "gpt-5", "instructions": PROMPT, "tools": [TOOL], "input": [question("Where is A-17?")]}
    async with client(AsyncOpenAI).responses.connect() as connection:
        await connection.response.create(**asked)
        async for event in connection:
            events.append(plain(event))
            if event.type == "response.completed":
                uses = [item for item in event.response.output if item.type == "function_call"]
                if not uses:
                    return events
                more = [result(use) for use in uses]
                await connection.response.create(**asked | {"input": more, "previous_response_id": event.response.id})

async def live():
    gemini = genai.Client(api_key=os.environ["MODEL_API_KEY"])
    # The SDK insists on TLS; a server on loopback has no certificate.
    gemini._api_client._websocket_base_url = lambda *options: os.environ["VOICE_URL"]
    gemini._api_client._websocket_ssl_ctx = {}
    declared = {"function_declarations": [{"name": "lookup", "parameters": {"type": "OBJECT", "properties": {"order": {"type": "STRING"}}}}]}
    config = {"response_modalities": ["TEXT"], "system_instruction": PROMPT, "tools": [declared]}
    heard = []
    async with gemini.aio.live.connect(model="gemini-live", config=config) as session:
        await session.send_client_content(
            turns={"role": "user", "parts": [{"text": f"Where is A-17? {PROMPT}"}]}, turn_complete=True
        )
        async for message in session.receive():
            heard.append(plain(message))
            if message.tool_call:
                await session.send_tool_response(
                    function_responses=[
                        types.FunctionResponse(id=use.id, name=use.name, response=lookup(**use.args))
                        for use in message.tool_call.function_calls
                    ]
                )
    return heard
"""

TEST = """
import asyncio
import agent
from heard import keep

def test_realtime(agentreplay):
    keep("realtime", asyncio.run(agent.realtime()))

def test_realtime_sync(agentreplay):
    keep("realtime_sync", agent.realtime_sync())

def test_live(agentreplay):
    keep("live", asyncio.run(agent.live()))
"""

RESPONSES = """
def test_responses(agentreplay):
    keep("responses", asyncio.run(agent.responses()))
"""


async def talk(server, ws):
    await (gemini if "BidiGenerateContent" in ws.request.path else talk_as_openai)(server, ws)


async def gemini(server, ws):
    async for message in ws:
        said = json.loads(message)
        if "setup" in said:
            await ws.send(b'{"setupComplete": {}}')
        elif "client_content" in said or "clientContent" in said:
            use = {"id": f"use-{server.count():08}", "name": "lookup", "args": {"order": "A-17"}}
            await ws.send(json.dumps({"toolCall": {"functionCalls": [use]}}).encode())
        else:
            for word in ("It ", f"is late ({server.count()})."):
                turn = {"role": "model", "parts": [{"text": word}]}
                await ws.send(json.dumps({"serverContent": {"modelTurn": turn}}).encode())
            usage = {"promptTokenCount": server.count(), "responseTokenCount": 4, "totalTokenCount": 9}
            await ws.send(json.dumps({"serverContent": {"turnComplete": True}, "usageMetadata": usage}).encode())


@pytest.fixture(scope="module")
def recorded(shared_project):
    return record_voice(
        shared_project(),
        talk,
        ini="agentreplay_tools = agent.lookup = read\n",
        agent=AGENT,
        test_voice=TEST + RESPONSES * HAS_RESPONSES,
    )


def test_every_event_comes_again_and_no_tool_runs(recorded):
    project, heard = recorded
    passed(project.offline())
    assert heard_in(project) == heard
    assert all(len(events) >= 4 for events in heard.values())


@pytest.mark.parametrize("name", ["realtime", "realtime_sync", "live", *["responses"] * HAS_RESPONSES])
def test_turns_texts_and_tools_are_read(recorded, name):
    project, _ = recorded
    run = next(s.run for s in project.snapshots if s.run.header.test.endswith(f"::test_{name}"))
    found = [turn for turn in turns(run, READER) if turn.model is not None]
    replies = [READER.read_reply(turn.model.call, turn.model.outcome) for turn in found]
    assert len(found) == 2, [READER.read_call(x.call).name for x in run.exchanges]
    assert [use.name for use in replies[0].tool_uses] == ["lookup"]
    assert replies[1].text.startswith("It is late (")
    assert replies[1].usage["output_tokens"] in {2, 4}
    assert [x.call.name for turn in found for x in turn.exchanges if x.call.boundary == "tool"] == ["lookup"]
    assert "sk-live-0123456789abcdef" not in "".join(file.read_text(encoding="utf-8") for file in project.files)


def test_one_changed_word_of_the_prompt_is_told_at_its_frame(recorded):
    project, _ = recorded
    said, done = project.diverged()
    assert len(said) == 3 + HAS_RESPONSES
    for line in said.values():
        assert "[AR-PROMPT] before turn 1" in line or "[AR-PROMPT] turn 1" in line, said
    places = ["$.session.instructions", "$.setup.systemInstruction", *["$.instructions"] * HAS_RESPONSES]
    for place in places:
        assert place in done.stdout, done.stdout
