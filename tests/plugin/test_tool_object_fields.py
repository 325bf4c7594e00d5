"""The fields of tool objects and toolsets of crewai, LlamaIndex and pydantic-ai, as far as the user's class adds them."""

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.env("crewai", "frameworks", "legacy")

BEGIN = """
import asyncio, os
CHANGED = os.environ.get("PROGRAM") == "changed"
WHO = "eve" if CHANGED else "ada"
"""

CREWAI = '''
from crewai.tools import BaseTool, tool

class Refund(BaseTool):
    name: str = "refund"
    description: str = "Pay an amount back."
    account: str
    calls: int = 0

    def _run(self, amount: int) -> str:
        self.calls += 1
        return f"refunded {amount} to {self.account}"

@tool("plain")
def plain_refund(amount: int) -> str:
    """Pay an amount back."""
    return f"refunded {amount}"

def account():
    refund = Refund(account=WHO)
    refund.run(amount=1)
    refund.run(amount=2)

def account_of_structured():
    Refund(account=WHO).to_structured_tool().invoke({"amount": 1})

def plain():
    plain_refund.run(amount=1)
'''

LLAMA_INDEX = '''
from llama_index.core.tools import FunctionTool

def refund(amount: int) -> str:
    """Pay an amount back."""
    return f"refunded {amount}"

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

def plain():
    FunctionTool.from_defaults(refund, description=WHO).call(amount=1)
'''

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

def refund(amount: int) -> str:
    """Pay an amount back."""
    return f"refunded {amount}"

def run(toolset):
    Agent(TestModel(), toolsets=[toolset]).run_sync("Pay it back.")

def account():
    toolset = Refunds(WHO)
    run(toolset)
    run(toolset)

def account_of_overriding():
    run(Later(WHO))

def plain():
    run(FunctionToolset([refund], id=WHO))
'''

TEST = """
import inspect
import pytest
import agent

NAMES = [name for name, value in vars(agent).items() if name == "plain" or name.startswith("account")]

@pytest.mark.parametrize("name", NAMES)
def test_program(name, agentreplay):
    getattr(agent, name)()
"""

AGENTS = {"crewai": CREWAI, "llama_index": LLAMA_INDEX, "pydantic_ai": PYDANTIC_AI}


@pytest.fixture(scope="module", params=[name for name in AGENTS if find_spec(name)])
def project(shared_project, request):
    made = shared_project(environ={"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_STORAGE_DIR": "crew"})
    made.write(agent=BEGIN + AGENTS[request.param], test_shop=TEST)
    (made.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = made.run("--snapshot-record", "-W", "ignore")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  replays\n") == 3, done.stdout
    return made


def selves(project, name):
    (run,) = (each.run for each in project.snapshots if f"[{name}" in each.run.header.test)
    return [exchange.call.facts.get("self") for exchange in run.exchanges]


def test_only_fields_of_the_users_class_are_stored(project):
    for stored in selves(project, "account]"):
        (fields,) = (part for part in next(iter(stored.values())) if isinstance(part, dict) and "account" in part)
        assert fields == {"account": "ada"} | ({"calls": 0} if fields.keys() & {"calls"} else {})
    assert len(selves(project, "account]")) == 2
    assert selves(project, "plain]") == [None]


def test_another_process_replays(project):
    done = project.offline("-W", "ignore")
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_another_value_of_a_field_is_a_divergence(project):
    done = project.offline("-W", "ignore", PROGRAM="changed")
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("[AR-ARGS] ") >= 2, done.stdout
