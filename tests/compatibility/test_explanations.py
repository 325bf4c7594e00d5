"""pytest-icdiff and pytest-clarity explain every failed comparison by pretty-printing both sides: ours are one line."""

from __future__ import annotations

import pytest

from tests.support.finished import ended

pytestmark = pytest.mark.env("main")
PLUGINS = ("syrupy", "icdiff", "clarity")

CONFTEST = """
import pytest
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.providers import READER

@pytest.fixture
def earlier(request):
    [file] = request.path.parent.rglob("test_refund.snapshot.json")
    run = codec.loads(file.read_bytes(), file=file.name).run
    return RunView(lambda: run, READER)
"""
TESTS = """
import agent, pprintpp

def test_refund(agentreplay):
    agent.answer("Where is A-17?")

def test_transcript(agentreplay, agent_snapshot):
    agent.answer("Where is A-17?")
    assert agentreplay.run == agent_snapshot

def test_run_beside_an_earlier_one(agentreplay, request):
    agent.answer("Where is it?")
    if agentreplay.mode == "replay":
        assert agentreplay.run == request.getfixturevalue("earlier")

def test_big(agentreplay, agent_snapshot):
    agent.answer("Where is A-17?" + " Please." * 50_000)
    for shown in (agentreplay, agentreplay.run, agentreplay.run.turns, agentreplay.run.tool_calls, agent_snapshot):
        assert len(pprintpp.pformat(shown)) < 600
"""


def test_our_explanation_wins_and_what_they_print_of_a_big_run_is_small(project):
    project.plugins += PLUGINS
    project.write(conftest=CONFTEST, test_shop=TESTS)
    ended(project.record())
    assert max(file.stat().st_size for file in project.files) > 350_000
    for file in project.root.rglob("*.run.txt"):
        file.write_text(file.read_text(encoding="utf-8").replace("refund", "repaid"), encoding="utf-8")
    for words in ([], ["-vv"]):
        told = project.offline(*words).stdout
        assert "runs part at turn 1/3: model m-1: user text $.messages[1].content changed, it -> A-17" in told
        assert "first divergent turn: turn 1  m-1" in told
        assert "-   tools: lookup_order, repaid" in told
        assert "equals failed" not in told
        assert "pytest-clarity diff shown" not in told
        assert "2 failed, 2 passed" in told
