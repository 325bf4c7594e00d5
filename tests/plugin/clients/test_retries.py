"""The retries of the real SDKs: each attempt is a call of its own, and a virtual clock passes over the waits."""

import json

import pytest

from pytest_agentreplay.demo.script import Raw

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

def chat():
    with openai.OpenAI(base_url=URL + "/v1", api_key=KEY) as client:
        return client.chat.completions.create(model="gpt-x", messages=ASK).choices[0].message.content

async def achat():
    async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key=KEY) as client:
        return (await client.chat.completions.create(model="gpt-x", messages=ASK)).choices[0].message.content

def claude():
    with anthropic.Anthropic(base_url=URL, api_key=KEY) as client:
        return client.messages.create(model="claude-x", max_tokens=9, messages=ASK).content[0].text

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

@pytest.mark.parametrize("way", ["chat", "achat", "claude", "aclaude", "by_hand"])
def test_shop(way, agentreplay):
    assert agent.answer(way) == "It is late."
"""

INI = "[pytest]\npythonpath = .\nagentreplay_clock = {clock}\nagentreplay_tools = agent.refund\n"

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


@pytest.fixture(scope="module", params=["stepped", "virtual"])
def retried(request, shared_project):
    """The agents recorded under one of the clocks: the project, what they told, the clock."""
    project = shared_project(script)
    project.write(agent=AGENT, test_shop=TESTS)
    (project.root / "pytest.ini").write_text(INI.format(clock=request.param), encoding="utf-8")
    recorded = project.record("-W", "ignore", "--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    return project, told(project), request.param


def test_each_attempt_is_an_exchange_with_its_number(retried):
    project, _, _ = retried
    assert project.server.hits == 15
    for snapshot in project.snapshots:
        *attempts, tool = snapshot.run.exchanges
        assert [x.outcome.status for x in attempts] == [429, 500, 200]
        assert tool.call.name == "refund"
        if "by_hand" not in snapshot.run.header.test and "laude" not in snapshot.run.header.test:
            assert [x.attempt for x in attempts] == [1, 2, 3]


def test_a_replay_serves_the_refusals_again_and_fires_nothing_twice(retried):
    project, recorded, clock = retried
    assert project.ledger == [f"refund {way}" for way in ("chat", "achat", "claude", "aclaude", "by_hand")]
    spent = []
    for _ in range(3 if clock == "virtual" else 1):
        done = project.offline("-W", "ignore")
        assert done.returncode == 0, done.stdout
        assert "20 calls served, 0 live" in done.stdout
        replayed = told(project)
        assert {way: said for way, (said, *_) in replayed.items()} == {
            way: said for way, (said, *_) in recorded.items()
        }
        for way, (_, shown, _) in replayed.items():
            assert shown >= WAITED, f"{way} was not shown the time for which it has waited"
        spent.append(sum(real for _, _, real in replayed.values()))
    if clock == "virtual":
        assert min(spent) < sum(real for _, _, real in recorded.values()) / 2
