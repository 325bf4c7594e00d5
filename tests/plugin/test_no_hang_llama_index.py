"""LlamaIndex runs each step of a workflow in a task of its own; whoever reads its events outlives a refused one."""

import pytest

pytestmark = pytest.mark.env("lastyear", "legacy")

AGENT = """
import os
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

PROMPT = "Be brief."

async def answer():
    model = OpenAI("gpt-4o", api_base=os.environ["MODEL_URL"] + "/v1", api_key="none", max_retries=0)
    clerk = FunctionAgent(tools=[], llm=model, system_prompt=PROMPT, streaming=False)
    handler = clerk.run("Where is my order?")
    seen = 0
    async for event in handler.stream_events():
        seen += 1
    return seen, str(await handler)
"""

TESTS = """
import asyncio
import pytest
import agent

@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of its own
@pytest.mark.parametrize("turn", [1, 2])
def test_events(agentreplay, turn):
    seen, said = asyncio.run(agent.answer())
    assert seen
    assert said
"""

THEIRS = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")


def test_a_reader_of_events_ends(project):
    project.server._replies = lambda body, number: "It is late."
    project.write(agent=AGENT, test_shop=TESTS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    done = project.record(*THEIRS)
    assert done.returncode == 0, done.stdout + done.stderr
    told, done = project.diverged(*THEIRS, "-vv")  # both reports in full
    assert len(told) == 2
    assert done.stdout.count("[AR-PROMPT] turn 1/1") >= 2
    line = next(n for n, text in enumerate(AGENT.splitlines(), 1) if "stream_events" in text)
    assert done.stdout.count(f"still waiting agent.py:{line} in answer") == 2, done.stdout
