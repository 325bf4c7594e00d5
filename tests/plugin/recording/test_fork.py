"""`--record-from=TURN`: recorded turns before TURN, the real model from there on, a pending run."""

import json

import pytest

from pytest_agentreplay.backends.adopt import list_turns_from
from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.providers import READER
from pytest_agentreplay.snapshots import codec
from tests.support.exhaustive import rare
from tests.support.model_script import Ask
from tests.support.project import refunds
from tests.support.small_projects import edited, furnished, passed, recorded, summary


def forked(project, *words, **environ):
    """Fork, and return the finished process with how many model calls it made and which tools ran."""
    before, ran = project.server.hits, len(project.ledger)
    done = project.run(*words, COLUMNS="250", **environ)
    return done, project.server.hits - before, project.ledger[ran:]


def pending(project):
    (file,) = (project.root / ".pytest_agentreplay" / "pending").rglob("*.snapshot.json")
    return codec.loads(file.read_bytes(), file=str(file)).run


def taken(project):
    """Accept the pending run, and replay it offline with nothing live."""
    if list((project.root / ".pytest_agentreplay" / "pending").rglob("*.json")):
        passed(project.command("accept", "--all"))
    return passed(project.offline(COLUMNS="250"))


@pytest.mark.parametrize("turn", ["3", *rare("-1")])
@pytest.mark.proves(forked=True)
def test_a_word_of_the_prompt_costs_the_last_model_call_alone(project, turn):
    recorded(project)
    (before,) = project.snapshots
    project.edit("agent.py", "Be brief.", "Be short.")
    done, asked, ran = forked(project, f"--record-from={turn}")
    passed(done)
    assert (asked, ran) == (1, [])
    assert f"model LIVE from turn {turn} on, else frozen" in done.stdout
    assert "test_refund: forked at turn 3 (calls served: 4, made: 1); " in done.stdout
    assert project.snapshots[0].run == before.run
    run = pending(project)
    assert run.header.kit["forked"] == {"turn": 3, "from": before.run.header.recorded, "served": 4}
    old = before.run.exchanges
    assert [x.outcome for x in run.exchanges[:4]] == [x.outcome for x in old[:4]]
    assert run.exchanges[4].outcome != old[4].outcome
    assert [(x.start, x.finish) for x in run.exchanges] == [(x.start, x.finish) for x in old]
    assert all(b"Be short." in x.call.body.data for x in run.exchanges[::2])
    differs = project.command("diff", project.files[0], next((project.root / ".pytest_agentreplay").rglob("*.json")))
    assert differs.returncode == 1
    assert "[AR-PROMPT]" in differs.stdout
    taken(project)
    fact = f"forked: turn 3, from {before.run.header.recorded}, served 4"
    assert fact in passed(project.command("show", project.files[0])).stdout


CREW = """
import asyncio, json, os
from concurrent.futures import ThreadPoolExecutor
import anthropic, openai

URL = os.environ["MODEL_URL"]
LAST = "Sum up."
NAMES = ("north", "south", "east")
TOOLS = [{"type": "function", "function": {"name": "stock", "parameters": {"type": "object", "properties": {}}}}]

def stock(shop: str) -> int:
    with open("ledger.txt", "a") as ledger:
        ledger.write(shop + "\\n")
    return len(shop)

def request(messages):
    return {"model": "gpt-x", "messages": messages, "tools": TOOLS, "stream": True}

def fed(messages, chunks):
    text, calls = "", []
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            calls += [call for call in choice.delta.tool_calls or [] if call.function.name]
    messages.append({"role": "assistant", "content": text})
    for call in calls:
        shop = messages[0]["content"].split()[-1]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": str(stock(shop))})
    return text if not calls else ""

async def ahelper(client, name):
    messages = [{"role": "user", "content": "Look into " + name}]
    while True:
        stream = await client.chat.completions.create(**request(messages))
        if text := fed(messages, [chunk async for chunk in stream]):
            return text

def helper(client, name):
    messages = [{"role": "user", "content": "Look into " + name}]
    while True:
        with client.chat.completions.create(**request(messages)) as stream:
            if text := fed(messages, stream):
                return text

def summary(found):
    client = anthropic.Anthropic(base_url=URL, api_key="sk-live-0123456789abcdef")
    asked = [{"role": "user", "content": LAST + " " + " / ".join(found)}]
    with client, client.messages.stream(model="claude-x", max_tokens=99, messages=asked) as stream:
        return stream.get_final_text()

async def acrew():
    async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="sk-live-0123456789abcdef") as client:
        found = []
        for done in asyncio.as_completed([ahelper(client, name) for name in NAMES]):
            found.append(await done)
    return summary(found)

def crew():
    client = openai.OpenAI(base_url=URL + "/v1", api_key="sk-live-0123456789abcdef")
    with client, ThreadPoolExecutor(3) as pool:
        return summary(list(pool.map(lambda name: helper(client, name), NAMES)))
"""
CREW_TESTS = """
import asyncio
import crew

def test_tasks(agentreplay):
    assert asyncio.run(crew.acrew())

def test_threads(agentreplay):
    assert crew.crew()
"""


def of_crew(body, number):
    said = body["messages"]
    if "Look into" in str(said[0]["content"]) and len(said) == 1:
        return Ask("stock", {})
    return f"answer {number} about {said[0]['content'][-5:]}"


@pytest.fixture(scope="module")
def crew(shared_project):
    made = shared_project(of_crew)
    furnished(made, "agentreplay_tools = crew.stock = read\n", crew=CREW, test_crew=CREW_TESTS)
    return recorded(made, COLUMNS="250")


@pytest.mark.parametrize(
    ("turn", "word", "asks"),
    [("2", "Sum up", 8), ("-1", "Look into", 2)],
    ids=["what the helpers ask, and what follows from it", "what was asked last"],
)
def test_a_fork_of_streams_in_tasks_and_threads_replays(crew, turn, word, asks):
    before = [file.read_bytes() for file in crew.files]
    with edited(crew, "crew.py", word, f"Please {word.lower()}"):
        done, asked, ran = forked(crew, f"--record-from={turn}")
        passed(done)
        assert (asked, ran) == (asks, []), done.stdout
        assert [file.read_bytes() for file in crew.files] == before
        for _ in range(2):
            taken(crew)
    for snapshot in crew.snapshots:
        for x in snapshot.run.exchanges:
            if x.call.boundary == "http" and b"answer" in x.outcome.body.data and b"gpt" in x.call.body.data:
                name = json.loads(x.call.body.data)["messages"][0]["content"][-5:]
                assert name in READER.read_reply(x.call, x.outcome).text, "each helper has its own replies"
    for file, text in zip(crew.files, before, strict=True):
        file.write_bytes(text)


def of_shop(body, number):
    """Once `of_shop.then` is set, the model asks for that after the look-up of A-17."""
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    if len(results) == 1 and of_shop.then is not None:
        return of_shop.then
    return refunds(body, number)


@pytest.fixture(scope="module")
def shop(shared_project):
    of_shop.then = None
    made = shared_project(of_shop)
    made.furnish(ini="agentreplay_checks = unproved = ignore\n")
    made.server._replies = of_shop
    return recorded(made)


LOOK_UP, REFUND = Ask("lookup_order", {"order_id": "B-18"}), Ask("refund", {"order_id": "A-17", "amount": 99})


@pytest.mark.parametrize(
    ("then", "words", "ran", "code"),
    [
        (LOOK_UP, [], [], "[AR-TOOL] turn 2"),
        (LOOK_UP, ["--replay-tools=live"], ["lookup B-18"], "AssertionError: tool call 2 is another one (turn 2)"),
        (REFUND, ["--replay-tools=live"], [], "[AR-ARGS] turn 2"),
    ],
    ids=["frozen", "one that reads runs live", "one that writes never does"],
)
def test_a_tool_call_that_is_not_recorded(shop, then, words, ran, code):
    of_shop.then = then
    try:
        done, _, tools = forked(shop, "--record-from=2", *words)
    finally:
        of_shop.then = None
    assert tools == ran
    assert summary(done)["refund"].startswith(code)
    assert ("a fork runs no tool whose result is not there" in done.stdout) == (not ran)
    assert ("add --replay-tools=live" in done.stdout) == (not ran)
    run = pending(shop)
    assert run.header.outcome["status"] == "failed"
    assert [x.call.boundary for x in run.exchanges[:3]] == ["http", "tool", "http"]


TWO = """
import agent

def test_long(agentreplay):
    agent.answer("Where is A-17?")

def test_short(agentreplay):
    agent.ask([{"role": "tool", "content": ""}] * 2)

def test_new(agentreplay):
    agent.ask([])
"""


def test_a_turn_that_a_test_does_not_have_asks_nothing(project):
    project.furnish(TWO)
    recorded(project, "-k", "not new")
    done, asked, _ = forked(project, "--record-from=3")
    assert asked == 1
    assert "forked at turn 3" in done.stdout
    told = summary(done)
    assert told["new"].startswith("[AR-NEW] no snapshot is recorded for this test")
    why = "test_shop.py::test_short has no such turn in its recording: it has 1, so give 1 to 1, or -1 to -1"
    assert told["short"] == f"Failed: --record-from=3: {why}"


SHARED = """
import subprocess, sys
import agent, pytest

CHILD = "import agent; print(agent.ask([{'role': 'tool', 'content': 'A'}] * 2, user='child')['content'])"

@pytest.fixture(scope="module")
def plan():
    return agent.ask([{"role": "tool", "content": "plan"}] * 2)["content"]

@pytest.mark.agentreplay
def test_child(plan):
    said = subprocess.run([sys.executable, "-c", CHILD], check=True, capture_output=True, text=True).stdout
    assert agent.ask([{"role": "tool", "content": plan + said + agent.PROMPT}] * 2)["content"]
"""


@pytest.mark.parametrize(("turn", "asks"), [("-1", 1), ("1", 2)])
def test_what_a_child_asked_is_served_and_a_shared_fixture_is_replayed(project, turn, asks):
    project.furnish(SHARED, "agentreplay_clock = virtual\n" if asks == 1 else "")
    recorded(project)
    files = {file: file.read_bytes() for file in project.files}
    assert len(files) == 2
    project.edit("agent.py", "Be brief.", "Be short.")
    done, asked, _ = forked(project, f"--record-from={turn}")
    passed(done)
    assert asked == asks
    assert {file: file.read_bytes() for file in project.files} == files
    taken(project)


def test_each_lane_is_cut_at_its_own_turn_and_what_follows_from_that_goes_too():
    """Two helpers side by side, two turns each, then the agent that waited for them."""
    spans = [("main.1", 1, 3), ("main.2", 2, 4), ("main.1", 5, 7), ("main.2", 6, 8), ("main", 9, 10)]
    run = Run(
        Header("t.py::t"),
        tuple(Exchange(ToolCall("m", {"n": s}, "model"), ToolReply(s), s, f, lane=lane) for lane, s, f in spans),
    )

    def numbered(until):
        return [(turn.lane, turn.number) for turn in list_turns_from(run, READER, until)]

    assert numbered(2) == [("main.1", 2), ("main.2", 2), ("main", 1)]
    assert numbered(-1) == [("main", 1)]
    assert len(numbered(1)) == len(numbered(-5)) == 5
    for until in (3, -6):
        with pytest.raises(SettingsError, match=f"--record-from={until}: .* it has 2, so give 1 to 2, or -1 to -5"):
            list_turns_from(run, READER, until)
