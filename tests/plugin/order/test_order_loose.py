"""`order="loose"`: look-ups may change places, calls that do something may not; what was asked for is handed over."""

import time

import pytest

AGENT = """
import asyncio, os
import httpx2

NOW = os.environ.get("PROGRAM") == "changed"
TAKES = {"a": 0.06, "b": 0.02, "c": 0.04}
URL = os.environ["MODEL_URL"]

async def ask(name):
    await asyncio.sleep(TAKES[name])
    return name.upper()

async def look(name):
    await asyncio.sleep(TAKES[name])
    return name.upper()

def search(query):
    return [query.upper()]

async def get(client, name):
    return (await client.get(f"{URL}/{name}")).status_code

async def post(client, name):
    body = {"model": "m-1", "messages": [{"role": "user", "content": name}]}
    return (await client.post(f"{URL}/v1/chat/completions", json=body)).json()

def read_tools():
    return each(look)

def retrievals():
    for query in "ba" if NOW else "ab":
        search(query)

async def gets():
    async with httpx2.AsyncClient() as client:
        await each(lambda name: get(client, name))

def write_tools():
    return each(ask)

async def models():
    async with httpx2.AsyncClient() as client:
        await each(lambda name: post(client, name))

async def each(call):
    for name in "ba" if NOW else "ab":
        await call(name)

async def no_longer_at_once():
    # They were all under way at once, so that they may come in any order, whatever they do.
    if NOW:
        [await ask(name) for name in "abc"]
    else:
        await asyncio.gather(*map(ask, "abc"))

async def first_come():
    # What is as it was when recorded is told in the recorded order all the same.
    tasks = [asyncio.create_task(look(name), name=name) for name in "abc"]
    for done in asyncio.as_completed(tasks):
        await ask((await done).lower())
"""

INI = """    agent.look = read
agentreplay_retrievals = agent.search
agentreplay_order = loose
"""

MAY = {"read_tools", "retrievals", "gets", "no_longer_at_once", "first_come"}
TOLD = {
    "write_tools": '[AR-ORDER] call 2/2: tool ask {"name":"b"} came before tool ask {"name":"a"}, which is recorded first',
    "models": "[AR-MISSING] turn 1/2: model m-1, last message: a was not called before model m-1, last message: b",
}


def script(body, number):
    time.sleep(0.01)
    return "yes"


@pytest.fixture(scope="module")
def loose(programs):
    return programs(AGENT, INI, script)


def test_what_has_not_changed_replays(loose):
    assert loose.replayed(times=3) == {name: [""] * 3 for name in {*MAY, *TOLD}}


def test_look_ups_may_change_places_and_no_other_call(loose):
    assert loose.replayed(changed=True) == {name: [""] for name in MAY} | {name: [said] for name, said in TOLD.items()}


def test_in_recorded_order_none_may(loose):
    ini = loose.project.root / "pytest.ini"
    text = ini.read_text(encoding="utf-8")
    ini.write_text(text.replace("= loose", "= recorded"), encoding="utf-8")
    try:
        told = loose.replayed(changed=True)
    finally:
        ini.write_text(text, encoding="utf-8")
    codes = {name: said[0].partition("]")[0].lstrip("[") for name, said in told.items()}
    assert codes == dict.fromkeys({*MAY, *TOLD} - {"first_come"}, "AR-ORDER") | {
        "first_come": "",
        "models": "AR-MISSING",
    }
