"""A test replayed in other orders of its overlapping answers: a race is found, what is none stays green."""

import re

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

ORDERS = """
import asyncio, os, threading, time
import httpx2

CITIES = ["Rome", "Oslo", "Bern"]
PAUSES = {"Rome": 0.01, "Oslo": 0.03, "Bern": 0.05}

async def look(city):
    await asyncio.sleep(PAUSES[city])
    return f"warm in {city}"

async def book(city):
    return f"booked {city}"

async def fan_out(take, cities=CITIES):
    async def one(city):
        said = await look(city)
        result = take(city, said)
        if asyncio.iscoroutine(result):
            await result
    await asyncio.gather(*map(one, cities))

async def last_wins(cities=CITIES):
    memory = {}
    await fan_out(lambda city, said: memory.update(weather=said), cities)
    return memory["weather"]

async def each_its_own(cities=CITIES):
    memory = {}
    await fan_out(lambda city, said: memory.update({city: said}), cities)
    return [memory[city] for city in cities]

async def books_the_first():
    booked = []
    async def take(city, said):
        booked.append(city)
        if booked == [city]:
            await book(city)
    await fan_out(take)

async def books_unless_Bern_was_before_Rome():
    came = []
    await fan_out(lambda city, said: came.append(city))
    if came.index("Rome") < came.index("Bern"):
        await book("Rome")

async def ask(client, question):
    body = {"model": "m-1", "messages": [{"role": "user", "content": question}]}
    reply = await client.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body)
    return reply.json()["choices"][0]["message"]["content"]

async def sums_up_as_they_come():
    said = []
    async with httpx2.AsyncClient() as client:
        async def one(number):
            said.append(await ask(client, f"part {number}"))
        await asyncio.gather(one(1), one(2))
        return await ask(client, "Sum up: " + " ".join(said))

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

INI = """[pytest]
pythonpath = .
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
agentreplay_tools =
    orders.look = read
    orders.weigh = read
    orders.book
"""

TESTS = """
import unittest
import pytest, orders

EVERY = pytest.mark.agentreplay(orders=True)

@EVERY
async def test_last_wins():
    assert await orders.last_wins() == "warm in Bern"

@EVERY
async def test_each_its_own():
    assert await orders.each_its_own() == [f"warm in {city}" for city in orders.CITIES]

@EVERY
async def test_effects():
    await orders.books_unless_Bern_was_before_Rome()

@EVERY
async def test_requests():
    assert await orders.sums_up_as_they_come()

@EVERY
def test_threads():
    assert orders.last_thread_wins() == 2

@pytest.mark.agentreplay(orders=2)
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_several(count):
    assert len(await orders.each_its_own(orders.CITIES[:count])) == count

class TestClass:
    @EVERY
    async def test_inside(self, agentreplay):
        assert len(await orders.each_its_own()) == 3

@EVERY
async def test_nothing_overlaps():
    assert await orders.last_wins(["Rome"])

async def test_unmarked(agentreplay):
    assert await orders.last_wins() == "warm in Bern"
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    """The tests above, recorded once."""
    project = shared_project()
    project.plugins = (*project.plugins, "pytest_asyncio.plugin", "xdist.plugin")
    project.write(orders=ORDERS, test_orders=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = project.record("-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "order-" not in done.stdout
    assert done.stdout.count("   replays\n") == 11, done.stdout
    return project


def outcomes(done):
    """What became of each item, by its name."""
    return dict(
        re.findall(r"(?m)^(?:\[gw\d\].*?)?(?:test_orders\.py::)(\S+) (PASSED|FAILED|SKIPPED)", done.stdout)
    ) or {name: word for word, name in re.findall(r"(?m)(PASSED|FAILED|SKIPPED) test_orders\.py::(\S+)", done.stdout)}


def test_a_race_is_found_in_the_first_order_that_shows_it(recorded):
    done = recorded.offline("-v", "-k", "last_wins or threads or requests")
    assert done.returncode == 1, done.stdout
    assert outcomes(done) == {
        "test_last_wins": "PASSED",
        "test_last_wins[order-1]": "PASSED",
        "test_last_wins[order-2]": "FAILED",
        "test_last_wins[order-3]": "SKIPPED",
        "test_last_wins[order-4]": "SKIPPED",
        "test_last_wins[order-5]": "SKIPPED",
        "test_requests": "PASSED",
        "test_requests[order-1]": "FAILED",
        "test_threads": "PASSED",
        "test_threads[order-1]": "FAILED",
    }
    assert "[AR-RACE] the test fails when tool look of lane main.3 is answered before that" in done.stdout
    assert "now       failed (AssertionError: assert 1 == 2)" in done.stdout
    assert re.search(
        r"\[AR-RACE\] model m-1: user text [^\[]+\[0\][^\[]+ when model m-1 of lane\s+main\.\d", done.stdout
    )
    assert "order-2 has found a race: that comes first" in recorded.offline("-rs", "-k", "last_wins").stdout


def test_the_order_that_showed_it_is_run_again_by_its_name(recorded):
    name = "test_orders.py::test_last_wins[order-4]"
    done = recorded.offline(name)
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert re.search(rf'this order again: +pytest "{re.escape(name)}"', done.stdout)


def test_side_effects_that_change_while_the_outcome_does_not_are_a_race_two_swaps_away(recorded):
    done = recorded.offline("-v", "-k", "effects")
    assert outcomes(done)["test_effects[order-2]"] == "PASSED"
    assert outcomes(done)["test_effects[order-3]"] == "FAILED"
    assert "[AR-RACE] tool book is not called any more when tool look of lane main.2" in done.stdout
    assert '    recorded  tool book {"city":"Rome"}\n    now       (not made)\n' in done.stdout


def test_what_has_no_race_is_green_in_all_orders(recorded):
    done = recorded.offline("-v", "-k", "each_its_own or several or inside or nothing or unmarked")
    assert done.returncode == 0, done.stdout
    there = set(outcomes(done))
    assert there == {
        "test_each_its_own",
        *(f"test_each_its_own[order-{n}]" for n in range(1, 6)),
        *("test_several[1]", "test_several[2]", "test_several[2-order-1]"),
        *("test_several[3]", "test_several[3-order-1]", "test_several[3-order-2]"),
        "TestClass::test_inside",
        *(f"TestClass::test_inside[order-{n}]" for n in range(1, 6)),
        "test_nothing_overlaps",
        "test_unmarked",
    }
    assert "unused" not in done.stdout


def test_orders_are_chosen_by_k_and_spread_by_xdist(recorded):
    assert list(outcomes(recorded.offline("-v", "-k", "own and order-3"))) == ["test_each_its_own[order-3]"]
    done = recorded.offline("-v", "-n", "2", "-k", "each_its_own or several")
    assert done.returncode == 0, done.stdout
    assert "12 passed" in done.stdout


def test_no_order_is_tried_of_a_test_that_does_not_replay(recorded):
    recorded.edit("orders.py", "part {number}", "portion {number}")
    try:
        done = recorded.offline("-rs", "-k", "requests")
    finally:
        recorded.edit("orders.py", "portion {number}", "part {number}")
    assert "1 failed, 1 skipped" in done.stdout
    assert "it does not replay in its recorded order: that comes first" in done.stdout


def test_what_fails_alike_in_all_orders_is_told_once(recorded):
    recorded.edit("orders.py", "return [memory[city] for", "return [memory.get(city, 0) + 1 for")
    try:
        done = recorded.offline("-k", "each_its_own")
    finally:
        recorded.edit("orders.py", "return [memory.get(city, 0) + 1 for", "return [memory[city] for")
    assert "1 failed, 5 passed" in done.stdout


def test_nothing_is_written_and_a_full_run_calls_no_snapshot_unused(recorded):
    before = {file: file.read_bytes() for file in recorded.files}
    done = recorded.offline()
    assert done.returncode == 1
    assert "unused" not in done.stdout
    assert {file: file.read_bytes() for file in recorded.files} == before


def test_recording_and_running_live_collect_the_plain_tests(recorded):
    for words in (["--snapshot-record", "--collect-only"], ["--replay=off", "--collect-only"]):
        assert "order-" not in recorded.run(*words, "-q").stdout


# Others


def furnish(project, tests, plugins=("pytest_asyncio.plugin",), ini=""):
    project.plugins = ("pytest_agentreplay.plugin", "no:cacheprovider", *plugins)
    project.write(orders=ORDERS, test_shop=tests)
    (project.root / "pytest.ini").write_text(INI + ini, encoding="utf-8")


def test_a_failure_that_is_recorded_is_no_change_and_a_pass_is(project):
    furnish(
        project,
        """
import pytest, orders

@pytest.mark.agentreplay(orders=True)
async def test_fails():
    assert await orders.each_its_own(orders.CITIES[:2]) == []

@pytest.mark.agentreplay(orders=True)
async def test_passes_elsewhere():
    assert await orders.last_wins(orders.CITIES[:2]) == "warm in Rome"
""",
    )
    assert project.record().returncode == 1
    done = project.offline("-rf")
    assert "3 failed, 1 passed" in done.stdout
    assert "[AR-RACE] the test passes when" in done.stdout


def test_anyio_on_trio_too(project):
    pytest.importorskip("trio")
    furnish(
        project,
        """
import anyio, pytest, orders

@pytest.mark.anyio
@pytest.mark.agentreplay(orders=True)
async def test_last(anyio_backend):
    memory = {}
    async def one(city):
        memory["weather"] = await orders.look(city)
    async with anyio.create_task_group() as group:
        for city in orders.CITIES[:2]:
            group.start_soon(one, city)
    assert memory["weather"] == "warm in Oslo"
""",
        plugins=("anyio.pytest_plugin",),
    )
    ini = project.root / "pytest.ini"
    ini.write_text("\n".join(row for row in INI.splitlines() if "asyncio" not in row), encoding="utf-8")
    project.edit(
        "orders.py", "    await asyncio.sleep(PAUSES[city])", "    import anyio; await anyio.sleep(PAUSES[city])"
    )
    recorded = project.record()
    assert recorded.returncode == 0, recorded.stdout
    done = project.offline("-rA")
    assert re.findall(r"(?m)^(PASSED|FAILED) test_shop\.py::test_last(\S*)", done.stdout) == [
        ("PASSED", "[asyncio]"),
        ("PASSED", "[trio]"),
        ("FAILED", "[asyncio-order-1]"),
        ("FAILED", "[trio-order-1]"),
    ]


def test_the_transcript_of_the_run_is_that_of_the_plain_test(project):
    furnish(
        project,
        """
import pytest, orders

@pytest.mark.agentreplay(orders=True)
async def test_transcript(agentreplay, agent_snapshot):
    await orders.each_its_own(orders.CITIES[:2])
    assert agentreplay.run == agent_snapshot
""",
        plugins=("pytest_asyncio.plugin", "syrupy"),
    )
    assert project.record().returncode == 0
    done = project.offline()
    assert "2 passed" in done.stdout, done.stdout


def test_methods_of_a_testcase_have_no_orders_and_say_so(project):
    furnish(
        project,
        """
import unittest
import pytest, orders

class TestCase(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.agentreplay(orders=True)
    async def test_it(self):
        await orders.each_its_own()
""",
        plugins=(),
    )
    (project.root / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nagentreplay_tools = orders.look\n", encoding="utf-8"
    )
    done = project.record()
    assert done.returncode == 1
    assert "orders=...) is not there for methods of unittest.TestCase" in done.stdout


@pytest.mark.parametrize("value", ["'many'", "-1", "1.5", "None"])
def test_a_limit_that_is_no_whole_number_is_said(project, value):
    furnish(project, f"import pytest\n@pytest.mark.agentreplay(orders={value})\ndef test_it(): pass\n")
    done = project.replay()
    assert done.returncode == 1
    assert "@pytest.mark.agentreplay(orders=...) takes how many orders to try, like 120, or True" in done.stdout
