"""LangChain's plain tools, which `ainvoke` runs in threads of an executor: in recorded order, and never taken for gone."""

import pytest

pytestmark = pytest.mark.env("frameworks")

AGENT = """
import asyncio, os, time
from langchain_core.tools import tool

NOW = os.environ.get("PROGRAM") == "changed"
TAKES = {"a": 0.15, "b": 0.01, "c": 0.05}

async def ask(name):
    await asyncio.sleep(TAKES[name])
    return name.upper()

@tool
def look_up(name: str) -> str:
    "Look a name up."
    time.sleep(TAKES[name])
    return name.upper()

async def invoked():
    one = lambda name: look_up.ainvoke({"name": name})
    if NOW:
        [await one(name) for name in "abc"]
    else:
        await asyncio.gather(*map(one, "abc"))

async def before_a_call():
    async def after():
        await look_up.ainvoke({"name": "c"})
        if not NOW:
            await ask("b")
    await asyncio.gather(after(), ask("a"))
"""

TOLD = {
    "invoked": '[AR-ORDER] call ?/3: tool look_up {"name":"b"} is not called, but was answered before tool look_up {"name":"a"}',
    "before_a_call": '[AR-ORDER] call ?/3: tool ask {"name":"b"} is not called, but was answered before tool ask {"name":"a"}',
}


@pytest.fixture(scope="module")
def langchain(programs):
    return programs(AGENT)


def test_none_is_taken_for_gone_in_twenty_replays(langchain):
    assert langchain.replayed("-W", "default", times=20) == {name: [""] * 20 for name in TOLD}


def test_each_change_is_told(langchain):
    assert langchain.replayed_in_threads(changed=True) == {name: [said] for name, said in TOLD.items()}
