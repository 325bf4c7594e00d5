"""litellm: its own client for one provider and the openai SDK that it holds back; sync, async on aiohttp, streamed."""

import json

import pytest

from pytest_agentreplay.demo.script import Ask

pytestmark = pytest.mark.env("litellm")

AGENT = """
import asyncio, inspect, json, os, pathlib
import litellm

URL = os.environ["MODEL_URL"]
PROMPT = "You help customers. Be brief."
WAYS = {
    "openai": {"model": "openai/gpt-x", "api_base": URL + "/v1"},
    "anthropic": {"model": "anthropic/claude-x", "api_base": URL},
}

def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(line + "\\n")

def lookup_order(order_id: str) -> dict:
    note(f"lookup {order_id}")
    return {"order": order_id, "status": "late"}

def refund(order_id: str, amount: float) -> str:
    note(f"refund {order_id} {amount}")
    return f"refunded {amount}"

TOOLS = {"lookup_order": lookup_order, "refund": refund}
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "string"}}}
OFFERED = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS]

def asked(way, messages, **more):
    return dict(WAYS[way], api_key="sk-live-0123456789abcdef", messages=messages, tools=OFFERED, max_retries=0, **more)

def begin(question):
    return [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]

def go_on(messages, reply):
    '''The last answer, or None while tools are asked for; the messages grow.'''
    message = reply.choices[0].message
    if not message.tool_calls:
        return message.content
    messages.append(message.model_dump())
    for call in message.tool_calls:
        result = TOOLS[call.function.name](**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})

def answer(way, question, **more):
    messages = begin(question)
    while True:
        reply = litellm.completion(**asked(way, messages, **more))
        if more.get("stream"):
            reply = litellm.stream_chunk_builder(list(reply), messages=messages)
        if (said := go_on(messages, reply)) is not None:
            return said

async def aanswer(way, question, **more):
    messages = begin(question)
    while True:
        reply = await litellm.acompletion(**asked(way, messages, **more))
        if more.get("stream"):
            reply = litellm.stream_chunk_builder([chunk async for chunk in reply], messages=messages)
        if (said := go_on(messages, reply)) is not None:
            return said
"""

TEST = """
import asyncio, pytest, agent

@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", ["openai", "anthropic"])
def test_order(agentreplay, way, stream):
    assert "refund" in agent.answer(way, "Where is A-17?", stream=stream)
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", ["openai", "anthropic"])
def test_async_order(agentreplay, way, stream):
    assert "refund" in asyncio.run(agent.aanswer(way, "Where is A-17?", stream=stream))
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools =
    agent.lookup_order = read
    agent.refund
"""

THEIRS = ("-W", "ignore")
"""litellm warns of itself."""


def script(body, number):
    said = json.dumps(body["messages"])
    match said.count('"role": "tool"') + said.count('"type": "tool_result"'):
        case 0:
            return Ask("lookup_order", {"order_id": "A-17"})
        case 1:
            return Ask("refund", {"order_id": "A-17", "amount": 18.5})
    return f"Here is your refund (answer {number})."


@pytest.fixture
def shop(shared_project):
    made = shared_project(script, environ={"LITELLM_LOCAL_MODEL_COST_MAP": "True"})  # else its import asks the network
    made.write(agent=AGENT, test_shop=TEST)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return made


def test_litellm_is_recorded_replayed_and_told_where_it_parts(shop):
    recorded = shop.record(*THEIRS)
    assert recorded.returncode == 0, recorded.stdout
    assert recorded.stdout.count("   replays") == 8, recorded.stdout
    assert len(shop.files) == 8
    assert shop.server.hits == 24, "one request for each model call, proofs included"
    assert [len(snapshot.run.exchanges) for snapshot in shop.snapshots] == [5] * 8, "each wire call once"
    assert shop.ledger == ["lookup A-17", "refund A-17 18.5"] * 8
    assert not any("sk-live-0123456789abcdef" in file.read_text(encoding="utf-8") for file in shop.files)
    replayed = shop.offline(*THEIRS)
    assert replayed.returncode == 0, replayed.stdout
    assert "replayed 8 tests (24 turns, 40 calls served, 0 live)" in replayed.stdout
    told, _ = shop.diverged(*THEIRS, COLUMNS="200")
    assert len(told) == 8
    assert all(said.startswith("FAILED [AR-PROMPT] turn 1/3: model ") for said in told.values()), told


IMPORTED_LATE = """
import pytest

@pytest.mark.parametrize("name", ["first", "second"])
def test_order(agentreplay, name):
    import agent
    assert "refund" in agent.answer("openai", f"Where is A-17, {name}?")
"""


def test_the_price_list_that_its_import_asks_for_is_no_part_of_a_test(shop):
    shop.write(test_shop=IMPORTED_LATE)
    prices = {"LITELLM_LOCAL_MODEL_COST_MAP": "", "LITELLM_MODEL_COST_MAP_URL": f"{shop.server.url}/prices.json"}
    recorded = shop.record(*THEIRS, **prices)
    assert recorded.returncode == 0, recorded.stdout
    assert "import    litellm asks for 127.0.0.1" in recorded.stdout
    assert shop.server.hits == 6, "two times three model calls, and no price list"
    for word in ("first", "second"):
        replayed = shop.offline(*THEIRS, "-k", word, **prices)
        assert replayed.returncode == 0, replayed.stdout
        assert "1 passed" in replayed.stdout
