"""The retries of the real SDKs: each attempt is a call of its own, and a virtual clock passes over the waits."""

import json

from pytest_agentreplay.demo.script import Raw
from tests.support.small_projects import furnished, passed, recorded, runs

AGENT = """
import asyncio, json, os, pathlib
from time import monotonic as real
import time
import anthropic, openai

URL = os.environ["MODEL_URL"]
KEY = "sk-live-0123456789abcdef"
TOLD = pathlib.Path(__file__).with_name("told.jsonl")
ASK = [{"role": "user", "content": "Where is A-17?"}]

def note(line):
    with pathlib.Path(__file__).with_name("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")

def refund(order_id):
    note(f"refund {order_id}")

async def achat():
    async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key=KEY) as client:
        return (await client.chat.completions.create(model="gpt-x", messages=ASK)).choices[0].message.content

async def aclaude():
    async with anthropic.AsyncAnthropic(base_url=URL, api_key=KEY) as client:
        return (await client.messages.create(model="claude-x", max_tokens=9, messages=ASK)).content[0].text

def by_hand():
    for wait in (0.5, 0.4, None):
        try:
            with openai.OpenAI(base_url=URL + "/v1", api_key=KEY, max_retries=0) as client:
                return client.chat.completions.create(model="gpt-x", messages=ASK).choices[0].message.content
        except (openai.RateLimitError, openai.InternalServerError):
            time.sleep(wait)

def answer(way):
    began, began_for_real = time.monotonic(), real()
    said = globals()[way]()
    said = asyncio.run(said) if hasattr(said, "send") else said
    refund(way)
    took = time.monotonic() - began, real() - began_for_real
    with TOLD.open("a") as told:
        told.write(json.dumps([way, said, *took]) + "\\n")
    return said
"""

TESTS = """
import agent, pytest

@pytest.mark.parametrize("way", ["achat", "aclaude", "by_hand"])
def test_shop(way, agentreplay):
    assert agent.answer(way) == "It is late."
"""

INI = "agentreplay_clock = virtual\nagentreplay_tools = agent.refund\n"

WAITED = 0.8
"""Seconds for which each of them waits at the least, as its server tells it to, or as it says itself."""


def script(body, number):
    fault = [("content-type", "application/json"), ("retry-after", "1"), ("retry-after-ms", "500")]
    match (number - 1) % 3:
        case 0:
            return Raw(429, fault, [b'{"error": {"message": "slow down"}}'], "Too Many Requests")
        case 1:
            return Raw(500, fault, [b'{"error": {"message": "sorry"}}'], "Internal Server Error")
    return "It is late."


def told(project):
    file = project.root / "told.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    file.unlink()
    return {way: rest for way, *rest in lines}


def test_a_virtual_clock_passes_over_the_waits_and_fires_nothing_twice(shared_project):
    project = recorded(furnished(shared_project(script), INI, agent=AGENT, test_shop=TESTS), "-W", "ignore")
    before = told(project)
    for name, run in runs(project).items():
        *attempts, tool = run.exchanges
        assert [x.outcome.status for x in attempts] == [429, 500, 200]
        assert tool.call.name == "refund"
        assert [x.attempt for x in attempts] == [1, 2, 3] or name != "shop[achat]"
    assert project.ledger == ["refund achat", "refund aclaude", "refund by_hand"]
    assert "12 calls served, 0 live" in passed(project.offline("-W", "ignore")).stdout
    replayed = told(project)
    for way, (said, shown, _) in replayed.items():
        assert said == before[way][0]
        assert shown >= WAITED, f"{way} was not shown the time for which it has waited"
    spent = [sum(took for _, _, took in each.values()) for each in (before, replayed)]
    assert spent[1] < spent[0] - WAITED, spent
