"""Branches, tools and agents that frameworks run at once: in a replay they do what they did when recorded."""

import pytest

from tests.rehearsal import house, rehearsed

pytestmark = pytest.mark.env("frameworks")

TOOLS = '''
import asyncio, atexit
from notes import known, note

# One loop for all: frameworks keep their clients, and a client that outlives its loop breaks.
LOOP = asyncio.new_event_loop()
atexit.register(LOOP.close)
run = LOOP.run_until_complete

async def look(place: str) -> str:
    """Look what is there.

    Args:
        place: Where to look.
    """
    await asyncio.sleep(0.001)
    return f"found a key in the {place}"

def look_there(place: str) -> str:
    """Look what is there.

    Args:
        place: Where to look.
    """
    return f"found a key in the {place}"
'''

LANGGRAPH = """
import asyncio, operator
from typing import Annotated, TypedDict
from langchain.agents import create_agent
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from notes import KEY, NOTES, URL, done, known, note
from tools import look, look_there, run

MODEL = ChatOpenAI(model="m-1", base_url=URL + "/v1", api_key=KEY, max_retries=0)

async def found(place: str) -> str:
    "Look what is there."
    return note(await look(place))

LOOK = StructuredTool.from_function(coroutine=look, name="look")
LOOK_THERE = StructuredTool.from_function(look_there, name="look")

class State(TypedDict):
    said: Annotated[list, operator.add]

def branch(name):
    async def node(state):
        for number in range(2):
            reply = await MODEL.ainvoke(known(f"{name}, question {number}."))
            note(reply.text)
        return {"said": [reply.text]}
    return node

def test_parallel_branches(agentreplay):
    graph = StateGraph(State)
    for name in "abcd":
        graph.add_node(name, branch(name))
        graph.add_edge(START, name)
        graph.add_edge(name, "all")
    async def together(state):
        return {"said": [(await MODEL.ainvoke(known("All of you?"))).text]}
    graph.add_node("all", together)
    graph.add_edge("all", END)
    done(agentreplay, run(graph.compile().ainvoke({"said": []}))["said"])

async def explore(agent, name):
    said = []
    async for step in agent.astream({"messages": [("user", known(f"I am {name}. Use your tools."))]}, stream_mode="updates"):
        for node, update in step.items():
            said += [note(f"{name} {node}: {message.text}") for message in update["messages"]]
    return said

def test_agents_with_parallel_tools(agentreplay):
    async def both():
        return await asyncio.gather(*[explore(create_agent(MODEL, [LOOK]), name) for name in "abc"])
    done(agentreplay, run(both()))

def test_sync_tools_in_executors(agentreplay):
    async def both():
        return await asyncio.gather(*[explore(create_agent(MODEL, [LOOK_THERE]), name) for name in "abc"])
    done(agentreplay, run(both()))

def test_batch_in_threads(agentreplay):
    first = MODEL.batch([f"question {number}" for number in range(8)], {"max_concurrency": 4})
    chain = RunnableLambda(lambda name: MODEL.invoke(name).text) | RunnableLambda(lambda text: MODEL.invoke(text).text)
    done(agentreplay, [[reply.text for reply in first], chain.batch(list("abcdef"))])

"""

OPENAI_AGENTS = """
import asyncio
from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from notes import KEY, NOTES, URL, done, known, note
from tools import look, look_there, run

set_tracing_disabled(True)
CLIENT = AsyncOpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
CHAT, RESPONSES = OpenAIChatCompletionsModel("m-1", CLIENT), OpenAIResponsesModel("m-1", CLIENT)

def clerk(model, tool, name="clerk"):
    return Agent(name, instructions=lambda context, agent: known("You look for keys."), tools=[function_tool(tool, name_override="look")], model=model)

async def explore(who, name):
    found = await Runner.run(who, known(f"I am {name}. Use your tools."))
    return [note(f"{name}: {item.type}: {item.to_input_item()}") for item in found.new_items]

async def watch(who, name):
    found = Runner.run_streamed(who, known(f"I am {name}. Use your tools."))
    async for event in found.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            note(f"{name}: {event.data.delta}")
        elif event.type == "run_item_stream_event":
            note(f"{name}: {event.name}")
    return found.final_output

def test_five_agents_at_once(agentreplay):
    async def all_of_them():
        return await asyncio.gather(*[explore(clerk(CHAT, look), name) for name in "abcde"])
    done(agentreplay, run(all_of_them()))

def test_plain_tools_in_threads(agentreplay):
    async def all_of_them():
        return await asyncio.gather(*[explore(clerk(RESPONSES, look_there), name) for name in "abc"])
    done(agentreplay, run(all_of_them()))

def test_streamed_side_by_side(agentreplay):
    async def all_of_them():
        return await asyncio.gather(*[watch(clerk(RESPONSES, look), name) for name in "abc"])
    done(agentreplay, run(all_of_them()))
"""

PYDANTIC_AI = """
import asyncio
from openai import AsyncOpenAI
from pydantic_ai import Agent, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from notes import KEY, NOTES, URL, done, known, note
from tools import look, look_there, run

CLIENT = AsyncOpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0)
MODEL = OpenAIChatModel("m-1", provider=OpenAIProvider(openai_client=CLIENT))

def clerk(tool):
    made = Agent(MODEL, tools=[Tool(tool, name="look")])

    @made.instructions
    async def what_is_known():
        return known("You look for keys.")

    return made

async def explore(who, name):
    said = []
    async with who.iter(known(f"I am {name}. Use your tools.")) as steps:
        async for step in steps:
            said.append(note(f"{name}: {type(step).__name__}"))
    return [said, note(steps.result.output)]

def test_five_agents_at_once(agentreplay):
    async def all_of_them():
        return await asyncio.gather(*[explore(clerk(look), name) for name in "abcde"])
    done(agentreplay, run(all_of_them()))

def test_plain_tools_in_threads(agentreplay):
    async def all_of_them():
        return await asyncio.gather(*[explore(clerk(look_there), name) for name in "abc"])
    done(agentreplay, run(all_of_them()))
"""

THEIRS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Frameworks leave it to the garbage collector to close what their clients have opened."""


def test_all_is_replayed_as_recorded(shared_project):
    project = shared_project(environ={"OPENAI_API_KEY": "none"})
    house(project, tools=TOOLS, test_langgraph=LANGGRAPH, test_agents=OPENAI_AGENTS, test_pydantic=PYDANTIC_AI)
    assert len(rehearsed(project, *THEIRS, chance=("in_threads", "in_executors"))) == 9
