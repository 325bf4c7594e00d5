"""litellm: its own client for one provider and the openai SDK that it holds back; sync, async on aiohttp, streamed."""

import json

import pytest

from tests.support.model_script import Ask
from tests.support.small_projects import furnished, passed, recorded

pytestmark = pytest.mark.env("litellm")

AGENT = """
import json, os, pathlib
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

def answer(way, question):
    messages, said = begin(question), None
    while said is None:
        said = go_on(messages, litellm.completion(**asked(way, messages)))
    return said

async def astreamed(way, question):
    messages, said = begin(question), None
    while said is None:
        chunks = [chunk async for chunk in await litellm.acompletion(**asked(way, messages, stream=True))]
        said = go_on(messages, litellm.stream_chunk_builder(chunks, messages=messages))
    return said
"""

TEST = """
import asyncio, pytest, agent

@pytest.mark.parametrize("way", agent.WAYS)
def test_order(agentreplay, way):
    assert "refund" in agent.answer(way, "Where is A-17?")
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

@pytest.mark.parametrize("way", agent.WAYS)
def test_async_streamed_order(agentreplay, way):
    assert "refund" in asyncio.run(agent.astreamed(way, "Where is A-17?"))
    agentreplay.run.assert_tool_calls(["lookup_order", "refund"])

@pytest.mark.parametrize("way", agent.WAYS)
def test_at_once(agentreplay, way):
    "What one was told stands in the next question of all others."
    known = []
    async def one(name):
        for number in range(3):
            reply = await agent.litellm.acompletion(**agent.asked(way, agent.begin(f"{name}, {number}. Known: {known}")))
            known.append(reply.choices[0].message.content)
    async def all_of_them():
        await asyncio.gather(*map(one, "abcd"))
    asyncio.run(all_of_them())
    assert len({*known}) == 12
"""

INI = "agentreplay_tools =\n    agent.lookup_order = read\n    agent.refund\n"

THEIRS = ("-W", "ignore")
"""litellm warns of itself."""


def script(body, number):
    said = json.dumps(body["messages"])
    if "Known:" in said:
        return f"answer {number}"
    match said.count('"role": "tool"') + said.count('"type": "tool_result"'):
        case 0:
            return Ask("lookup_order", {"order_id": "A-17"})
        case 1:
            return Ask("refund", {"order_id": "A-17", "amount": 18.5})
    return f"Here is your refund (answer {number})."


def test_litellm_is_recorded_replayed_and_told_where_it_parts(shared_project):
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else its import asks the network
    shop = furnished(shared_project(script, environ=quiet), INI, agent=AGENT, test_shop=TEST)
    recorded(shop, *THEIRS)
    assert len(shop.files) == 6
    assert shop.server.hits == 4 * 3 + 2 * 12, "one request for each model call"
    assert sorted(len(snapshot.run.exchanges) for snapshot in shop.snapshots) == [5] * 4 + [12] * 2, "each call once"
    assert shop.ledger == ["lookup A-17", "refund A-17 18.5"] * 4
    assert not any("sk-live-0123456789abcdef" in file.read_text(encoding="utf-8") for file in shop.files)
    assert "replayed 6 tests (36 turns, 44 calls served, 0 live)" in passed(shop.offline(*THEIRS)).stdout
    told, _ = shop.diverged(*THEIRS, "-k", "order", COLUMNS="200")
    assert len(told) == 4
    assert all(said.startswith("FAILED [AR-PROMPT] turn 1/3: model ") for said in told.values()), told
