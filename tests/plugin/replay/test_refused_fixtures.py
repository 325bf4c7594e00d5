"""A test that is refused in a fixture, or while one is torn down, leaves its neighbours alone."""

import re

import pytest

from tests.support.exhaustive import rare
from tests.support.small_projects import furnished, recorded, summary

AGENT = """
import os
import httpx2

PROMPT = "Be brief."

def ask(question):
    httpx2.post(os.environ["MODEL_URL"] + "/v1/x", json={"system": PROMPT, "question": question})

async def aask(question):
    async with httpx2.AsyncClient() as client:
        await client.post(os.environ["MODEL_URL"] + "/v1/x", json={"system": PROMPT, "question": question})
"""

SYNC = """
import asyncio, sys, unittest
import agent, pytest

DOWN = []

@pytest.fixture
def tidy():
    yield
    DOWN.append("tidy")

@pytest.fixture
def maybe(request, tidy):
    if request.node.get_closest_marker("agentreplay"):
        request.getfixturevalue("agentreplay")
        agent.ask("set-up?")
    yield "ready"
    DOWN.append("maybe")

@pytest.fixture
def grouped(request, tidy):
    async def ask():
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.aask("grouped?"))
    if request.node.get_closest_marker("agentreplay"):
        asyncio.run(ask())
    yield "ready"

@pytest.fixture
def leaving(request, tidy):
    if request.node.get_closest_marker("agentreplay"):
        try:
            agent.ask("leave?")
        except BaseException:
            sys.exit(3)
    yield "ready"

@pytest.fixture
def closing(request, tidy):
    yield "ready"
    if request.node.get_closest_marker("agentreplay"):
        agent.ask("teardown?")

@pytest.fixture
def finalized(request, tidy):
    if request.node.get_closest_marker("agentreplay"):
        request.addfinalizer(lambda: agent.ask("finalizer?"))
    return "ready"

FIXTURES = ["maybe", "grouped", "leaving", "closing", "finalized"]

@pytest.mark.agentreplay
@pytest.mark.parametrize("name", FIXTURES)
def test_frozen(name, request):
    del DOWN[:]
    request.getfixturevalue(name)

@pytest.mark.parametrize("name", FIXTURES)
def test_neighbour(name, request):
    assert DOWN[-1:] in ([], ["tidy"])
    assert request.getfixturevalue(name) == "ready"

@pytest.mark.agentreplay
def test_maybe(maybe):
    pass

def test_after_maybe(maybe):
    assert maybe == "ready"

@pytest.mark.agentreplay
class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        await agent.aask("async set-up?")

    async def asyncTearDown(self):
        DOWN.append("case")

    async def test_case(self):
        pass

class TestAfterAsync(unittest.IsolatedAsyncioTestCase):
    async def test_after(self):
        pass
"""

ASYNC = """
import asyncio
import agent, anyio, pytest

pytestmark = pytest.mark.anyio
DOWN = []

@pytest.fixture(scope="module", params=BACKENDS)
def anyio_backend(request):
    return request.param

@pytest.fixture
async def tidy():
    yield "tidy"
    DOWN.append("tidy")

@pytest.fixture(scope="module")
async def shared():
    yield "shared"

@pytest.fixture
async def asking(tidy, agentreplay):
    await agent.aask("set-up?")
    yield

@pytest.fixture
async def grouped(tidy, agentreplay):
    async with anyio.create_task_group() as group:
        group.start_soon(agent.aask, "grouped?")
    yield

@pytest.fixture
async def closing(tidy, agentreplay):
    yield
    async with anyio.create_task_group() as group:
        group.start_soon(agent.aask, "teardown?")

async def test_body(agentreplay, tidy, shared):
    await agent.aask("body?")

async def test_group(agentreplay, tidy, shared):
    async with anyio.create_task_group() as group:
        group.start_soon(agent.aask, "group?")

async def test_asking(asking, shared):
    pass

async def test_grouped(grouped, shared):
    pass

async def test_closing(closing, shared):
    pass

async def test_neighbour(tidy, shared):
    assert len(DOWN) == 5, "each is torn down"
"""


def refused(project, tests, ini=""):
    """Record `tests`, change the agent, replay: the tests that were refused, and the process."""
    recorded(furnished(project, ini, agent=AGENT, test_shop=tests))
    project.edit("agent.py", "Be brief.", "Be short.")
    done = project.offline(COLUMNS="200")
    told = summary(done)
    assert {said.partition("]")[0] for said in told.values()} == {"[AR-REQUEST"}, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    return {*told}, done


def test_a_test_that_uses_the_fixture_next_is_as_it_was(shared_project):
    names, done = refused(shared_project(), SYNC)
    frozen = {f"frozen[{name}]" for name in ("closing", "finalized", "grouped", "leaving", "maybe")}
    assert names == {*frozen, "maybe", "TestAsync::test_case"}
    assert "9 passed" in done.stdout, done.stdout


def for_runner(mark):
    """The tests, for a runner that has no backends to choose from and no wider loop."""
    tests = re.sub(r"@pytest.fixture\(scope=\"module\", params.*?return request.param\n", "", ASYNC, flags=re.DOTALL)
    return tests.replace("mark.anyio", f"mark.{mark}").replace('(scope="module")', "")


AUTO = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
RUNNERS = {
    "anyio on asyncio": ("anyio.pytest_plugin", ASYNC.replace("BACKENDS", "['asyncio']"), ""),
    "anyio on trio": ("anyio.pytest_plugin", ASYNC.replace("BACKENDS", "['trio']"), ""),
    "pytest-asyncio": ("pytest_asyncio.plugin", for_runner("asyncio"), AUTO),
    "pytest-trio": ("pytest_trio.plugin", for_runner("trio"), "trio_mode = true\n"),
}


@pytest.mark.parametrize("runner", ["anyio on trio", "pytest-asyncio", "pytest-trio", *rare("anyio on asyncio")])
def test_runners_of_async_tests_keep_their_runner(shared_project, runner):
    plugin, tests, ini = RUNNERS[runner]
    pytest.importorskip(plugin.partition(".")[0])
    project = shared_project()
    project.plugins += (plugin,)
    names, done = refused(project, tests, ini)
    assert {name.partition("[")[0] for name in names} == {"asking", "body", "closing", "group", "grouped"}
    expected = 1 if runner == "pytest-trio" else 2  # it sets fixtures up and tears them down within the test's body
    assert f"{expected} passed" in done.stdout, done.stdout
