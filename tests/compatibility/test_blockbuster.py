"""blockbuster: no call that blocks is made on the event loop by us, neither recording nor replaying."""

import re
import threading

import pytest

from pytest_agentreplay.intercept.ordering import idle
from tests.support.finished import ended
from tests.support.model_script import Ask

pytestmark = pytest.mark.env("main")

AGENT = """
import asyncio, json, os, pathlib
import httpcore2, openai, trio  # what openai loads with its first client, by calls that block

PROMPT = "You help customers. Be brief."
SCHEMAS = [{"type": "function", "function": {"name": "lookup_order", "parameters": {"type": "object", "properties": {}}}}]

def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")

async def lookup_order(order_id: str) -> dict:
    await asyncio.to_thread(note, f"lookup {order_id}")
    if os.environ.get("BLOCKS"):
        __import__("time").sleep(0.01)
    return {"order": order_id, "status": "late"}

async def answer(question, *, stream=False):
    async with openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-test", max_retries=0) as client:
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
        while True:
            asked = {"model": "m-1", "messages": messages, "tools": SCHEMAS}
            if stream:
                async with client.chat.completions.stream(**asked) as events:
                    async for _ in events:
                        pass
                    reply = await events.get_final_completion()
            else:
                reply = await client.chat.completions.create(**asked)
            message = reply.choices[0].message
            if not message.tool_calls:
                return message.content
            messages.append(message.model_dump(include={"role", "content", "tool_calls"}))
            for call in message.tool_calls:
                result = await lookup_order(**json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
"""

TESTS = """
import asyncio
import pytest, agent
from blockbuster import blockbuster_ctx

@pytest.fixture(autouse=True)
def no_blocking_calls():
    with blockbuster_ctx():
        yield

@pytest.mark.asyncio
async def test_whole(agentreplay):
    assert "late" in await agent.answer("Where is A-17?")

@pytest.mark.asyncio
async def test_streamed(agentreplay):
    assert "late" in await agent.answer("Where is A-18?", stream=True)

@pytest.mark.asyncio
async def test_at_once(agentreplay):
    answers = await asyncio.gather(*(agent.answer(f"Where is A-{number}?") for number in range(4)))
    assert all("late" in answer for answer in answers)

@pytest.mark.asyncio
async def test_with_threads(agentreplay):
    answers = await asyncio.gather(agent.answer("Where is A-19?"), asyncio.to_thread(asyncio.run, agent.answer("A-20?")))
    assert all("late" in answer for answer in answers)

def test_loop_of_its_own(agentreplay):
    assert "late" in asyncio.run(agent.answer("Where is A-21?"))
"""


def script(body, number):
    if any(message["role"] == "tool" for message in body["messages"]):
        return f"It is late (answer {number})."
    return Ask("lookup_order", {"order_id": re.search(r"A-\d+", body["messages"][-1]["content"])[0]})


def test_nothing_of_ours_blocks_the_event_loop_of_an_agent_and_what_it_blocks_is_found(project):
    pytest.importorskip("blockbuster")
    project.server._replies = script
    project.plugins += ("pytest_asyncio.plugin",)
    project.write(agent=AGENT, test_shop=TESTS)
    ini = "[pytest]\npythonpath = .\nasyncio_default_fixture_loop_scope = function\nagentreplay_tools = agent.lookup_order = read\n"
    (project.root / "pytest.ini").write_text(ini, encoding="utf-8")
    recorded = ended(project.record())
    assert "BlockingError" not in recorded.stdout
    replayed = ended(project.offline())
    assert "replayed 5 tests" in replayed.stdout
    told, done = project.diverged()
    assert len(told) == 5
    assert all("[AR-PROMPT]" in line for line in told.values()), told
    assert "BlockingError" not in done.stdout
    blocked = ended(project.record("-k", "loop_of_its_own", "--tb=short", BLOCKS="1"), 1)
    assert "BlockingError: Blocking call to time.sleep" in blocked.stdout


def test_the_probe_of_event_loops_waits_for_no_lock(monkeypatch):
    def blocks(*_):
        raise AssertionError("joined a thread on the event loop")

    monkeypatch.setattr(threading.Thread, "join", blocks)
    assert idle.do_hooks_work.__wrapped__()
