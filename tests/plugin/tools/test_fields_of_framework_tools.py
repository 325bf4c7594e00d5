"""The fields of tool objects and toolsets of frameworks, as far as the user's class adds them, and what closures hold."""

from importlib.util import find_spec

import pytest

from tests.support.small_projects import furnished, passed, recorded, runs, summary

pytestmark = pytest.mark.env("crewai", "frameworks", "legacy")

BEGIN = '''
import asyncio, os
CHANGED = os.environ.get("PROGRAM") == "changed"
WHO = "eve" if CHANGED else "ada"

def refund(amount: int) -> str:
    """Pay an amount back."""
    return f"refunded {amount}"

def refund_to(account):
    def refund(amount: int) -> str:
        """Pay an amount back.

        Args:
            amount: how much
        """
        return f"refunded {amount} to {account}"
    return refund
'''

LANGCHAIN = """
import threading
import httpx
from langchain_core.tools import BaseTool, StructuredTool

class Refund(BaseTool):
    name: str = "refund"
    description: str = "Pay an amount back."
    account: str
    client: object = None
    lock: object = None
    calls: int = 0
    _tenant: str = "t-1"

    def _run(self, amount: int) -> str:
        self.calls += 1
        return f"refunded {amount} to {self.account}"

def made(**more):
    return Refund(client=httpx.Client(), lock=threading.Lock(), **more)

def account():
    tool = made(account=WHO)
    tool.invoke({"amount": 1})
    tool.invoke({"amount": 2})

def account_of_async():
    asyncio.run(made(account=WHO).ainvoke({"amount": 1}))

def account_that_is_private():
    tool = made(account="ada")
    tool._tenant = "t-2" if CHANGED else "t-1"
    tool.invoke({"amount": 1})

def account_of_a_closure():
    StructuredTool.from_function(refund_to(WHO)).invoke({"amount": 1})

def plain():
    StructuredTool.from_function(refund, description=WHO).invoke({"amount": 1})

def plain_fields_of_the_framework():
    Refund(account="ada", description="other" if CHANGED else "one", tags=[WHO]).invoke({"amount": 1})
"""

SMOLAGENTS = """
import httpx
from smolagents import Tool, tool

class Ledger(Tool):
    name = "ledger"
    description = "What an account has."
    inputs = {"day": {"type": "string", "description": "Of which day."}}
    output_type = "string"

    def __init__(self, account, client=None):
        super().__init__()
        self.account, self.client, self.opened = account, client, 0

    def setup(self):
        self.opened += 1
        self.is_initialized = True

    def forward(self, day: str):
        return f"{self.account} has 5"

def account():
    tool = Ledger(WHO, client=httpx.Client())
    tool(day="monday")
    tool(day="friday")

def account_of_a_closure():
    tool(refund_to(WHO))(amount=1)
"""

CREWAI = """
from crewai.tools import BaseTool, tool

class Refund(BaseTool):
    name: str = "refund"
    description: str = "Pay an amount back."
    account: str
    calls: int = 0

    def _run(self, amount: int) -> str:
        self.calls += 1
        return f"refunded {amount} to {self.account}"

def account():
    refund = Refund(account=WHO)
    refund.run(amount=1)
    refund.run(amount=2)

def account_of_structured():
    Refund(account=WHO).to_structured_tool().invoke({"amount": 1})

def account_of_a_closure():
    tool("refund")(refund_to(WHO)).run(amount=1)

def account_structured():
    tool("refund")(refund_to(WHO)).to_structured_tool().invoke({"amount": 1})

def plain():
    tool("plain")(refund).run(amount=1)
"""

LLAMA_INDEX = """
from llama_index.core.tools import FunctionTool

class Refund(FunctionTool):
    account = ""

def made(account):
    tool = Refund.from_defaults(refund)
    tool.account = account
    return tool

def account():
    tool = made(WHO)
    tool.call(amount=1)
    tool.call(amount=2)

def account_of_async():
    asyncio.run(made(WHO).acall(amount=1))

def account_of_a_closure():
    FunctionTool.from_defaults(refund_to(WHO)).call(amount=1)

def plain():
    FunctionTool.from_defaults(refund, description=WHO).call(amount=1)
"""

PYDANTIC_AI = '''
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import FunctionToolset

class Refunds(FunctionToolset):
    def __init__(self, account):
        super().__init__()
        self.account = account
        self.add_function(self.refund)

    def refund(self, amount: int) -> str:
        """Pay an amount back."""
        return f"refunded {amount} to {self.account}"

class Later(Refunds):
    async def call_tool(self, *args, **kwargs):
        return await super().call_tool(*args, **kwargs)

def run(toolset):
    Agent(TestModel(), toolsets=[toolset]).run_sync("Pay it back.")

def account():
    toolset = Refunds(WHO)
    run(toolset)
    run(toolset)

def account_of_overriding():
    run(Later(WHO))

def account_of_a_closure():
    run(FunctionToolset([refund_to(WHO)]))

def plain():
    run(FunctionToolset([refund], id=WHO))
'''

OPENAI_AGENTS = """
import json
from agents import FunctionTool, function_tool
from agents.tool_context import ToolContext

def run(tool):
    given = json.dumps({"amount": 1})
    context = ToolContext(context=None, tool_name=tool.name, tool_call_id="c-1", tool_arguments=given)
    asyncio.run(tool.on_invoke_tool(context, given))

def account():
    run(function_tool(refund_to(WHO)))
    run(function_tool(refund_to(WHO)))

def account_of_its_own_handler():
    async def invoke(context, given):
        return f"{given} {account}"
    account = WHO
    run(FunctionTool("refund", "Pay an amount back.", {"type": "object", "properties": {}}, invoke))

def plain():
    run(function_tool(refund))
"""

TEST = """
import pytest
import agent

NAMES = [name for name in vars(agent) if name.startswith(("plain", "account"))]

@pytest.mark.parametrize("name", NAMES)
def test_program(name, agentreplay):
    getattr(agent, name)()
"""

MODULES = {
    "langchain_core": LANGCHAIN,
    "smolagents": SMOLAGENTS,
    "crewai": CREWAI,
    "llama_index": LLAMA_INDEX,
    "pydantic_ai": PYDANTIC_AI,
    "agents": OPENAI_AGENTS,
}
FRAMEWORK = ("name", "description", "callbacks", "tags", "is_initialized", "_tool_call_schema_memo")
"""Fields of a framework's own, which are not compared."""


@pytest.fixture(scope="module", params=[name for name in MODULES if find_spec(name)])
def project(shared_project, request):
    made = shared_project(environ={"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_STORAGE_DIR": "crew"})
    return recorded(furnished(made, agent=BEGIN + MODULES[request.param], test_shop=TEST), "-W", "ignore")


def selves(project):
    """By program, what was kept of the tool object at each call."""
    return {
        name.partition("[")[2].rstrip("]"): [exchange.call.facts.get("self") for exchange in run.exchanges]
        for name, run in runs(project).items()
    }


def test_only_fields_of_the_users_class_are_stored(project):
    found = selves(project)
    assert len(found["account"]) == 2
    for stored in found["account"]:
        (fields,) = (part for part in next(iter(stored.values())) if isinstance(part, dict) and "account" in part)
        assert fields["account"] == "ada"
        assert not fields.keys() & set(FRAMEWORK)
    assert found.get("plain", [None]) == [None]


def test_another_process_replays_and_another_value_of_a_field_is_a_divergence(project):
    passed(project.offline("-W", "ignore"))
    told = summary(project.offline("-W", "ignore", PROGRAM="changed"))
    assert set(told) == {f"program[{name}]" for name in selves(project) if name.startswith("account")}
    assert all("[AR-ARGS]" in said for said in told.values()), told
