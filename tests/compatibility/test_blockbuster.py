"""blockbuster: no call that blocks is made on the event loop by us, neither recording nor replaying."""

import re
import threading

import pytest

from pytest_agentreplay.intercept.ordering import idle

pytestmark = pytest.mark.env("main")

AGENT = """
import asyncio, json, os, pathlib, threading
import httpcore2, openai, trio  # what openai loads with its first client, by calls that block

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")
PROMPT = "You help customers. Be brief."
SCHEMAS = [{"type": "function", "function": {"name": "lookup_order", "parameters": {"type": "object", "properties": {}}}}]

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")

async def lookup_order(order_id: str) -> dict:
    await asyncio.to_thread(note, f"lookup {order_id}")
    return {"order": order_id, "status": "late"}

async def answer(question, *, stream=False):
    async with openai.AsyncOpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="sk-test", max_retries=0) as client:
        messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
        for _ in range(5):
            reply = await ask(client, messages, stream)
            if not reply["tool_calls"]:
                return reply["content"]
            messages.append(reply)
            for call in reply["tool_calls"]:
                result = await lookup_order(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})

async def ask(client, messages, stream):
    if not stream:
        reply = await client.chat.completions.create(model="m-1", messages=messages, tools=SCHEMAS)
        return reply.choices[0].message.model_dump(include={"role", "content", "tool_calls"})
    async with client.chat.completions.stream(model="m-1", messages=messages, tools=SCHEMAS) as events:
        async for _ in events:
            pass
        reply = await events.get_final_completion()
    return reply.choices[0].message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=False)
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
@pytest.mark.parametrize("number", range(2))
async def test_whole(agentreplay, number):
    assert "late" in await agent.answer(f"Where is A-17, {number}?")

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

INI = """
[pytest]
pythonpath = .
asyncio_default_fixture_loop_scope = function
agentreplay_tools =
    agent.lookup_order = read
"""


def script(body, number):
    from pytest_agentreplay.demo.script import Ask

    if any(message["role"] == "tool" for message in body["messages"]):
        return f"It is late (answer {number})."
    return Ask("lookup_order", {"order_id": re.search(r"A-\d+", body["messages"][-1]["content"])[0]})


@pytest.fixture(scope="module")
def shop(shared_project):
    pytest.importorskip("blockbuster")
    made = shared_project(script)
    made.plugins += ("pytest_asyncio.plugin",)
    made.write(agent=AGENT, test_shop=TESTS)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return made


def test_nothing_blocks_the_event_loop_of_an_agent(shop):
    recorded = shop.record()
    assert recorded.returncode == 0, recorded.stdout
    assert "BlockingError" not in recorded.stdout
    assert "6 passed" in recorded.stdout
    assert recorded.stdout.count("   replays") == 6, recorded.stdout
    replayed = shop.offline()
    assert replayed.returncode == 0, replayed.stdout
    assert "replayed 6 tests" in replayed.stdout


def test_a_divergence_is_reported_as_such(shop):
    told, done = shop.diverged(code=1)
    assert len(told) == 6
    assert "BlockingError" not in done.stdout
    assert all("[AR-PROMPT]" in line for line in told.values()), told


def test_what_the_agent_blocks_is_still_found(shop):
    shop.edit(
        "agent.py", '    await asyncio.to_thread(note, f"lookup {order_id}")', "    __import__('time').sleep(0.01)"
    )
    try:
        done = shop.record("-k", "loop_of_its_own", "--tb=short")
    finally:
        shop.edit(
            "agent.py", "    __import__('time').sleep(0.01)", '    await asyncio.to_thread(note, f"lookup {order_id}")'
        )
    assert done.returncode == 1
    assert "BlockingError: Blocking call to time.sleep" in done.stdout


def test_the_probe_of_event_loops_waits_for_no_lock(monkeypatch):
    def blocks(*_):
        raise AssertionError("joined a thread on the event loop")

    monkeypatch.setattr(threading.Thread, "join", blocks)
    assert idle.hooks_work.__wrapped__()
