"""Random concurrent agents, recorded and replayed: each sees the same answers in the same order again."""

import pytest

from tests.ordering.driving import agent, difference
from tests.ordering.programs import INDEPENDENT, SENSITIVE, slow_model
from tests.support.exhaustive import rare
from tests.support.model_server import ModelServer

SEEDS = [*range(8), *rare(*range(8, 40))]
"""Each fourth program calls a model server, too."""


@pytest.fixture(scope="module")
def model():
    with ModelServer(slow_model, pace=0.001) as server:
        yield server


@pytest.mark.parametrize("seed", SEEDS)
def test_an_agent_that_depends_on_the_order_is_faithful(stage, model, seed):
    assert difference(stage, agent(seed, SENSITIVE, "" if seed % 4 else model.url), order="recorded") == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_an_agent_that_does_not_is_faithful_by_default(stage, model, seed):
    assert difference(stage, agent(seed, INDEPENDENT, "" if seed % 4 else model.url)) == ""


def test_without_the_order_they_are_not(stage):
    """Which shows that the programs above try what they are meant to."""
    assert sum(difference(stage, agent(seed, SENSITIVE), order="free") == "" for seed in range(8)) < 4
