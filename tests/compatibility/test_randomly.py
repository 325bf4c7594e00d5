"""pytest-randomly: it reseeds before each test and our seeds win inside of the run; what it set is there again after."""

import pytest

from tests.support.finished import ended

pytestmark = pytest.mark.env("main")

TESTS = """
import random
import pytest, agent

@pytest.mark.parametrize("n", range(4))
def test_it(n, agentreplay):
    agent.answer(f"Where is A-{random.randint(1, 10**9)}?")

drawn = []

def test_before():
    drawn.append(random.random())

def test_within(agentreplay):
    agent.answer(f"Where is A-{random.randint(1, 10**9)}?")

def test_after():
    drawn.append(random.random())
    random.seed(1234)
    assert drawn == [random.random(), random.random()]
"""
CONFTEST = "import random\n\ndef pytest_collection_finish():\n    random.seed(1234)\n"


def test_any_order_and_any_seed_replay_and_what_was_seeded_outside_goes_on(shop):
    project, ours = shop(TESTS, "pytest_randomly"), ("-k", "it or within")
    project.write(conftest=CONFTEST)
    ended(project.record("--randomly-seed=7", *ours))
    orders = set()
    for seed in (1, 2):
        done = ended(project.offline(f"--randomly-seed={seed}", "-v", *ours))
        orders.add(tuple(line.partition(" ")[0] for line in done.stdout.splitlines() if "PASSED" in line))
    assert len(orders) == 2
    plain = ("--randomly-dont-reorganize", "--randomly-dont-reset-seed", "-k", "before or within or after")
    done = ended(project.offline(*plain))
    told, _ = project.diverged("--randomly-seed=3", *ours)
    assert len(told) == 5
    assert all(said.startswith("FAILED [AR-PROMPT] turn 1/3: model m-1") for said in told.values())
