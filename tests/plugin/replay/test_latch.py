"""The first divergence fails its test, whatever the agent does with the exception, and is all that people read."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.support.small_projects import furnished, recorded, sections, summary

AGENT = """
import os
import httpx2

PROMPT = "Be brief."
URL = os.environ["MODEL_URL"]

def body(question):
    return {"model": "m-1", "messages": [{"role": "system", "content": PROMPT}, {"role": "user", "content": question}]}

CLIENT = httpx2.Client()

def ask(question="Where?"):
    reply = CLIENT.post(URL + "/v1/chat/completions", json=body(question))
    return reply.json()["choices"][0]["message"]["content"]

async def aask(question="Where?"):
    async with httpx2.AsyncClient() as client:
        reply = await client.post(URL + "/v1/chat/completions", json=body(question))
    return reply.json()["choices"][0]["message"]["content"]
"""

TESTS = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
import openai, pytest, trio
import agent
from agent import URL, aask, ask, body

def test_retries_of_everything(agentreplay):
    for _ in range(5):
        try:
            ask()
        except BaseException:
            pass

def test_raised_again_as_another(agentreplay):
    try:
        ask()
    except BaseException as error:
        raise RuntimeError("the agent broke") from error

def test_raised_while_handling(agentreplay):
    try:
        {}["nothing"]
    except KeyError:
        ask()

def test_openai_retries(agentreplay):
    with openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=4) as client:
        client.chat.completions.create(**body("Where?"))

def test_task_group_below_another(agentreplay):
    async def inner():
        async with asyncio.TaskGroup() as group:
            group.create_task(aask("inner?"))
    async def outer():
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())
            group.create_task(asyncio.sleep(5 if agent.PROMPT == "Be long." else 0))
    asyncio.run(outer())

def test_dropped_task(agentreplay):
    async def drop():
        task = asyncio.create_task(aask())
        await asyncio.wait([task])
        del task
    asyncio.run(drop())

def test_dropped_outer_task(agentreplay):
    async def outer():
        await asyncio.gather(aask("a?"), aask("b?"))
    async def drop():
        done, _ = await asyncio.wait([asyncio.create_task(outer())])
        done.clear()
        import gc
        gc.collect()
    asyncio.run(drop())

@pytest.mark.asyncio
async def test_asyncio_plugin_swallowed(agentreplay):
    async with asyncio.timeout(5):
        assert len(await asyncio.gather(asyncio.wait_for(aask(), 5), return_exceptions=True)) == 1

@pytest.mark.anyio
async def test_anyio_plugin(agentreplay):
    await aask()

def test_thread_of_a_thread(agentreplay):
    def outer():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    thread = threading.Thread(target=outer, daemon=True)
    thread.start()
    thread.join()

def test_thread_that_nobody_awaits(agentreplay):
    threading.Thread(target=ask).start()
    time.sleep(0.2)

def test_executor(agentreplay):
    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(ask, f"{n}?") for n in range(4)]:
            future.exception()

def test_to_thread(agentreplay):
    async def run():
        try:
            await asyncio.to_thread(ask)
        except BaseException:
            pass
    asyncio.run(run())

def test_trio_nursery(agentreplay):
    async def run():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(aask, "a?")
            nursery.start_soon(aask, "b?")
    trio.run(run)

class Closing:
    def __del__(self):
        ask("closing?")

def test_finalizer(agentreplay):
    closing = Closing()
    del closing

def test_generator_that_is_dropped(agentreplay):
    def steps():
        try:
            yield 1
        finally:
            ask("last?")
    iterator = steps()
    next(iterator)
    del iterator
"""

CONFTEST = """
import pytest

@pytest.fixture
def anyio_backend():
    return "trio"
"""
NAMES = set(re.findall(r"^(?:async )?def test_(\w+)", TESTS, re.MULTILINE))
NOISE = ("Traceback", "ExceptionGroup", "Warning", "exception was", "never retrieved", "Captured", "Exception ignored")


@pytest.fixture(scope="module")
def diverging(shared_project):
    """The suite recorded, and one word of the prompt changed."""
    ini = "asyncio_default_fixture_loop_scope = function\n"
    project = furnished(shared_project(), ini, agent=AGENT, test_latch=TESTS, conftest=CONFTEST)
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin", "xdist.plugin")
    assert len(recorded(project).files) == len(NAMES)
    project.edit("agent.py", "Be brief.", "Be long.")
    return project


def of_junit(case):
    """What JUnit's file says of a test: code, turn and the message, one line."""
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    message = case.find("failure").get("message")
    return properties["agentreplay.code"], properties["agentreplay.turn"], message[:18], message.count("\n")


@pytest.mark.parametrize(
    ("words", "environ"),
    # The second one with warnings that are shown and not raised, as most people have them.
    [((), {}), (("-n", "2", "-W", "default"), {"CI": "1"})],
    ids=["here", "under xdist on CI"],
)
def test_the_first_divergence_is_the_verdict_and_all_that_is_said(diverging, words, environ):
    done = diverging.offline("--junitxml=junit.xml", *words, **environ)
    assert done.returncode == 1
    assert f"= {len(NAMES)} failed in " in done.stdout.splitlines()[-1]
    assert not [word for word in NOISE if word in done.stdout + done.stderr], done.stdout + done.stderr
    said, reports = summary(done), sections(done)
    cases = ET.parse(diverging.root / "junit.xml").iter("testcase")
    junit = {case.get("name").removeprefix("test_"): of_junit(case) for case in cases}
    assert said.keys() == reports.keys() == junit.keys()
    assert {name.partition("[")[0] for name in said} == NAMES
    assert not [line for line in said.values() if not line.startswith("[AR-PROMPT] turn 1")]
    assert not [name for name, report in reports.items() if report.count("[AR-PROMPT]") != 1], done.stdout
    assert set(junit.values()) == {("AR-PROMPT", "1", "[AR-PROMPT] turn 1", 0)}
