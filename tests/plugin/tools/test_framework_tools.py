"""Tools of frameworks: nobody names them; each is frozen as the tool that its framework shows to the model."""

import json

import pytest

from pytest_agentreplay.model.exchanges import ToolCall
from tests.support.model_script import Ask
from tests.support.small_projects import edited, furnished, passed, summary

pytestmark = pytest.mark.env("frameworks", "lastyear", "legacy")

AGENT = '''
import asyncio, atexit, os, pathlib

URL = os.environ["MODEL_URL"] + "/v1"
KEY = "sk-live-0123456789abcdef"
PROMPT = "You help customers of a bookshop. Be brief."

# One loop for all: frameworks keep their clients, and a client that outlives its loop breaks.
LOOP = asyncio.new_event_loop()
atexit.register(LOOP.close)

HAND = "A-3"

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

def refund(order_id: str, amount: float) -> str:
    """Pay an amount back.

    Args:
        order_id: The number of the order.
        amount: How much.
    """
    note(f"refund {order_id} {amount}")
    return f"refunded {amount} for {order_id}"

async def arefund(order_id: str, amount: float) -> str:
    """Pay an amount back."""
    return refund(order_id, amount)

KNOWN = []

def known(text):
    return f"{text} Known: {KNOWN}"

def at_once(ask):
    "Three at once: what each was told stands in the next prompts of the others."
    async def one(name):
        KNOWN.append(await ask(f"I am {name}. Where is my order?"))
    async def all_of_them():
        await asyncio.gather(*map(one, "abc"))
    KNOWN.clear()
    LOOP.run_until_complete(all_of_them())
    assert len({*KNOWN}) == 3
'''


CODE = """Thought: I look it up.
<code>
found = lookup_order("A-17")
final_answer(found + "; " + refund(order_id="A-17", amount=18.5))
</code>"""


def shop(body, number):
    """The model of a bookshop, in whichever form a framework writes its conversation."""
    said = json.dumps(body)
    answers = "final_answer" in said
    match said:
        case _ if "Ask the expert" in said:
            asks = [] if "answer" in said else [Ask("expert", {"input": "Where is my order?"})]
        case _ if "Write code" in said:
            return CODE
        case _ if "no order" in said:
            asks = [] if "no such order" in said else [Ask("lookup_order", {"order_id": "Z-0"})]
        case _ if "is late" not in said:
            asks = [Ask("lookup_order", {"order_id": "A-17"})]
        case _:
            asks = [] if "refunded" in said else [Ask("refund", {"order_id": "A-17", "amount": 18.5})]
    text = f"answer {number}" + (", I saw no such order" if "no such order" in said else "")
    return asks or ([Ask("final_answer", {"answer": text})] if answers else text)


LANGGRAPH = """
import asyncio
import pytest
from typing import Annotated
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, ToolException, tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt

import agent
from agent import KEY, PROMPT, URL

try:
    from langchain.agents import create_agent
except ImportError:
    from langgraph.prebuilt import create_react_agent

    def create_agent(model, tools, system_prompt):
        return create_react_agent(model, tools, prompt=system_prompt)

def excuse(error):
    agent.EXCUSES.append(str(error))
    return f"sorry: {error}"

class Refund(BaseTool):
    name: str = "refund"
    description: str = "Pay an amount back."

    def _run(self, order_id: str, amount: float, run_manager=None) -> str:
        return agent.refund(order_id, amount)

def lookup_order(order_id: str) -> str:
    "Where an order is."
    try:
        return agent.lookup_order(order_id)
    except LookupError as error:
        raise ToolException(str(error)) from error

async def later(order_id: str) -> str:
    "Where an order is."
    await asyncio.sleep(0)
    return lookup_order(order_id)

LOOKUP = StructuredTool.from_function(lookup_order, handle_tool_error=excuse)
LATER = StructuredTool.from_function(coroutine=later, name="lookup_order", handle_tool_error=excuse)
TOOLS = [LOOKUP, Refund()]

def model():
    return ChatOpenAI(model="gpt-x", base_url=URL, api_key=KEY, max_retries=0)

def react(tools=TOOLS):
    return create_agent(model(), tools, system_prompt=PROMPT)

def graph(tools=TOOLS, think=None, **more):
    def think_plainly(state):
        return {"messages": model().bind_tools(tools).invoke([SystemMessage(PROMPT), *state["messages"]])}

    made = StateGraph(MessagesState)
    made.add_node("think", think or think_plainly)
    made.add_node("tools", ToolNode(tools))
    made.add_edge(START, "think")
    made.add_conditional_edges("think", tools_condition)
    made.add_edge("tools", "think")
    return made.compile(**more)

def asked(question):
    return {"messages": [HumanMessage(question)]}

def told(result):
    return result["messages"][-1].content

@pytest.mark.parametrize("made", [react, graph])
def test_sync(agentreplay, made):
    assert "answer" in told(made().invoke(asked("Where is my order?")))
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

@pytest.mark.parametrize("made", [react, graph])
def test_async(agentreplay, made):
    assert "answer" in told(agent.LOOP.run_until_complete(made([LATER, Refund()]).ainvoke(asked("Where is my order?"))))
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

def test_by_hand(agentreplay):
    assert LOOKUP.invoke({"order_id": agent.HAND}) == f"order {agent.HAND} is late"
    agentreplay.run.assert_tool_calls(["lookup_order"])

def test_at_once(agentreplay):
    tools = [LATER, StructuredTool.from_function(coroutine=agent.arefund, name="refund")]

    async def think(state):
        asked = [SystemMessage(agent.known(PROMPT)), *state["messages"]]
        return {"messages": await model().bind_tools(tools).ainvoke(asked)}

    async def ask(question):
        return told(await graph(tools, think).ainvoke(asked(question)))

    agent.at_once(ask)

@tool("lookup_order", response_format="content_and_artifact")
def injected(
    order_id: str,
    state: Annotated[dict, InjectedState],
    call: Annotated[str, InjectedToolCallId],
    config: RunnableConfig,
) -> tuple:
    "Where an order is."
    assert state["messages"] and call and config
    return agent.lookup_order(order_id), [Document("a page", metadata={"order": order_id})]

@tool("refund")
def commanding(order_id: str, amount: float, call: Annotated[str, InjectedToolCallId]):
    "Pay an amount back."
    agent.EXCUSES.append("ran")
    answer = ToolMessage(agent.refund(order_id, amount), tool_call_id=call)
    return Command(update={"messages": [answer]})

def test_what_a_graph_injects_and_takes(agentreplay):
    agent.EXCUSES = []
    result = graph([injected, commanding]).invoke(asked("Where is my order?"))
    assert "answer" in told(result)
    (page,) = next(message.artifact for message in result["messages"] if getattr(message, "artifact", None))
    assert type(page) is Document and page.metadata == {"order": "A-17"}
    assert agent.EXCUSES == ([] if agentreplay.mode == "replay" else ["ran"])

@tool("refund")
def asking(order_id: str, amount: float) -> str:
    "Pay an amount back."
    if interrupt({"pay": amount}) == "no":
        return "refunded nothing"
    return agent.refund(order_id, amount)

def test_interrupt(agentreplay):
    made = graph([LOOKUP, asking], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    first = made.invoke(asked("Where is my order?"), config)
    assert [each.value for each in first["__interrupt__"]] == [{"pay": 18.5}]
    assert "answer" in told(made.invoke(Command(resume="yes"), config))

@pytest.mark.agentreplay(tools=["agent.lookup_order = read"])
def test_named_as_well(agentreplay):
    assert "answer" in told(react([StructuredTool.from_function(agent.lookup_order), Refund()]).invoke(asked("Where is my order?")))
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

def test_error(agentreplay):
    agent.EXCUSES = []
    result = agent.LOOP.run_until_complete(react([LATER]).ainvoke(asked("There is no order of mine.")))
    assert [message.status for message in result["messages"] if message.type == "tool"] == ["error"]
    assert agent.EXCUSES == ["no such order: Z-0"], "the handling of the error runs in a replay too"
    assert "I saw no such order" in told(result)
"""

OPENAI_AGENTS = """
import pytest
from agents import Agent, FunctionTool, ModelSettings, OpenAIChatCompletionsModel, RunContextWrapper, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

import agent
from agent import KEY, PROMPT, URL

set_tracing_disabled(True)
CLIENT = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)

def excuse(context, error):
    agent.EXCUSES.append(str(error))
    return f"sorry: {error}"

@function_tool(failure_error_function=excuse)
def lookup_order(context: RunContextWrapper, order_id: str) -> str:
    return agent.lookup_order(order_id)

@function_tool(name_override="lookup_order", failure_error_function=excuse)
async def later(order_id: str) -> str:
    return agent.lookup_order(order_id)

@function_tool(name_override="lookup_order", failure_error_function=None)
async def unexcused(order_id: str) -> str:
    return agent.lookup_order(order_id)

async def by_hand(context, given):
    import json
    return agent.refund(**json.loads(given))

SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order_id", "amount"],
    "additionalProperties": False,
}
REFUND = FunctionTool(name="refund", description="Pay back.", params_json_schema=SCHEMA, on_invoke_tool=by_hand)
MODEL = OpenAIChatCompletionsModel("gpt-x", CLIENT)

def clerk(*tools, name="clerk"):
    return Agent(name, instructions=lambda context, who: agent.known(PROMPT), tools=list(tools), model=MODEL)

def answer(who, question):
    return agent.LOOP.run_until_complete(Runner.run(who, question)).final_output

@pytest.mark.parametrize("tool", [lookup_order, later], ids=["plain", "coroutine"])
def test_order(agentreplay, tool):
    assert "answer" in answer(clerk(tool, REFUND), "Where is my order?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

def test_at_once(agentreplay):
    async def ask(question):
        return (await Runner.run(clerk(later, REFUND), question)).final_output

    agent.at_once(ask)
    agent.KNOWN.clear()

def test_by_hand(agentreplay):
    given = '{"order_id": "%s", "amount": 1}' % agent.HAND
    assert agent.LOOP.run_until_complete(REFUND.on_invoke_tool(None, given)) == f"refunded 1 for {agent.HAND}"
    agentreplay.run.assert_tool_calls(["refund"])

def test_error(agentreplay):
    agent.EXCUSES = []
    assert "I saw no such order" in answer(clerk(lookup_order), "There is no order of mine.")
    assert agent.EXCUSES == ["no such order: Z-0"], "the handling of the error runs in a replay too"

def test_error_that_comes_out(agentreplay):
    with pytest.raises(Exception, match="no such order: Z-0") as caught:
        answer(clerk(unexcused), "There is no order of mine.")
    assert isinstance(caught.value.__cause__, LookupError)

def test_agent_as_a_tool(agentreplay):
    inner = clerk(lookup_order, REFUND, name="knower").as_tool("expert", "Knows everything.")
    assert "answer" in answer(clerk(inner), "Ask the expert.")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
    assert len(agentreplay.run.turns) == 5
"""

PYDANTIC_AI = """
from dataclasses import dataclass
import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset

import agent
from agent import KEY, PROMPT, URL

MODEL = OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0)))

@dataclass
class Order:
    id: str
    text: str

    def __str__(self):
        return self.text

def lookup_order(context: RunContext[str], order_id: str) -> str:
    assert context.deps == "the deps"
    try:
        return agent.lookup_order(order_id)
    except LookupError as error:
        raise ModelRetry(str(error)) from error

async def later(order_id: str) -> Order:
    return Order(order_id, agent.lookup_order(order_id))

class Watching(WrapperToolset):
    async def call_tool(self, name, tool_args, ctx, tool):
        agent.EXCUSES.append(name)
        return await super().call_tool(name, tool_args, ctx, tool)

class Overriding(FunctionToolset):
    async def call_tool(self, name, tool_args, ctx, tool):
        agent.note("override")
        return await super().call_tool(name, tool_args, ctx, tool)

def answer(clerk, question):
    return agent.LOOP.run_until_complete(clerk.run(question, deps="the deps")).output

def by_tools():
    return Agent(MODEL, instructions=PROMPT, deps_type=str, tools=[lookup_order, agent.refund])

def by_toolset():
    made = FunctionToolset([agent.refund])
    made.add_function(later, name="lookup_order")
    return Agent(MODEL, instructions=PROMPT, deps_type=str, toolsets=[Watching(made)])

def by_override():
    made = Overriding([agent.refund])
    made.add_function(later, name="lookup_order")
    return Agent(MODEL, instructions=PROMPT, deps_type=str, toolsets=[made])

@pytest.mark.parametrize("made", [by_tools, by_toolset, by_override])
def test_order(agentreplay, made):
    agent.EXCUSES = []
    assert "answer" in answer(made(), "Where is my order?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
    assert agent.EXCUSES == (["lookup_order", "refund"] if made is by_toolset else []), "a wrapper runs in a replay too"

def test_at_once(agentreplay):
    made = FunctionToolset()
    made.add_function(later, name="lookup_order")
    made.add_function(agent.arefund, name="refund")
    async def instructions():  # one that is no coroutine would run in a thread
        return agent.known(PROMPT)
    clerk = Agent(MODEL, instructions=instructions, deps_type=str, toolsets=[made])
    async def ask(question):
        return (await clerk.run(question, deps="the deps")).output

    agent.at_once(ask)

def test_retry(agentreplay):
    assert "I saw no such order" in answer(by_tools(), "There is no order of mine.")

def test_error_that_comes_out(agentreplay):
    with pytest.raises(LookupError, match="no such order: Z-0"):
        answer(by_toolset(), "There is no order of mine.")

def test_output_tool_is_no_tool(agentreplay):
    clerk = Agent(MODEL, instructions=PROMPT, deps_type=str, tools=[lookup_order, agent.refund], output_type=[Order, str])
    assert "answer" in answer(clerk, "Where is my order?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
"""

SMOLAGENTS = """
import pytest
from smolagents import CodeAgent, LogLevel, OpenAIServerModel, Tool, ToolCallingAgent, tool

import agent
from agent import KEY, PROMPT, URL

LOOKUP = tool(agent.lookup_order)

class Refund(Tool):
    name = "refund"
    description = "Pay an amount back."
    inputs = {
        "order_id": {"type": "string", "description": "The number of the order."},
        "amount": {"type": "number", "description": "How much."},
    }
    output_type = "string"

    def setup(self):
        agent.note("setup")
        self.refund = agent.refund
        self.is_initialized = True

    def forward(self, order_id, amount):
        return self.refund(order_id, amount)

def model():
    return OpenAIServerModel("gpt-x", api_base=URL, api_key=KEY)

def clerk():
    return ToolCallingAgent([LOOKUP, Refund()], model(), instructions=PROMPT, verbosity_level=LogLevel.OFF)

def test_order(agentreplay):
    assert "answer" in clerk().run("Where is my order?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

def test_by_hand(agentreplay):
    assert LOOKUP(agent.HAND) == f"order {agent.HAND} is late"
    agentreplay.run.assert_tool_calls(["lookup_order"])

def test_code(agentreplay):
    coder = CodeAgent([LOOKUP, Refund()], model(), instructions=PROMPT, verbosity_level=LogLevel.OFF)
    assert coder.run("Write code.") == "order A-17 is late; refunded 18.5 for A-17"
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
"""

LLAMA_INDEX = """
import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI

import agent
from agent import KEY, PROMPT, URL

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its own

async def later(ctx: Context, order_id: str) -> str:
    "Where an order is."
    return agent.lookup_order(order_id)

LOOKUP = FunctionTool.from_defaults(agent.lookup_order)
LATER = FunctionTool.from_defaults(async_fn=later, name="lookup_order")
REFUND = FunctionTool.from_defaults(agent.refund)

def clerk(*tools, **more):
    model = OpenAI("gpt-4o", api_base=URL, api_key=KEY, max_retries=0)
    return FunctionAgent(name="clerk", description="A clerk.", tools=list(tools), llm=model, system_prompt=PROMPT, streaming=False, **more)

def answer(who, question):
    async def run():
        return await who.run(question)

    output = agent.LOOP.run_until_complete(run())
    return output.tool_calls, str(output)

@pytest.mark.parametrize("tool", [LOOKUP, LATER], ids=["plain", "coroutine"])
def test_order(agentreplay, tool):
    results, said = answer(clerk(tool, REFUND), "Where is my order?")
    assert "answer" in said
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
    assert [result.tool_output.raw_output for result in results] == ["order A-17 is late", "refunded 18.5 for A-17"]

def test_error(agentreplay):
    results, said = answer(clerk(LOOKUP), "There is no order of mine.")
    assert results[0].tool_output.is_error
    assert "I saw no such order" in said

def test_a_reader_of_events_ends(agentreplay):
    "Each step runs in a task of its own; whoever reads its events outlives a refused one."
    async def run():
        handler = clerk().run("Where is my order? It is late, and refunded.")
        return [event async for event in handler.stream_events()], str(await handler)

    events, said = agent.LOOP.run_until_complete(run())
    assert events and "answer" in said

def test_by_hand(agentreplay):
    assert str(LOOKUP.call(order_id=agent.HAND)) == f"order {agent.HAND} is late"
    agentreplay.run.assert_tool_calls(["lookup_order"])
"""

FRAMEWORKS = {
    "langgraph": LANGGRAPH,
    "openai_agents": OPENAI_AGENTS,
    "pydantic_ai": PYDANTIC_AI,
    "smolagents": SMOLAGENTS,
}
WHERE = {
    "frameworks": FRAMEWORKS,
    "lastyear": FRAMEWORKS | {"llama_index": LLAMA_INDEX},
    "legacy": {"llama_index": LLAMA_INDEX},
}
"""Which of them each environment has."""
THEIRS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Frameworks leave it to the garbage collector to close what their clients have opened."""


@pytest.fixture(scope="module")
def project(shared_project, pytestconfig):
    tests = {f"test_{name}": tests for name, tests in WHERE[pytestconfig.getoption("env")].items()}
    made = shared_project(shop, environ={"OPENAI_API_KEY": "none", "COLUMNS": "200"})
    furnished(made, agent=AGENT, **tests)
    made.recording = passed(made.record(*THEIRS))
    return made


def test_recorded_as_the_tools_that_the_model_knows(project):
    said = project.recording.stdout
    assert "AR-UNFROZEN" not in said, said
    assert "warning" not in said.lower(), said
    for snapshot in project.snapshots:
        calls = [x.call for x in snapshot.run.exchanges if isinstance(x.call, ToolCall)]
        assert calls or "events" in snapshot.run.header.test
        for call in calls:
            assert call.arguments.keys() == {"lookup_order": {"order_id"}, "refund": {"order_id", "amount"}}[call.name]


def test_each_call_of_a_model_keeps_the_name_of_its_agent(project, pytestconfig):
    wanted = {
        "test_langgraph.py::test_at_once": {"think"},
        "test_openai_agents.py::test_agent_as_a_tool": {"clerk", "knower"},
    }
    if pytestconfig.getoption("env") != "lastyear":  # when pydantic-ai kept nowhere which agent runs
        wanted["test_pydantic_ai.py::test_at_once"] = {"clerk"}
    kept = {one.run.header.test: one.run.exchanges for one in project.snapshots}
    found = {test: {x.agent for x in kept[test] if x.call.boundary == "http"} for test in wanted if test in kept}
    assert found == {test: names for test, names in wanted.items() if test in kept}


def test_replayed_with_no_tool_run_and_nobody_at_the_other_end(project):
    passed(project.offline(*THEIRS))
    assert project.ledger


def test_what_has_changed_parts_at_its_own_turn(project):
    with edited(project, "agent.py", 'HAND = "A-3"', 'HAND = "A-4"'):
        _, done = project.diverged(*THEIRS, "-vv")
    told = summary(done)
    by_hand = {name for name in told if name.startswith("by_hand")}
    assert by_hand
    assert all("[AR-ARGS]" in told[name] for name in by_hand)
    by_agent = "[AR-PROMPT] clerk turn 1 ("  # where several agents have names
    assert told.pop("agent_as_a_tool", by_agent).startswith(by_agent)
    assert "[AR-PROMPT]" in told.pop("at_once", by_agent)
    assert [said for name, said in told.items() if name not in by_hand and "[AR-PROMPT] turn 1/" not in said] == []
    reads_events = (project.root / "test_llama_index.py").exists()
    assert ("still waiting test_llama_index.py:" in done.stdout) == reads_events, done.stdout
