"""litellm: its own client for one provider and the openai SDK that it holds back, sync and streamed."""

import pytest

pytestmark = pytest.mark.env("litellm")

AGENT = """
import json, os, pathlib
import litellm

URL = os.environ["MODEL_URL"]
TOOL = {
    "type": "function",
    "function": {
        "name": "lookup_order",
        "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    },
}
WAYS = {
    "openai": {"model": "openai/gpt-x", "api_base": URL + "/v1"},
    "anthropic": {"model": "anthropic/claude-x", "api_base": URL},
}
PROMPT = "You help customers."


def lookup_order(order_id: str) -> dict:
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(order_id + "\\n")
    return {"order": order_id, "status": "late"}


def answer(way, question, **more):
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]
    while True:
        reply = litellm.completion(
            **WAYS[way], api_key="sk-live-0123456789abcdef", messages=messages, tools=[TOOL], max_retries=0, **more
        )
        if more.get("stream"):
            reply = litellm.stream_chunk_builder(list(reply), messages=messages)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump())
        for call in message.tool_calls:
            result = lookup_order(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
"""

TEST = """
import pytest, agent

@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", ["openai", "anthropic"])
def test_order(agentreplay, way, stream):
    assert agent.answer(way, "Look up order A-17.", stream=stream)
    agentreplay.run.assert_tool_calls(["lookup_order"])
"""


THEIRS = ("-W", "ignore")
"""litellm warns of itself."""


@pytest.fixture
def shop(shared_project):
    made = shared_project(environ={"LITELLM_LOCAL_MODEL_COST_MAP": "True"})  # else its import asks the network
    made.write(agent=AGENT, test_shop=TEST)
    ini = "[pytest]\npythonpath = .\nagentreplay_tools = agent.lookup_order = read"
    (made.root / "pytest.ini").write_text(ini, encoding="utf-8")
    return made


def test_litellm_is_recorded_replayed_and_told_where_it_parts(shop):
    recorded = shop.record(*THEIRS)
    assert recorded.returncode == 0, recorded.stdout
    assert recorded.stdout.count("   replays") == 4, recorded.stdout
    assert len(shop.files) == 4
    assert shop.ledger == ["A-17"] * 4
    assert not any("sk-live-0123456789abcdef" in file.read_text(encoding="utf-8") for file in shop.files)
    shop.server.stop()
    replayed = shop.replay(*THEIRS)
    assert replayed.returncode == 0, replayed.stdout
    assert "replayed 4 tests" in replayed.stdout
    assert len(shop.ledger) == 4
    shop.edit("agent.py", "help customers", "help friends")
    parted = shop.replay(*THEIRS, COLUMNS="200")
    assert parted.returncode == 1
    assert parted.stdout.count("FAILED") == 4
    assert parted.stdout.count("[AR-PROMPT] turn 1/2: model ") == 8, "each in its report and in the summary"
