"""An agent of a framework tried on a case: its tools are met where the framework calls them, under the model's names."""

from __future__ import annotations

import asyncio
import functools

import pytest

from pytest_agentreplay.model.divergence import Kind
from tests.runs.shop import KEY, MESSAGES, NOBODY, furnished, lookup_order, recorded, script, tried
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.env("frameworks")

MINE = """{arguments: {order_id: A-17, user_id: u-7}, result: "the order of u-7 is late, says u-3", written: true,
     why: the fixed agent adds who asks}"""


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
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
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

    model = ChatOpenAI(model="gpt-x", base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    agent = create_agent(model, [look], system_prompt="You help." if not user else "You help one customer.")
    return (await agent.ainvoke({"messages": messages}))["messages"][-1].content


@pytest.mark.parametrize("agent", [openai_agents, langchain])
def test_it_reproduces_and_its_fix_is_served(agent, tmp_path):
    with ModelServer(script) as server:
        run = recorded(tmp_path, lambda: asyncio.run(agent(server.url, "", MESSAGES)))
    same = tried(tmp_path, run, functools.partial(agent, NOBODY, ""))
    assert (same.divergence, same.output) == (None, "Your order goes to u-3 (answer 2).")
    fixed = functools.partial(agent, NOBODY, "u-7")
    assert tried(tmp_path, run, fixed).divergence.kind in {Kind.PROMPT, Kind.SCHEMA}
    evidence = tried(furnished(tmp_path, MINE), run, fixed, half="desired")
    assert (evidence.divergence, evidence.output) == (None, "Your order goes to u-3 (answer 2).")
    assert [call.name for call in evidence.tool_calls] == ["lookup_order"]
