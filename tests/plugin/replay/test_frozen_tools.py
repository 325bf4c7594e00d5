"""What a report says of tools that are answered from the snapshot, and of ones that no longer are."""

import pytest

from tests.support.small_projects import flat, passed, recorded, summary

TESTS = """
import agent, pytest

def test_status(agentreplay):
    agent.answer("Pay A-17 back.")
    paid = agentreplay.mode == "record"  # as in a database that the tool writes
    assert paid

def test_reads(agentreplay):
    agent.lookup_order("A-17")
    assert agentreplay.mode == "record"

def test_answer(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

@pytest.fixture(scope="module")
def looked_up():
    return agent.lookup_order("A-17")

def test_shared(looked_up, agentreplay):
    pass

def test_given(agentreplay):
    agentreplay.tool(agent.lookup_order, effects="read")("A-17")
"""
NOT_RUN = "tool refund was answered from the snapshot: its code did not run, so what it changes elsewhere"


@pytest.mark.proves
def test_a_test_that_asserts_on_what_a_frozen_tool_changes_is_told_that_its_code_does_not_run(project):
    project.furnish(TESTS)
    done = passed(project.record("-k", "status", COLUMNS="200"))
    assert "do not hold offline (the code of refund does not run): assert False" in done.stdout
    passed(project.record("-k", "reads", "--agentreplay-checks=unproved=ignore", COLUMNS="200"))
    failed = project.offline("-k", "status or reads")
    assert NOT_RUN in flat(failed)
    assert 'assert on the call instead: agentreplay.run.assert_tool_called("refund")' in flat(failed)
    assert "= live" not in failed.stdout, "it writes"
    assert flat(failed).count("answered from the snapshot") == 1, "a tool that reads has changed nothing"
    assert summary(failed)["status"] == "assert False", "the short summary stays the test's own error"


def test_a_tool_that_no_setting_names_any_more_is_not_said_to_be_left_out(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    recorded(project, "-k", "answer or shared or given")
    project.edit("pytest.ini", "    agent.lookup_order = read\n", "")
    done = project.offline("-k", "answer or shared or given", COLUMNS="200")
    assert "1 passed" in done.stdout, "one is given its tool by the test"
    assert summary(done)["shared"].startswith("[AR-UNFROZEN] fixture looked_up: tool lookup_order was frozen")
    told = summary(done)["answer"]
    assert told.startswith("[AR-UNFROZEN] tool lookup_order was frozen when recorded, and is not any more: no setting")
    assert "freeze it, in agentreplay_tools: agent.lookup_order" in flat(done)
    assert "1 call served" in done.stdout, "the others are refused before they begin"
    project.edit("pytest.ini", "agentreplay_tools =\n", "agentreplay_tools =\n    agent.lookup_order = live\n")
    assert "the settings let it run for real (live)" in summary(project.replay("-k", "answer", COLUMNS="200"))["answer"]
    project.edit("pytest.ini", "agent.lookup_order = live", "agent.lookup_order = read")
    project.edit(
        "test_shop.py",
        '    assert "refund" in agent.answer',
        "    agent.lookup_order = {}.get\n    assert agent.answer",
    )
    assert "was frozen when recorded" not in project.replay("-k", "answer", COLUMNS="200").stdout
