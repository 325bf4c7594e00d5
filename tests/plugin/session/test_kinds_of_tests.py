"""Plain, parametrised, class, unittest and async tests, and all of them under xdist; a whole folder that opts in."""

import re

import pytest

from tests.support.exhaustive import rare
from tests.support.small_projects import passed

KINDS = """
import asyncio, unittest
import agent, anyio, pytest

@pytest.mark.agentreplay
def test_marked():
    agent.answer("Where is A-17?")

@pytest.mark.parametrize("question", ["Where is A-17?", "Wo ist ä/b:c A-17?"])
def test_parametrised(question, agentreplay):
    agent.answer(question)

class TestRefund:
    def test_it(self, agentreplay):
        agent.answer("Where is A-17?")

    def test_other(self, agentreplay):
        agent.answer("Where is A-17, please?")

@pytest.mark.agentreplay
class RefundCase(unittest.TestCase):
    def test_case(self):
        self.assertIn("refund", agent.answer("Where is A-17?"))

@pytest.mark.asyncio
async def test_asyncio(agentreplay):
    await asyncio.to_thread(agent.answer, "Where is A-17?")

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

@pytest.mark.anyio
async def test_anyio(agentreplay):
    await anyio.to_thread.run_sync(agent.answer, "Where is A-17?")

@pytest.fixture
def said(agentreplay):
    yield agent.answer("Where is A-17?")
    agent.answer("Where is A-17, now?")

def test_by_fixture(said):
    assert said
"""
OPTED_IN = "import agent\n\ndef test_in_folder():\n    agent.answer('Where is A-17?')\n"
COUNT = 11


@pytest.mark.proves
@pytest.mark.parametrize("words", [("-n", "2"), *rare(((),))], ids=["xdist", "here"])
def test_every_kind_is_recorded_proved_and_replayed_and_names_its_divergent_turn(project, words):
    project.plugins += ("pytest_asyncio.plugin", "anyio.pytest_plugin", "xdist.plugin")
    project.write(test_shop=KINDS, frozen__test_in=OPTED_IN)
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("asyncio_default_fixture_loop_scope = function\nagentreplay_paths = frozen\n")
    recorded = passed(project.record(*words))
    assert recorded.stdout.count("test passed)   replays") == len(project.files) == COUNT, recorded.stdout
    assert f"replayed {COUNT} tests" in passed(project.offline(*words)).stdout
    told, done = project.diverged(*words, "-vv")
    assert len(told) == COUNT, done.stdout
    assert all(re.match(r"(FAILED|ERROR) \[AR-PROMPT\] turn 1", said) for said in told.values()), told
    assert "passed" not in done.stdout.splitlines()[-1], "each test diverges"
    assert f"{COUNT} AR-PROMPT" in done.stdout
