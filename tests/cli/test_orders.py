"""`agentreplay orders`: what it says, and how it ends."""

import re

import pytest

from pytest_agentreplay.cli import SAME, USAGE
from pytest_agentreplay.cli.saying import CANNOT, DAMAGED, DIVERGED, NOTHING

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
    done = project.record()
    assert done.returncode == 0, done.stdout
    return project


def snapshot(project, name):
    (file,) = (file for file in project.files if name.lower() in file.name)
    return file.relative_to(project.root)


def ended(done, code):
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


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
    agentreplay orders __agent_snapshots__/test_shop/test_last.snapshot.json --order 2
"""

TRIP = """\
[AR-RACE] tool book is not called any more when tool look of lane main.2 is
  answered before that of lane main.1

  side effects
    recorded  tool book {"city":"Rome"}
    now       (not made)

  now first     tool look {"city":"Oslo"} (before turn 1, lane main.2)
  now second    tool look {"city":"Rome"} (before turn 1, lane main.1)
  now first     tool look {"city":"Bern"} (before turn 1, lane main.3)
  now second    tool look {"city":"Rome"} (before turn 1, lane main.1)
  likely cause  both were waited for at once, and what your code does depends on
                which answer comes first
  snapshot      __agent_snapshots__/test_shop/test_trip.snapshot.json, order 3
                of 5

  this order again:
    agentreplay orders __agent_snapshots__/test_shop/test_trip.snapshot.json --order 3
"""


@pytest.mark.parametrize(("name", "report", "order"), [("test_last", LAST, 2), ("test_trip", TRIP, 3)])
def test_the_first_order_that_changes_something_is_told_and_can_be_run_again(recorded, name, report, order):
    file = snapshot(recorded, name)
    said, complaint = ended(recorded.command("orders", file), DIVERGED)
    assert (said, complaint) == (report, "")
    assert len(said.splitlines()) <= 24
    again, _ = ended(recorded.command("orders", file, "--order", order), DIVERGED)
    assert again == report


def test_an_order_that_changes_nothing_is_the_same(recorded):
    said, _ = ended(recorded.command("orders", snapshot(recorded, "test_last"), "--order", "1"), SAME)
    assert said.startswith("same under 1 of 5 other orders of its answers: ")


def test_no_race_is_the_same_under_all_orders(recorded):
    file = snapshot(recorded, "three")
    for words in ([], ["--", "test_shop.py::test_fine[three]"], ["--", "-p", "xdist", "-n", "2"]):
        said, complaint = ended(recorded.command("orders", file, *words), SAME)
        assert said == f"same under all 5 other orders of its answers: {file}\n"
        assert complaint == ""


def test_more_orders_than_are_tried_are_drawn_and_that_is_said(recorded):
    file = snapshot(recorded, "six")
    said, _ = ended(recorded.command("orders", file), SAME)
    assert said == f"same under 120 other orders of its answers (there are more: --limit, --seed): {file}\n"
    said, _ = ended(recorded.command("orders", file, "--limit", "7", "--seed", "3"), SAME)
    assert said == f"same under 7 other orders of its answers (there are more: --limit, --seed): {file}\n"


def test_a_drawn_order_names_its_limit_and_seed(recorded):
    file = snapshot(recorded, "test_last")
    said, _ = ended(recorded.command("orders", file, "--limit", "3", "--seed", "5"), DIVERGED)
    assert said.endswith(f"agentreplay orders {file} --limit 3 --seed 5 --order 2\n")


def test_nothing_overlaps(recorded):
    file = snapshot(recorded, "test_fine-one")
    said, complaint = ended(recorded.command("orders", file), NOTHING)
    assert (said, complaint) == ("", f"agentreplay: {file}: no two of its answers were waited for at once\n")


def test_an_order_that_cannot_come_about_is_said(recorded):
    file = snapshot(recorded, "test_stamps")
    said, _ = ended(recorded.command("orders", file), SAME)
    assert said == (
        f"same under 1 of 1 other orders of its answers: {file}\n"
        "1 of them cannot come about: what gives way to nobody has its answer at once\n"
    )


def test_usage(recorded):
    file = snapshot(recorded, "three")
    _, complaint = ended(recorded.command("orders", file, "--order", "6"), USAGE)
    assert complaint == f"agentreplay: {file}: there is no order 6; it has 1 to 5\n"
    _, complaint = ended(recorded.command("orders", file, "--", "test_shop.py::test_last"), USAGE)
    assert (
        complaint == f"agentreplay: {file}: belongs to test_shop.py::test_fine[three], not to test_shop.py::test_last\n"
    )
    ended(recorded.command("orders", "gone.json"), USAGE)
    ended(recorded.command("orders", file, "--limit", "0"), USAGE)
    _, complaint = ended(recorded.command("orders", file, "--", "--no-such-flag"), USAGE)
    assert complaint == "agentreplay: pytest knows no such test or flag: test_shop.py::test_fine[three]\n"


def test_a_damaged_snapshot(recorded):
    (recorded.root / "half.json").write_bytes((recorded.root / snapshot(recorded, "three")).read_bytes()[:300])
    _, complaint = ended(recorded.command("orders", "half.json"), DAMAGED)
    assert complaint.startswith("agentreplay: half.json: ")


def test_a_test_that_does_not_replay_comes_first(recorded):
    recorded.edit("agent.py", "await look(city)\n    await", "await look(city.upper())\n    await")
    try:
        said, complaint = ended(recorded.command("orders", snapshot(recorded, "three")), CANNOT)
    finally:
        recorded.edit("agent.py", "city.upper()", "city")
    assert said.startswith("[AR-ARGS] ")
    assert re.fullmatch(r"agentreplay: .*three-order-0\] failed .* agentreplay replay .*three.*\.json\n", complaint)


def test_a_testcase_has_no_orders(recorded):
    _, complaint = ended(recorded.command("orders", snapshot(recorded, "TestCase")), CANNOT)
    assert "in no order; unittest.TestCase methods and tests that do not opt in have no other orders" in complaint
