"""Random concurrent agents, recorded and replayed: each sees the same answers in the same order again."""

from pathlib import Path

import pytest

from pytest_agentreplay.demo.server import ModelServer
from tests.ordering import programs
from tests.ordering.driving import agent, difference
from tests.ordering.programs import INDEPENDENT, SENSITIVE, slow_model

SEEDS = [*range(40)]
"""Those of the order-sensitive programs. Each fourth calls a model server, too."""


@pytest.fixture(scope="module")
def model():
    with ModelServer(slow_model, pace=0.001) as server:
        yield server


@pytest.mark.parametrize("seed", SEEDS)
def test_an_agent_that_depends_on_the_order_is_faithful(stage, model, seed):
    assert difference(stage, agent(seed, SENSITIVE, "" if seed % 4 else model.url), order="recorded") == ""


@pytest.mark.parametrize("seed", range(12))
def test_an_agent_that_does_not_is_faithful_by_default(stage, model, seed):
    assert difference(stage, agent(seed, INDEPENDENT, "" if seed % 4 else model.url)) == ""


def test_without_the_order_they_are_not(stage):
    """Which shows that the programs above try what they are meant to."""
    assert sum(difference(stage, agent(seed, SENSITIVE), order="free") == "" for seed in range(12)) < 6


TESTS = """
import asyncio, json
import pytest
import programs

@pytest.mark.parametrize("seed", range(8))
def test_agent(seed, agentreplay):
    memory = programs.Memory(sensitive=True)
    asyncio.run(programs.Agent(memory).run(programs.program(seed, programs.SENSITIVE)))
    with open("logs.txt", "a") as logs:
        print(json.dumps(memory.log), file=logs)
    assert programs.RUNS, "a replay has reached the world"
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools =
    programs.look
    programs.flow
    programs.poll
    programs.reckon
"""


def test_in_a_project_too(shared_project):
    project = shared_project()
    project.write(programs=Path(programs.__file__).read_text(encoding="utf-8"), test_agents=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    logs = project.root / "logs.txt"
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    first = logs.read_text(encoding="utf-8").splitlines()
    logs.unlink()
    project.edit("test_agents.py", "assert programs.RUNS", "assert not programs.RUNS")
    for _ in range(3):
        replayed = project.offline()
        assert replayed.returncode == 0, replayed.stdout
    assert logs.read_text(encoding="utf-8").splitlines() == first * 3
