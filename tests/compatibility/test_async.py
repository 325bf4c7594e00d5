"""pytest-asyncio and anyio: fixtures that cross, loops of every scope, both backends; ids as the plugins make them."""

import pytest

pytestmark = pytest.mark.env("main")

ASYNCIO = """
import asyncio
import pytest, pytest_asyncio, agent

async def ask(question):
    return await asyncio.to_thread(agent.answer, question)

@pytest_asyncio.fixture
async def greeted(agentreplay):
    yield await ask("Good morning?")
    await ask("Good night?")

@pytest_asyncio.fixture(loop_scope="module")
async def greeted_for_long(agentreplay):
    return await ask("Good day?")

async def test_auto(agentreplay):
    assert "refund" in await ask("Where is A-17?")

async def test_fixture(greeted):
    assert "refund" in greeted

@pytest.mark.asyncio(loop_scope="module")
async def test_module(greeted_for_long, agentreplay):
    assert await ask("one?")

@pytest.mark.agentreplay
@pytest.mark.asyncio(loop_scope="session")
async def test_session():
    await ask("Where is A-18?")
"""

ANYIO = """
import anyio, anyio.to_thread
import pytest, agent

pytestmark = pytest.mark.anyio

async def ask(question):
    return await anyio.to_thread.run_sync(agent.answer, question)

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.fixture
async def greeted(agentreplay):
    yield await ask("Good morning?")
    await ask("Good night?")

async def test_fixture(greeted):
    assert "refund" in greeted

@pytest.mark.agentreplay
async def test_body():
    assert await ask("one?")
"""

LOOPS = "asyncio_default_fixture_loop_scope = function\nasyncio_mode = auto\n"
WAYS = {
    "asyncio": (ASYNCIO, "pytest_asyncio.plugin", LOOPS, "test_auto test_fixture test_module test_session"),
    "anyio": (ANYIO, "anyio.pytest_plugin", "", "test_fixture[asyncio] test_fixture[trio] test_body[asyncio] test_body[trio]"),
}  # fmt: skip


@pytest.fixture(scope="module", params=WAYS)
def way(request, shop):
    tests, plugin, ini, ids = WAYS[request.param]
    project = shop(tests, plugin, ini=ini)
    return project, {*ids.split()}, project.record()


def test_what_crosses_in_tests_and_fixtures_is_recorded_and_replays(way):
    project, ids, recorded = way
    assert recorded.returncode == 0, recorded.stdout
    assert recorded.stdout.count("test passed)") == 4
    assert {one.run.header.test.removeprefix("test_shop.py::") for one in project.snapshots} == ids
    assert all(one.run.exchanges for one in project.snapshots)
    done = project.offline()
    assert done.returncode == 0, done.stdout
    assert "replayed 4 tests" in done.stdout


def test_a_divergence_is_told_once(way):
    project, ids, _ = way
    told, done = project.diverged("-k", "auto or module or session or body")
    assert told.keys() == {test for test in ids if "fixture" not in test}
    assert all(" [AR-PROMPT] turn 1/" in said for said in told.values())
    assert "never retrieved" not in done.stdout + done.stderr


def test_a_divergence_in_a_fixture_is_told_whatever_a_runner_makes_of_it(way):
    """One backend at a time: after a fixture of anyio was refused, its runner serves no other."""
    project, ids, _ = way
    for test in (test for test in ids if "fixture" in test):
        told, _ = project.diverged(f"test_shop.py::{test}")
        assert told.keys() == {test}
        assert told[test].startswith("ERROR [AR-PROMPT] turn 1/")
