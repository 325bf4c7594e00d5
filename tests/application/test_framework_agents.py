"""An agent of a framework tried on a case: its tools are met where the framework calls them, under the model's names."""

from __future__ import annotations

import functools

import pytest

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.demo.server import ModelServer
from tests.application.shop import QUESTION, lookup_order, recorded, script, tried

pytestmark = pytest.mark.env("frameworks")

NOBODY = "http://127.0.0.1:9"
MINE = """
tool: lookup_order
answers:
  - arguments: {order_id: A-17, user_id: u-7}
    result: "the order of u-7 is late, says u-3"
    written: true
    why: the fixed agent adds who asks
"""


async def openai_agents(url, user, messages):
    from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    async def look(order_id: str, user_id: str = "") -> str:
        """Where an order is."""
        return str(lookup_order(order_id, user_id))

    def fixed(order_id: str) -> str:
        """Where an order of this customer is."""
        return str(lookup_order(order_id, user))

    tool = function_tool(fixed if user else look, name_override="lookup_order")
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-live-0123456789abcdef", max_retries=0) as client:
        model = OpenAIResponsesModel("gpt-x", client)
        agent = Agent("shop", instructions="You help.", model=model, tools=[tool])
        return (await Runner.run(agent, messages)).final_output


async def langchain(url, user, messages):
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @tool("lookup_order")
    def look(order_id: str, user_id: str = user) -> str:
        """Where an order is."""
        return str(lookup_order(order_id, user_id))

    model = ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key="sk-live-0123456789abcdef", max_retries=0)
    agent = create_agent(model, [look], system_prompt="You help." if not user else "You help one customer.")
    return (await agent.ainvoke({"messages": messages}))["messages"][-1].content


@pytest.fixture(params=[openai_agents, langchain], ids=lambda one: one.__name__)
def framework(request, tmp_path_factory):
    """An agent of a framework, and the recorded run of it."""
    import asyncio

    with ModelServer(script) as server:
        made = request.param(server.url, "", [{"role": "user", "content": QUESTION}])
        return request.param, recorded(tmp_path_factory.mktemp("shop"), lambda: asyncio.run(made))


def test_it_reproduces_and_its_fix_is_served(framework, tmp_path):
    agent, run = framework
    same = tried(tmp_path, run, functools.partial(agent, NOBODY, ""))
    assert (same.divergence, same.output) == (None, "Your order goes to u-3 (answer 2).")
    fixed = functools.partial(agent, NOBODY, "u-7")
    assert tried(tmp_path, run, fixed).divergence.kind in {Kind.PROMPT, Kind.SCHEMA}
    folder = tmp_path / "cases/order/fixtures"
    folder.mkdir(parents=True)
    (folder / "lookup_order-1.yaml").write_text(MINE, encoding="utf-8")
    evidence = tried(tmp_path, run, fixed, half="desired")
    assert (evidence.divergence, evidence.output) == (None, "Your order goes to u-3 (answer 2).")
    assert [call.name for call in evidence.tool_calls] == ["lookup_order"]
