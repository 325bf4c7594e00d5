"""Every plugin of the environment at once, loaded as they are in people's suites: by themselves."""

from __future__ import annotations

import sys

import pytest

pytestmark = pytest.mark.env("main")

CLASHES = {
    "replay": "--replay",
    "cassetteai": "--replay",
    "snapshot": "--snapshot-update",
    "agentreplay": "its fixture",
}
"""Plugins that cannot be loaded with all the others, and the name that more than one of them owns."""
AILING = {"langsmith_plugin": "it calls what Python 3.14 deprecates"} if sys.version_info >= (3, 14) else {}
"""Plugins that do not load where warnings are errors."""

MORE = """
import asyncio
import agent, pytest

@pytest.mark.asyncio
async def test_asyncio(agentreplay):
    assert "refund" in await asyncio.to_thread(agent.answer, "Where is A-17?")

@pytest.mark.vcr
def test_nothing_of_ours(httpx_mock, snapshot):
    pass

@pytest.mark.parametrize("number", range(3))
def test_many(agentreplay, agent_snapshot, subtests, number):
    with subtests.test("answer"):
        assert "refund" in agent.answer(f"Where is A-{number}?")
    assert agentreplay.run == agent_snapshot
"""


@pytest.fixture
def zoo(project):
    project.autoload = True
    # pytest_NAME is blocked along with NAME: ours comes back by its own name.
    project.plugins = (*(f"no:{name}" for name in CLASHES | AILING), "pytest_agentreplay")
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("asyncio_default_fixture_loop_scope = function\ntimeout = 80\n")
    project.write(test_more=MORE)
    return project


def test_the_three_acts_among_all_of_them(zoo):
    recorded = zoo.record("-n", "2")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    for plugin in ("httpx", "icdiff", "clarity", "inline-snapshot", "randomly", "recording", "socket"):
        assert f" {plugin}-" in recorded.stdout
    assert AILING or " langsmith-" in recorded.stdout
    assert recorded.stdout.count("test passed)   replays") == 5, recorded.stdout
    zoo.server.stop()
    ran = zoo.ledger
    for words, environ in [(["-n", "2", "--reruns=1"], {}), (["--block-network"], {"CI": "1"})]:
        replayed = zoo.replay(*words, **environ)
        assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    zoo.edit("agent.py", "Be brief.", "Be short.")
    diverged = zoo.replay("-n", "2", "-v", CI="1")
    assert diverged.returncode == 1
    assert diverged.stdout.count(" - [AR-PROMPT] turn 1/") == 5, diverged.stdout
    assert " failed, 1 passed" in diverged.stdout
    assert zoo.ledger == ran
