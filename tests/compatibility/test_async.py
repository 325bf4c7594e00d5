"""pytest-asyncio and anyio: fixtures that cross, loops of every scope, both backends; ids as the plugins make them."""

import pytest

from tests.support.finished import ended

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


@pytest.mark.parametrize("way", WAYS)
def test_what_crosses_in_tests_and_fixtures_is_recorded_replays_and_a_divergence_is_told_once(shop, way):
    tests, plugin, ini, names = WAYS[way]
    project, ids = shop(tests, plugin, ini=ini), names.split()
    recorded = ended(project.record())
    assert recorded.stdout.count("test passed)") == 4
    assert {one.run.header.test.removeprefix("test_shop.py::") for one in project.snapshots} == {*ids}
    assert all(one.run.exchanges for one in project.snapshots)
    done = ended(project.offline())
    assert "replayed 4 tests" in done.stdout
    told, done = project.diverged("-k", "auto or module or session or body")
    assert told.keys() == {test for test in ids if "fixture" not in test}
    assert all(" [AR-PROMPT] turn 1/" in said for said in told.values())
    assert "never retrieved" not in done.stdout + done.stderr
    # One backend at a time: after a fixture of anyio was refused, its runner serves no other.
    for test in (test for test in ids if "fixture" in test):
        told, _ = project.diverged(f"test_shop.py::{test}")
        assert told.keys() == {test}
        assert told[test].startswith("ERROR [AR-PROMPT] turn 1/")
