"""`agentreplay check fuzz --orders`: what it says, and how it ends."""

import re

import pytest

from pytest_agentreplay.cli.verbs import Exit
from tests.support.finished import ended
from tests.support.small_projects import edited

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import asyncio

async def look(city):
    await asyncio.sleep({"Rome": 0.01, "Oslo": 0.03, "Bern": 0.05}.get(city, 0.07))
    return f"warm in {city}"

async def book(city):
    return f"booked {city}"

async def weather(cities):
    memory = {}
    async def one(city):
        memory["last"] = memory[city] = await look(city)
    await asyncio.gather(*map(one, cities))
    return memory

def stamp(city):
    return f"stamped {city}"

async def stamps():
    async def one():
        return stamp("Rome")
    await asyncio.gather(look("Rome"), one())

async def trip(cities):
    came = []
    async def one(city):
        await look(city)
        came.append(city)
    await asyncio.gather(*map(one, cities))
    if came.index("Rome") < came.index("Bern"):
        await book("Rome")
"""

TESTS = """
import asyncio, unittest
import pytest, agent

CITIES = ["Rome", "Oslo", "Bern"]

def test_last(agentreplay):
    assert asyncio.run(agent.weather(CITIES))["last"] == "warm in Bern"

@pytest.mark.parametrize("cities", [CITIES, CITIES[:1], [*CITIES, "Wien", "Genf", "Kiev"]], ids=["three", "one", "six"])
def test_fine(agentreplay, cities):
    memory = asyncio.run(agent.weather(cities))
    assert [memory[city] for city in cities] == [f"warm in {city}" for city in cities]

def test_trip(agentreplay):
    asyncio.run(agent.trip(CITIES))

def test_stamps(agentreplay):
    asyncio.run(agent.stamps())

class TestCase(unittest.TestCase):
    @pytest.mark.agentreplay
    def test_case(self):
        asyncio.run(agent.weather(CITIES))
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools =
    agent.look = read
    agent.book
    agent.stamp
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    project = shared_project()
    project.write(agent=AGENT, test_shop=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    ended(project.record())
    return project


def snapshot(project, name):
    (file,) = (file for file in project.files if name.lower() in file.name)
    return file.relative_to(project.root)


@pytest.fixture
def orders(recorded):
    """Gives what `agentreplay check fuzz --orders` printed on its two ends for a snapshot, having ended with `code`."""

    def run(name, *words, code=Exit.SAME):
        done = recorded.command("check", "fuzz", "--orders", snapshot(recorded, name), *words)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout, done.stderr

    return run


LAST = """\
[AR-RACE] the test fails when tool look of lane main.3 is answered before that
  of lane main.2

  the end of the test
    recorded  passed
    now       failed (AssertionError: assert 'warm in Oslo' == 'warm in Bern')

  now first     tool look {"city":"Bern"} (before turn 1, lane main.3)
  now second    tool look {"city":"Oslo"} (before turn 1, lane main.2)
  likely cause  both were waited for at once, and what your code does depends on
                which answer comes first
  snapshot      __agent_snapshots__/test_shop/test_last.snapshot.json, order 2
                of 5

  this order again:
    agentreplay check fuzz __agent_snapshots__/test_shop/test_last.snapshot.json --order 2
"""


def test_the_first_order_that_changes_something_is_told_and_can_be_run_again(orders, recorded):
    assert (
        orders("test_last", code=Exit.DIVERGED) == orders("test_last", "--order", "2", code=Exit.DIVERGED) == (LAST, "")
    )
    assert orders("test_last", "--order", "1")[0].startswith("same under 1 of 5 other orders of its answers: ")
    said, complaint = orders("test_trip", code=Exit.DIVERGED)
    assert (len(said.splitlines()) <= 24, complaint) == (True, "")
    flat = " ".join(said.split())
    assert (
        "tool book is not called any more when tool look of lane main.2 is answered before that of lane main.1" in flat
    )
    assert 'side effects recorded tool book {"city":"Rome"} now (not made)' in flat
    assert flat.count("now first") == 2
    file = snapshot(recorded, "test_last")
    said, _ = orders("test_last", "--budget", "3", "--seed", "5", code=Exit.DIVERGED)
    assert said.endswith(f"agentreplay check fuzz {file} --budget 3 --seed 5 --order 2\n"), "a drawn one names both"


def test_what_has_no_race_is_the_same_under_all_orders_or_under_as_many_as_are_tried(orders, recorded):
    three, six = (snapshot(recorded, name) for name in ("three", "six"))
    for words in ([], ["--", "test_shop.py::test_fine[three]", "-p", "xdist", "-n", "2"]):
        assert orders("three", *words) == (f"same under all 5 other orders of its answers: {three}\n", "")
    with edited(recorded, "pytest.ini", "[pytest]", "[pytest]\naddopts = --snapshot-record"):
        assert orders("three")[0].startswith("same under all 5 "), "nothing is recorded"
    more = f"same under 7 other orders of its answers (there are more: --budget, --seed): {six}\n"
    assert orders("six", "--budget", "7", "--seed", "3")[0] == more
    said, _ = orders("test_stamps")
    assert said == (
        f"same under 1 of 1 other orders of its answers: {snapshot(recorded, 'test_stamps')}\n"
        "1 of them cannot come about: what gives way to nobody has its answer at once\n"
    )


def test_what_cannot_be_ordered_is_said(orders, recorded, typed, monkeypatch):
    file = snapshot(recorded, "test_fine-one")
    nothing = f"agentreplay: {file}: no two of its answers were waited for at once\n"
    assert orders("test_fine-one", code=Exit.NOTHING) == ("", nothing)
    _, complaint = orders("TestCase", code=Exit.CANNOT)
    assert "in no order; unittest.TestCase methods and tests that do not opt in have no other orders" in complaint
    with edited(recorded, "agent.py", "await look(city)\n    await", "await look(city.upper())\n    await"):
        said, complaint = orders("three", code=Exit.CANNOT)
    assert said.startswith("[AR-ARGS] ")
    assert re.fullmatch(r"agentreplay: .*three-order-0\] failed .* agentreplay replay .*three.*\.json\n", complaint)
    monkeypatch.chdir(recorded.root)
    file = snapshot(recorded, "three")
    belongs = f"agentreplay: {file}: belongs to test_shop.py::test_fine[three], not to test_shop.py::test_last\n"
    assert orders("three", "--", "test_shop.py::test_last", code=Exit.USAGE)[1] == belongs
    unknown = "agentreplay: pytest met a usage error: test_shop.py::test_fine[three]\n"
    assert orders("three", "--", "--no-such-flag", code=Exit.USAGE)[1] == unknown
    assert (
        typed("check", "fuzz", file, "--order", "6").err == f"agentreplay: {file}: there is no order 6; it has 1 to 5\n"
    )
    assert (
        typed("check", "fuzz", "--orders", "gone.json").code
        == typed("check", "fuzz", "--orders", file, "--budget", "0").code
        == Exit.USAGE
    )
    (recorded.root / "half.json").write_bytes((recorded.root / file).read_bytes()[:300])
    told = typed("check", "fuzz", "--orders", "half.json")
    assert (told.code, told.err.startswith("agentreplay: half.json: ")) == (Exit.DAMAGED, True)
