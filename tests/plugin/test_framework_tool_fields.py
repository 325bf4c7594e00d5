"""Fields that a user's class adds to a framework's tool: recorded in one process, compared in another."""

import pytest

pytestmark = pytest.mark.env("frameworks")

AGENT = '''
import asyncio, os, threading
import httpx
from langchain_core.tools import BaseTool, StructuredTool
from smolagents import Tool

CHANGED = os.environ.get("PROGRAM") == "changed"
WHO = "eve" if CHANGED else "ada"

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

class Bare(BaseTool):
    name: str = "bare"
    description: str = "Nothing of its own."

    def _run(self) -> str:
        return "done"

def bare():
    Bare(description=WHO).invoke({})

def refund(amount: int) -> str:
    """Pay an amount back."""
    return f"refunded {amount}"

def made(**more):
    return Refund(client=httpx.Client(), lock=threading.Lock(), **more)

def account():
    tool = made(account=WHO)
    tool.invoke({"amount": 1})
    tool.invoke({"amount": 2})

def account_of_async():
    asyncio.run(made(account=WHO).ainvoke({"amount": 1}))

def private():
    tool = made(account="ada")
    tool._tenant = "t-2" if CHANGED else "t-1"
    tool.invoke({"amount": 1})

def ledger():
    tool = Ledger(WHO, client=httpx.Client())
    tool(day="monday")
    tool(day="friday")

def described():
    Refund(account="ada", description="other" if CHANGED else "one", tags=[WHO]).invoke({"amount": 1})

def plain():
    StructuredTool.from_function(refund, description=WHO).invoke({"amount": 1})
'''

TEST = """
import pytest
import agent

NAMES = ["account", "account_of_async", "private", "ledger", "described", "plain", "bare"]

@pytest.mark.parametrize("name", NAMES)
def test_program(name, agentreplay):
    getattr(agent, name)()
"""


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project()
    made.write(agent=AGENT, test_shop=TEST)
    (made.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = made.run("--snapshot-record", "-W", "default")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout
    return made


def selves(project, name):
    (run,) = (each.run for each in project.snapshots if each.run.header.test.endswith(f"[{name}]"))
    return [exchange.call.facts.get("self") for exchange in run.exchanges]


def test_fields_of_the_users_class_are_stored_and_those_of_the_framework_are_not(project):
    for first in (*selves(project, "account")[:1], *selves(project, "ledger")[:1]):
        (fields,) = (part for part in next(iter(first.values())) if isinstance(part, dict) and "account" in part)
        assert fields["account"] == "ada"
        assert not {"name", "description", "callbacks", "is_initialized", "_tool_call_schema_memo"} & fields.keys()
    assert selves(project, "plain") == [None]
    assert selves(project, "bare") == [None]


def test_another_process_replays(project):
    done = project.offline("-W", "default")
    assert "7 passed" in done.stdout, done.stdout + done.stderr


def test_another_value_of_a_field_is_a_divergence(project):
    done = project.offline("-W", "default", PROGRAM="changed")
    assert "4 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    for name in ("account", "account_of_async", "private", "ledger"):
        assert f"FAILED test_shop.py::test_program[{name}] - [AR-ARGS]" in done.stdout, done.stdout
