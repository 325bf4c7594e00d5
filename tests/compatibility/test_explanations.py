"""pytest-icdiff and pytest-clarity explain every failed comparison by pretty-printing both sides: ours are one line."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.env("main")

PLUGINS = ("syrupy", "icdiff", "clarity")


OTHER = """
def test_run_beside_an_earlier_one(agentreplay, earlier):
    agent.answer("Where is it?")
    assert agentreplay.run == earlier
"""

CONFTEST = """
import pytest
from pytest_agentreplay import codec
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.dialects import READER

@pytest.fixture
def earlier(request):
    [file] = request.path.parent.rglob("test_refund.snapshot.json")
    run = codec.loads(file.read_bytes(), file=file.name).run
    return RunView(lambda: run, READER)
"""

TRANSCRIPT = """
def test_transcript(agentreplay, agent_snapshot):
    agent.answer("Where is A-17?")
    assert agentreplay.run == agent_snapshot
"""


@pytest.fixture
def compared(project):
    """A suite whose two comparisons fail in a replay: with an earlier run, and with a stored transcript."""
    project.plugins += PLUGINS
    test = (project.root / "test_shop.py").read_text(encoding="utf-8")
    project.write(conftest=CONFTEST, test_shop=test + TRANSCRIPT)
    assert project.record().returncode == 0
    project.write(test_shop=test + TRANSCRIPT + OTHER)
    assert project.record("-k", "earlier").returncode == 1
    for file in project.root.rglob("*.run.txt"):
        file.write_text(file.read_text(encoding="utf-8").replace("refund", "repaid"), encoding="utf-8")
    project.server.stop()
    return project


@pytest.mark.parametrize("words", [(), ("-vv",)], ids=["short", "-vv"])
def test_our_explanation_wins(compared, words):
    told = compared.replay(*words).stdout
    assert "runs part at turn 1/3: model m-1: user text $.messages[1].content changed, it -> A-17" in told
    assert "first divergent turn: turn 1  m-1" in told
    assert "-   tools: lookup_order, repaid" in told
    assert "equals failed" not in told
    assert "pytest-clarity diff shown" not in told
    assert "2 failed, 1 passed" in told


BIG = """
import agent, pprintpp

def test_big(agentreplay, agent_snapshot):
    agent.answer("Where is A-17?" + " Please." * 50_000)
    for shown in (agentreplay, agentreplay.run, agentreplay.run.turns, agentreplay.run.tool_calls, agent_snapshot):
        assert len(pprintpp.pformat(shown)) < 600
"""


def test_what_they_print_of_a_big_run_is_small(project):
    project.plugins += PLUGINS
    project.write(test_shop=BIG)
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    assert project.files[0].stat().st_size > 350_000


def test_the_three_acts(project, three_acts):
    project.plugins += PLUGINS
    three_acts(project)
