"""numpy's random numbers in a run: the same in both modes, whatever is drawn inside a call, and nothing left behind."""

# ruff: noqa: NPY002
# The global generator is what is held here.

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment import randomness
from pytest_agentreplay.intercept.environment.randomness import RandomSource

pytestmark = pytest.mark.env("main", "lowest")


@pytest.fixture(autouse=True)
def met():
    registry.install()


def draws():
    return [
        float(np.random.rand()),
        np.random.randint(1_000_000, size=3).tolist(),
        float(np.random.randn()),
        float(np.random.default_rng().random()),
        float(np.random.RandomState().rand()),
        float(np.random.Generator(np.random.PCG64()).random()),
    ]


@contextmanager
def source(seed):
    made = RandomSource(seed)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def a_run(seed=5, *, inside=0):
    with source(seed) as made:
        seen = draws()
        for count in (1, 2):
            np.random.rand(inside)
            made.step("main", count)
            seen += draws()
        return seen


def test_a_replay_draws_what_the_recording_drew():
    assert a_run(inside=7) == a_run()
    drawn = {str(one) for one in a_run()}
    assert len(drawn) == 18, "no two draws of a run are the same"
    assert not drawn & {str(one) for one in a_run(seed=6)}


def test_known_values():
    """A recording made on one machine and numpy is replayed on others: these may never change."""
    assert a_run(seed=1)[:4] == KNOWN


KNOWN = [0.2973241389809945, [821776, 720606, 395388], -1.229696146685276, 0.3410674153101415]


def test_nothing_is_left_behind():
    np.random.seed(99)
    np.random.randn()  # leaves the second of a pair behind
    expected = [np.random.randn(), np.random.rand()]
    np.random.seed(99)
    np.random.randn()
    a_run()
    assert [np.random.randn(), np.random.rand()] == expected
    assert np.random.default_rng().random() != np.random.default_rng().random()


def test_another_bit_generator_is_held_and_put_back():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        assert a_run() == a_run()
        with source(1):
            mine = np.random.get_bit_generator()
            np.random.set_bit_generator(np.random.MT19937(4))
        assert np.random.get_bit_generator() is mine
    finally:
        np.random.set_bit_generator(before)


def test_a_run_inside_a_run_holds_both_and_a_seed_that_the_agent_gives_is_its_own():
    with source(1):
        assert np.random.default_rng(7).random() == np.random.Generator(np.random.PCG64(7)).random()
        first = np.random.rand()
        state = np.random.get_state()[1].tolist()
        with source(2):
            np.random.rand()
        assert np.random.get_state()[1].tolist() == state
    with source(1):
        assert np.random.rand() == first


MODULES = """
import numpy.random
def make():
    return numpy.random.default_rng()
RNG, MADE = numpy.random.default_rng(), make()
"""

TWO_RUNS = """
import sys, uuid
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.environment.randomness import RandomSource

def run():
    chance = RandomSource(11)
    chance.start()
    chance.step("main.2", 4)
    import holder, numpy.random
    seen = [numpy.random.rand(), numpy.random.default_rng().random(), str(uuid.uuid4())]
    chance.step("main", 1)
    seen += [numpy.random.rand(), numpy.random.default_rng().random(), str(uuid.uuid4())]
    chance.stop()
    return seen, holder.RNG.random(), holder.MADE.random()

registry.install()
assert "numpy.random" not in sys.modules
(first, *mine), (second, *_) = run(), run()
assert first == second, (first, second)
print(first, *mine, sep="|")
"""


@pytest.mark.process
def test_a_generator_that_a_module_makes_for_itself_is_as_random_as_ever(tmp_path):
    (tmp_path / "holder.py").write_text(MODULES, encoding="utf-8")

    def go():
        command = [sys.executable, "-c", TWO_RUNS]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("|")

    (first, *mine), (second, *others) = go(), go()
    assert first == second, "numpy stands where it would, had it been loaded before the run"
    assert len({*mine, *others}) == 4


def test_threads_without_a_run_ask_the_system():
    assert randomness.find_source() is None
    assert not randomness.is_importing()
    assert np.random.SeedSequence().entropy != np.random.SeedSequence().entropy
