"""pytest-randomly: it reseeds before each test and our seeds win inside of the run; what it set is there again after."""

import pytest

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
    random.seed(SEED)
    assert drawn == [random.random(), random.random()]
""".replace("SEED", "1234")

CONFTEST = "import random\n\ndef pytest_collection_finish():\n    random.seed(1234)\n"


@pytest.fixture(scope="module")
def shuffled(shop):
    project = shop(TESTS, "pytest_randomly")
    project.write(conftest=CONFTEST)
    recorded = project.record("--randomly-seed=7", "-k", "it or within")
    return project, recorded


def test_any_order_and_any_seed_replay(shuffled):
    project, recorded = shuffled
    assert recorded.returncode == 0, recorded.stdout
    assert recorded.stdout.count("replays") == 5
    orders = set()
    for seed in (1, 2):
        done = project.offline(f"--randomly-seed={seed}", "-v", "-k", "it or within")
        assert done.returncode == 0, done.stdout
        orders.add(tuple(line.partition(" ")[0] for line in done.stdout.splitlines() if "PASSED" in line))
    assert len(orders) == 2


def test_what_was_seeded_outside_goes_on(shuffled):
    project, _ = shuffled
    done = project.offline(
        "--randomly-dont-reorganize", "--randomly-dont-reset-seed", "-k", "before or within or after"
    )
    assert done.returncode == 0, done.stdout


def test_divergences_are_told_in_any_order(shuffled, headline):
    project, _ = shuffled
    told, _ = project.diverged("--randomly-seed=3", "-k", "it or within")
    assert len(told) == 5
    assert all(said.startswith(f"FAILED {headline}") for said in told.values())
