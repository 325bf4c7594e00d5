"""Agents at once on the clients themselves: tasks that gather, streams side by side, threads. Replayed as recorded."""

import itertools

import pytest

from tests.rehearsal import house, rehearsed, told
from tests.support.small_projects import passed

OPENAI = """
import asyncio, threading
from openai import AsyncOpenAI, OpenAI

from notes import KEY, NOTES, URL, done, known, note

def client():
    return AsyncOpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)

async def ask(model, question):
    reply = await model.chat.completions.create(model="m-1", messages=[{"role": "user", "content": known(question)}])
    return note(reply.choices[0].message.content)

async def look(place):
    await asyncio.sleep(0.001)
    return f"found in the {place}: {len(NOTES)}"

async def found(place):
    return note(await look(place))

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]

async def explore(model, name):
    messages = [{"role": "user", "content": known(f"I am {name}. Use your tools.")}]
    while True:
        reply = await model.chat.completions.create(model="m-1", messages=messages, tools=TOOLS)
        message = reply.choices[0].message
        if not message.tool_calls:
            return note(message.content)
        messages.append(message.model_dump(exclude_none=True))
        places = [eval(call.function.arguments)["place"] for call in message.tool_calls]
        for call, what in zip(message.tool_calls, await asyncio.gather(*map(found, places))):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"{what} {known('')}"})

async def all_at_once(agents):
    async with client() as model:
        return await agents(model)

def test_gather(agentreplay):
    async def agents(model):
        async def one(name):
            return [await ask(model, f"{name}, question {number}.") for number in range(3)]
        return await asyncio.gather(*map(one, "abcdef"))
    done(agentreplay, asyncio.run(all_at_once(agents)))

def test_five_agents_with_tools(agentreplay):
    agentreplay.tool(look)
    async def agents(model):
        return await asyncio.gather(*[explore(model, name) for name in "abcde"])
    done(agentreplay, asyncio.run(all_at_once(agents)))

def test_a_tool_started_while_a_stream_flows(agentreplay):
    agentreplay.tool(look)
    async def told(model, place):
        tool = None
        stream = await model.chat.completions.create(
            model="m-1", stream=True, messages=[{"role": "user", "content": known(place)}]
        )
        async for event in stream:
            note(f"{place}: {event.choices[0].delta.content if event.choices else ''}")
            tool = tool or asyncio.create_task(found(place))
        return await tool
    async def agents(model):
        places = await asyncio.gather(*[told(model, place) for place in ("attic", "cellar", "garden")])
        return [places, await ask(model, "And now?")]
    done(agentreplay, asyncio.run(all_at_once(agents)))

def test_eight_threads_on_one_client(agentreplay):
    said = {}
    with OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0) as model:
        def one(name):
            said[name] = []
            for number in range(3):
                text = known(f"{name}, question {number}.")
                reply = model.chat.completions.create(model="m-1", messages=[{"role": "user", "content": text}])
                said[name].append(note(reply.choices[0].message.content))
        threads = [threading.Thread(target=one, args=(name,)) for name in "abcdefgh"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    done(agentreplay, dict(sorted(said.items())))
"""

ANTHROPIC = """
import asyncio
from anthropic import AsyncAnthropic

from notes import KEY, NOTES, URL, done, known, note

async def tell(model, name):
    async with model.messages.stream(
        model="claude-x", max_tokens=100, messages=[{"role": "user", "content": known(name)}]
    ) as stream:
        async for text in stream.text_stream:
            note(f"{name}: {text}")
        return (await stream.get_final_message()).content[0].text

def test_two_streams_side_by_side(agentreplay):
    async def both():
        async with AsyncAnthropic(base_url=URL, api_key=KEY, max_retries=0) as model:
            said = await asyncio.gather(tell(model, "left"), tell(model, "right"))
            return [said, await tell(model, "And now?")]
    done(agentreplay, asyncio.run(both()))
"""

pytestmark = pytest.mark.env("main")


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project()
    house(made, test_openai=OPENAI, test_anthropic=ANTHROPIC)
    made.did = rehearsed(made)
    return made


def test_all_is_replayed_as_recorded_and_the_streams_did_flow_side_by_side(project):
    assert len(project.did) == 5
    notes = project.did["test_anthropic.py::test_two_streams_side_by_side"]["notes"]
    names = [note.partition(":")[0] for note in notes]
    assert sum(one != other for one, other in itertools.pairwise(names)) > 2, names


def test_all_is_replayed_as_recorded_by_two_workers(project):
    log = project.root / "log.jsonl"
    log.unlink()
    passed(project.offline("-p", "xdist.plugin", "-n", "2"))
    assert {test: runs for test, (*runs,) in told(log).items()} == {test: [one] for test, one in project.did.items()}
