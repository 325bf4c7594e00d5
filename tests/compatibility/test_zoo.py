"""Every plugin of the environment at once, loaded as they are in people's suites: by themselves."""

from __future__ import annotations

import sys

import pytest

from tests.support.finished import ended

# Ours is loaded by its entry point.
pytestmark = [pytest.mark.env("main"), pytest.mark.real_process, pytest.mark.exhaustive]

CLASHES = ["replay", "cassetteai", "snapshot", "agentreplay"]
"""Plugins that cannot be loaded with all the others: --replay, --snapshot-update and our fixture have two owners."""
AILING = ["langsmith_plugin"] if sys.version_info >= (3, 14) else []
"""Plugins that do not load where warnings are errors: it calls what Python 3.14 deprecates."""

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


def test_the_three_acts_among_all_of_them(project):
    project.autoload = True
    # pytest_NAME is blocked along with NAME: ours comes back by its own name.
    project.plugins = (*(f"no:{name}" for name in CLASHES + AILING), "pytest_agentreplay")
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("asyncio_default_fixture_loop_scope = function\ntimeout = 80\n")
    project.write(test_more=MORE)
    recorded = ended(project.record("-n", "2"))
    loaded = ["httpx", "icdiff", "clarity", "inline-snapshot", "randomly", "recording", "socket", "langsmith"]
    assert [plugin for plugin in loaded if f" {plugin}-" not in recorded.stdout] == (["langsmith"] if AILING else [])
    assert recorded.stdout.count("(created, ") == 5, recorded.stdout
    ended(project.offline("--reruns=1", "--block-network", CI="1"))
    told, diverged = project.diverged()
    assert len([said for said in told.values() if " [AR-PROMPT] turn 1/" in said]) == 5, told
    assert " failed, 1 passed" in diverged.stdout
