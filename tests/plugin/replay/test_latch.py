"""The first divergence fails its test, whatever the agent does with the exception, and is all that people read."""

import re
from xml.etree import ElementTree as ET

import pytest

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

def test_plain(agentreplay):
    assert ask()

def test_except_exception(agentreplay):
    try:
        ask()
    except Exception:
        pass

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

def test_gather(agentreplay):
    async def all_of_them():
        return await asyncio.gather(*(aask(f"{n}?") for n in range(4)), return_exceptions=True)
    assert len(asyncio.run(all_of_them())) == 4

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
    results = await asyncio.gather(aask(), return_exceptions=True)
    assert len(results) == 1

@pytest.mark.asyncio
async def test_asyncio_plugin_timeout(agentreplay):
    async with asyncio.timeout(5):
        await asyncio.wait_for(aask(), 5)

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

NAMES = set(re.findall(r"^(?:async )?def test_(\w+)", TESTS, re.MULTILINE))
INI = "[pytest]\npythonpath = .\nasyncio_default_fixture_loop_scope = function\n"
NOISE = ("Traceback", "ExceptionGroup", "Warning", "exception was", "never retrieved", "Captured", "Exception ignored")


@pytest.fixture(scope="module")
def diverging(shared_project):
    """The suite recorded, and one word of the prompt changed."""
    project = shared_project()
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin", "xdist.plugin")
    project.write(
        agent=AGENT,
        test_latch=TESTS,
        conftest="import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'trio'\n",
    )
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    recorded = project.record()
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert len(project.files) == len(NAMES), recorded.stdout
    project.edit("agent.py", "Be brief.", "Be long.")
    return project


def wrong(report, failure, summary):
    """What is not as it should be in the report of a test, in JUnit's file and in the short summary."""
    properties = {one.get("name"): one.get("value") for one in failure.iter("property")}
    message = failure.find("failure").get("message")
    checks = {
        "junit's properties": (properties["agentreplay.code"], properties["agentreplay.turn"]) == ("AR-PROMPT", "1"),
        "junit's message": message.startswith("[AR-PROMPT] turn 1") and "\n" not in message,
        "said once": report.count("[AR-PROMPT]") == 1,
        "no noise": not [word for word in NOISE if word in report],
        "the summary": " - [AR-PROMPT] turn 1" in summary,
    }
    return [what for what, holds in checks.items() if not holds]


@pytest.mark.parametrize(
    ("words", "environ"),
    # The second one with warnings that are shown and not raised, as most people have them.
    [((), {}), (("-n", "2", "-W", "default"), {"CI": "1"})],
    ids=["here", "under xdist on CI"],
)
def test_the_first_divergence_is_the_verdict_and_all_that_is_said(diverging, words, environ):
    junit = diverging.root / "junit.xml"
    done = diverging.offline(f"--junitxml={junit}", *words, **environ)
    assert done.returncode == 1
    assert f"= {len(NAMES)} failed in " in done.stdout.splitlines()[-1]
    assert not [word for word in NOISE if word in done.stdout + done.stderr], done.stdout + done.stderr
    text, _, summary = done.stdout.partition("short test summary")
    parts = re.split(
        r"^_{3,} test_(\w+?)(?:\[trio\])? _{3,}$", text.partition("- agentreplay -")[0], flags=re.MULTILINE
    )
    reports = dict(zip(parts[1::2], parts[2::2], strict=True))
    lines = {m[2]: m[0] for m in re.finditer(r"^(FAILED) test_latch\.py::test_(\w+).*$", summary, re.MULTILINE)}
    cases = {
        case.get("name").removeprefix("test_").partition("[")[0]: case for case in ET.parse(junit).iter("testcase")
    }
    assert reports.keys() == lines.keys() == cases.keys() == NAMES
    found = {name: wrong(reports[name], cases[name], lines[name]) for name in NAMES}
    assert not any(found.values()), (found, done.stdout)
