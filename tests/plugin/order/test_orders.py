"""A test replayed in other orders of its overlapping answers: a race is found, what is none stays green."""

import re

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded, summary

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

ORDERS = """
import asyncio, threading, time

CITIES = ["Rome", "Oslo", "Bern"]
PAUSES = {"Rome": 0.01, "Oslo": 0.1, "Bern": 0.2}

async def look(city):
    await asyncio.sleep(PAUSES[city])
    return f"warm in {city}"

async def fan_out(take, cities=CITIES):
    async def one(city):
        take(city, await look(city))
    await asyncio.gather(*map(one, cities))

async def last_wins(cities=CITIES):
    memory = {}
    await fan_out(lambda city, said: memory.update(weather=said), cities)
    return memory["weather"]

async def each_its_own(cities=CITIES):
    memory = {}
    await fan_out(lambda city, said: memory.update({city: said}), cities)
    return [memory[city] for city in cities]

BOTH, FIRST = threading.Event(), threading.Event()

def weigh(city):
    if city == "Rome":
        BOTH.wait(30)
        FIRST.set()
        return 1
    BOTH.set()
    FIRST.wait(30)
    time.sleep(0.2)
    return 2

def last_thread_wins():
    memory = {}
    threads = [threading.Thread(target=lambda city=city: memory.update(last=weigh(city))) for city in CITIES[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return memory["last"]
"""

TOOLS = """agentreplay_tools =
    orders.look = read
    orders.weigh = read
"""
INI = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n" + TOOLS

TESTS = """
import pytest, orders

EVERY = pytest.mark.agentreplay(permutations=True)

@EVERY
async def test_last_wins():
    assert await orders.last_wins() == "warm in Bern"

@EVERY
async def test_each_its_own():
    assert await orders.each_its_own() == [f"warm in {city}" for city in orders.CITIES]

@EVERY
def test_threads():
    assert orders.last_thread_wins() == 2

@pytest.mark.agentreplay(permutations=2)
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_several(count):
    assert len(await orders.each_its_own(orders.CITIES[:count])) == count

class TestClass:
    @EVERY
    async def test_inside(self, agentreplay):
        assert len(await orders.each_its_own()) == 3

async def test_unmarked(agentreplay):
    assert await orders.last_wins() == "warm in Bern"
"""


@pytest.fixture(scope="module")
def orders(shared_project):
    """The tests above, recorded once."""
    project = shared_project()
    project.plugins += ("pytest_asyncio.plugin", "xdist.plugin")
    furnished(project, INI, orders=ORDERS, test_orders=TESTS)
    assert "order-" not in recorded(project, "-v").recording.stdout
    return project


def outcomes(done):
    """What became of each item, by its name without `test_`."""
    return dict(
        re.findall(r"(?m)^(?:\[gw\d\].*?)?test_orders\.py::(?:test_)?(\S+) (PASSED|FAILED|SKIPPED)", done.stdout)
    )


@pytest.fixture(scope="module")
def whole(orders):
    """A full replay, which writes nothing."""
    before = {file: file.read_bytes() for file in orders.files}
    done = orders.offline("-v", "-rs")
    assert {file: file.read_bytes() for file in orders.files} == before
    return done


RACY = {
    "last_wins": "PASSED",
    "last_wins[order-1]": "PASSED",
    "last_wins[order-2]": "FAILED",
    **{f"last_wins[order-{number}]": "SKIPPED" for number in (3, 4, 5)},
    "threads": "PASSED",
    "threads[order-1]": "FAILED",
}
GREEN = {
    *("each_its_own", "TestClass::test_inside", "unmarked", "several[1]", "several[2]", "several[3]"),
    *(f"{name}[order-{number}]" for name in ("each_its_own", "TestClass::test_inside") for number in range(1, 6)),
    *("several[2-order-1]", "several[3-order-1]", "several[3-order-2]"),
}


def test_a_race_is_found_in_the_first_order_that_shows_it_and_what_has_none_is_green(whole):
    assert outcomes(whole) == RACY | dict.fromkeys(GREEN, "PASSED")
    assert "[AR-RACE] the test fails when tool look of lane main.3 is answered before that" in whole.stdout
    assert "now       failed (AssertionError: assert 1 == 2)" in whole.stdout
    assert "order-2 has found a race: that comes first" in whole.stdout
    assert "unused" not in whole.stdout


def test_an_order_is_run_again_by_its_name(orders):
    name = "test_orders.py::test_last_wins[order-4]"
    done = orders.offline(name)
    assert "1 failed" in done.stdout
    assert re.search(rf'this order again: +pytest "{re.escape(name)}"', done.stdout)


def test_the_workers_of_xdist_share_the_orders(orders):
    done = passed(orders.offline("-v", "-n", "2", "-k", "each_its_own or several or Class or unmarked"))
    assert set(re.findall(r"PASSED test_orders\.py::(?:test_)?(\S+)", done.stdout)) == GREEN


def test_no_order_is_tried_of_a_test_that_does_not_replay_and_what_fails_in_all_is_told_once(orders):
    last = "    await fan_out(lambda city, said: memory.update(weather=said), cities)"
    other = edited(orders, "orders.py", last, f'    await look("Bern")\n{last}')
    with other, edited(orders, "orders.py", "return [memory[city] for", "return [memory.get(city, 0) + 1 for"):
        done = orders.offline("-rs", "-k", "last_wins or each_its_own")
    assert "2 failed, 5 passed, 5 skipped" in done.stdout
    assert "it does not replay in its recorded order: that comes first" in done.stdout


def test_running_live_collects_the_plain_tests_as_recording_does(orders):
    collected = orders.run("--replay=off", "--collect-only", "-q").stdout
    assert "test_last_wins" in collected
    assert "order-" not in collected


OTHERS = """
import pytest, orders

TWO = orders.CITIES[:2]

@pytest.mark.agentreplay(permutations=True)
async def test_fails():
    assert await orders.each_its_own(TWO) == []

@pytest.mark.agentreplay(permutations=True)
async def test_passes_elsewhere():
    assert await orders.last_wins(TWO) == "warm in Rome"

@pytest.mark.agentreplay(permutations=True)
async def test_transcript(agentreplay, agent_snapshot):
    await orders.each_its_own(TWO)
    assert agentreplay.run == agent_snapshot
"""


def test_a_failure_that_is_recorded_is_no_change_but_a_pass_is_and_the_transcript_is_that_of_the_plain_test(project):
    project.plugins += ("pytest_asyncio.plugin", "syrupy")
    furnished(project, INI, orders=ORDERS, test_shop=OTHERS)
    assert project.record().returncode == 1
    done = project.offline("-rf")
    assert summary(done).keys() == {"fails", "passes_elsewhere", "passes_elsewhere[order-1]"}
    assert "[AR-RACE] the test passes when" in done.stdout


ANYIO = """
import anyio, pytest, orders

@pytest.mark.anyio
@pytest.mark.agentreplay(permutations=True)
async def test_last(anyio_backend):
    memory = {}
    async def one(city):
        memory["weather"] = await orders.look(city)
    async with anyio.create_task_group() as group:
        for city in orders.CITIES[:2]:
            group.start_soon(one, city)
    assert memory["weather"] == "warm in Oslo"
"""


def test_anyio_on_trio_too(project):
    project.plugins += ("anyio.pytest_plugin",)
    sleeps = "    import anyio; await anyio.sleep("
    furnished(project, TOOLS, orders=ORDERS.replace("    await asyncio.sleep(", sleeps), test_shop=ANYIO)
    recorded(project)
    assert summary(project.offline()).keys() == {"last[asyncio-order-1]", "last[trio-order-1]"}


REFUSED = """
import unittest
import pytest, orders

class TestCase(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.agentreplay(permutations=True)
    async def test_it(self):
        await orders.each_its_own()

""" + "\n".join(
    f"@pytest.mark.agentreplay(permutations={value})\ndef test_{name}(): pass\n"
    for name, value in {"many": "'many'", "negative": "-1", "fraction": "1.5", "none": "None"}.items()
)


def test_a_method_of_a_testcase_has_no_orders_and_a_limit_is_a_whole_number(project):
    furnished(project, TOOLS, orders=ORDERS, test_shop=REFUSED)
    done = project.record()
    assert "permutations=...) is not there for methods of unittest.TestCase" in done.stdout
    limit = "@pytest.mark.agentreplay(permutations=...) takes how many orders to try, like 120, or True"
    assert [value for value in ("'many'", "-1", "1.5", "None") if f"\n{limit}, not {value}\n" not in done.stdout] == []
