"""The first divergence fails its test, whatever the agent does with the exception, and is all that people read."""

import re
from xml.etree import ElementTree as ET

import pytest

AGENT = """
import asyncio, os, queue, threading
from concurrent.futures import ThreadPoolExecutor
import httpx2, openai, trio

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

def swallowing(times=1, kind=Exception):
    for _ in range(times):
        try:
            return ask()
        except kind:
            pass
    return "sorry"
"""

TESTS = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
import openai, pytest, trio
import agent
from agent import URL, aask, ask, body, swallowing

def test_plain(agentreplay):
    assert ask()

def test_except_exception(agentreplay):
    swallowing()

def test_bare_except(agentreplay):
    try:
        ask()
    except:
        pass

def test_hand_written_retries(agentreplay):
    swallowing(5)

def test_retries_of_everything(agentreplay):
    swallowing(5, BaseException)

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

def test_gather_that_raises(agentreplay):
    async def all_of_them():
        return await asyncio.gather(*(aask(f"{n}?") for n in range(4)))
    asyncio.run(all_of_them())

def test_task_group(agentreplay):
    async def all_of_them():
        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(aask(f"{n}?"))
    asyncio.run(all_of_them())

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
async def test_asyncio_plugin(agentreplay):
    await aask()

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

def test_thread(agentreplay):
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()

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

def test_executor_map(agentreplay):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(ask, ["a?", "b?"]))

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

def test_trio_thread(agentreplay):
    async def run():
        try:
            await trio.to_thread.run_sync(ask)
        except BaseException:
            pass
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

NAMES = re.findall(r"^(?:async )?def (test_\w+)", TESTS, re.MULTILINE)
INI = "[pytest]\npythonpath = .\nasyncio_default_fixture_loop_scope = function\n"
NOISE = ("Traceback", "ExceptionGroup", "Warning", "exception was", "never retrieved", "Captured", "Exception ignored")


class Outcome:
    """What one run of pytest said, and its verdict on each test by name."""

    def __init__(self, done, junit):
        self.done = done
        self.stdout = done.stdout
        self.cases = {case.get("name").partition("[")[0]: case for case in ET.parse(junit).iter("testcase")}
        parts = re.split(r"^_{3,} (\S+) _{3,}$", done.stdout.partition("short test summary")[0], flags=re.MULTILINE)
        self.sections = dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def diverging(shared_project):
    """The suite recorded, and one word of the prompt changed."""
    project = shared_project()
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin", "xdist.plugin")
    project.write(agent=AGENT, test_latch=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    (project.root / "conftest.py").write_text(
        "import pytest\n@pytest.fixture\ndef anyio_backend():\n    return 'trio'\n", encoding="utf-8"
    )
    recorded = project.record()
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert recorded.stdout.count("replays") == len(NAMES), recorded.stdout
    project.edit("agent.py", "Be brief.", "Be long.")
    return project


@pytest.fixture(scope="module", params=["here", "under xdist on CI"])
def latched(diverging, request):
    junit, hits = diverging.root / "junit.xml", diverging.server.hits
    # The second one with warnings that are shown and not raised, as most people have them.
    way = {} if request.param == "here" else {"CI": "1"}
    words = () if request.param == "here" else ("-n", "2", "-W", "default")
    done = diverging.replay(f"--junitxml={junit}", *words, **way)
    assert diverging.server.hits == hits
    return Outcome(done, junit)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_divergence_is_the_verdict_and_all_that_is_said(latched, name):
    case = latched.cases[name]
    properties, failure = case
    told = {one.get("name"): one.get("value") for one in properties}
    assert (properties.tag, failure.tag) == ("properties", "failure")
    assert told["agentreplay.code"] == "AR-PROMPT"
    assert told["agentreplay.turn"] == "1"
    assert failure.get("message").startswith("[AR-PROMPT] turn 1")
    assert "\n" not in failure.get("message")
    (section,) = [text for title, text in latched.sections.items() if title.partition("[")[0] == name]
    section = section.partition("- agentreplay -")[0]  # the footer is below the last report
    assert section.count("[AR-PROMPT]") == 1
    assert not [word for word in NOISE if word in section], section
    (line,) = re.findall(rf"^FAILED test_latch\.py::{name}\b.*$", latched.stdout, re.MULTILINE)
    assert " - [AR-PROMPT] turn 1" in line


def test_nothing_else_is_said_at_all(latched):
    assert latched.done.returncode == 1
    assert f"= {len(NAMES)} failed in " in latched.stdout.splitlines()[-1]
    assert not [word for word in NOISE if word in latched.stdout + latched.done.stderr]


LATE = """
import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
import pytest
import agent

POOL = ThreadPoolExecutor(1)
go = threading.Event()

def straggle(wait):
    wait()
    agent.ask("late?")

def test_soon(agentreplay):
    agent.ask("soon?")
    threading.Thread(target=straggle, args=(lambda: time.sleep(0.01),), daemon=True).start()

def test_soon_in_a_pool(agentreplay):
    agent.ask("soon?")
    POOL.submit(straggle, lambda: time.sleep(0.01))

def test_soon_in_teardown(agentreplay, joined):
    joined.append(threading.Thread(target=straggle, args=(lambda: time.sleep(0.1),), daemon=True))
    joined[0].start()

@pytest.fixture
def joined():
    threads = []
    yield threads
    threads[0].join()

def test_thread(agentreplay):
    agent.ask("one?")
    threading.Thread(target=straggle, args=(go.wait,), name="straggler", daemon=True).start()

@pytest.mark.asyncio(loop_scope="module")
async def test_task(agentreplay):
    await agent.aask("one?")
    async def drop():
        while not go.is_set():
            await asyncio.sleep(0.01)
        await agent.aask("late?")
    test_task.kept = asyncio.create_task(drop())

def test_job(agentreplay):
    agent.ask("one?")
    POOL.submit(straggle, go.wait)

@pytest.mark.asyncio(loop_scope="module")
async def test_other(agentreplay):
    go.set()
    await asyncio.sleep(0.2)
    next((t.join() for t in threading.enumerate() if t.name == "straggler"), None)
    POOL.shutdown()
    assert await agent.aask("two?")

def test_none():
    pass
"""


@pytest.fixture(scope="module")
def late(shared_project):
    project = shared_project()
    project.plugins += ("pytest_asyncio.plugin", "xdist.plugin")
    project.write(agent=AGENT, test_late=LATE)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    return project


def by_name(project):
    return {snapshot.run.header.test.partition("::")[2]: snapshot.run for snapshot in project.snapshots}


STRAGGLERS = ("test_thread", "test_task", "test_job")


def check_late(done, names=STRAGGLERS):
    assert done.returncode == 1, done.stdout + done.stderr
    for name in names:
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"[AR-LATE] test_late.py::{name}: ")]
        assert "/v1/chat/completions   called from agent.py:" in line
    assert not [word for word in NOISE if word in done.stdout + done.stderr]


def test_a_straggler_is_refused_told_on_its_own_test_and_never_recorded(late):
    recorded = late.record("-k", "not soon", "--agentreplay-no-prove")
    check_late(recorded)
    assert "5 passed" in recorded.stdout
    runs = by_name(late)
    assert set(runs) == {"test_thread", "test_task", "test_job", "test_other"}
    asked = {name: [x.call.body.data for x in run.exchanges] for name, run in runs.items()}
    assert all(len(bodies) == 1 for bodies in asked.values())
    assert b"two?" in asked["test_other"][0]
    hits = late.server.hits
    check_late(late.replay("-k", "not soon"))
    check_late(late.replay("-k", "not soon", "-n", "1", CI="1"))
    assert late.server.hits == hits == 4


def test_a_straggler_that_comes_at_once_fails_its_own_test(late):
    recorded = late.record("-k", "soon", "--agentreplay-no-prove")
    replayed = late.replay("-k", "soon")
    for done in (recorded, replayed):
        assert done.returncode == 1
        # It fails the body or, on a slow machine, its teardown; on a very slow one it is told at the session's end.
        summary = done.stdout.partition("short test summary")[2]
        told = re.findall(r"^(?:FAILED|ERROR) test_late\.py::(\w+) - \[AR-LATE\] 1 call after", summary, re.MULTILINE)
        told += re.findall(r"^\[AR-LATE\] test_late\.py::(\w+): ", done.stdout, re.MULTILINE)
        assert sorted(told) == ["test_soon", "test_soon_in_a_pool", "test_soon_in_teardown"], done.stdout
        assert not [word for word in NOISE if word in done.stdout + done.stderr]


BETWEEN = """
import threading
import agent

go = threading.Event()

def straggle():
    go.wait()
    agent.ask("late?")

def test_between(agentreplay):
    agent.ask("soon?")
    test_between.thread = threading.Thread(target=straggle, daemon=True)
    test_between.thread.start()
"""

MAKES_REPORT = """
def pytest_runtest_makereport(item, call):
    if call.when == "teardown" and item.name == "test_between":
        item.module.go.set()
        item.function.thread.join()
"""


def test_a_straggler_between_the_last_check_and_the_report_fails_the_session(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_late=BETWEEN, conftest=MAKES_REPORT)
    for done in (project.record("--agentreplay-no-prove"), project.replay()):
        assert done.returncode == 1, done.stdout
        assert "1 passed" in done.stdout
        (line,) = re.findall(r"^\[AR-LATE\] test_late\.py::test_between: .*$", done.stdout, re.MULTILINE)
        assert "/v1/chat/completions   called from agent.py:" in line
