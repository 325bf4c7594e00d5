"""Other plugins own names that we would like: each clash ends in something readable."""

from __future__ import annotations

import pytest

OTHER = """
def pytest_addoption(parser):
    parser.getgroup("replay").addoption("--replay", dest="replay", default=None)
"""


@pytest.mark.parametrize("where", ["before ours", "after ours", "in the conftest"])
def test_a_flag_that_another_plugin_has_is_left_to_it(project, where):
    project.write(**{"conftest" if where == "in the conftest" else "other_replay": OTHER})
    if where == "before ours":
        project.plugins = ("other_replay", *project.plugins)
    elif where == "after ours":
        project.plugins = (*project.plugins, "other_replay")
    done = project.run("--agentreplay-mode=record", PYTHONPATH=str(project.root))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "another plugin has --replay here; say --agentreplay-mode=model" in done.stdout
    project.server.stop()
    replayed = project.run("--agentreplay-mode=model", "--replay=anything", PYTHONPATH=str(project.root))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "model frozen" in replayed.stdout
    assert "--agentreplay-mode" in project.run("--help", PYTHONPATH=str(project.root)).stdout


def test_the_command_replays_where_another_plugin_has_the_flag(project):
    project.write(conftest=OTHER)
    assert project.record().returncode == 0
    assert project.command("replay", project.files[0]).returncode == 0


def test_nothing_is_said_where_nobody_else_has_it(project):
    assert "another plugin" not in project.run("--co", "-q").stdout


def test_without_syrupy_everything_but_its_fixture_works(project):
    project.plugins += ("no:syrupy", "no:time_machine")
    assert project.record().returncode == 0
    assert project.replay().returncode == 0


def test_a_snapshot_larger_than_wanted_is_told(project):
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("agentreplay_max_bytes = 500\n")
    told = project.record().stdout
    size = project.files[0].stat().st_size
    assert f"test_refund.snapshot.json holds {size:,} bytes, more than agentreplay_max_bytes" in told
    assert "smaller inputs, or keep such files in git-lfs" in told
    project.edit("pytest.ini", "agentreplay_max_bytes = 500", "agentreplay_max_bytes = 0")
    assert "agentreplay_max_bytes" not in project.record().stdout


def test_a_tool_that_ran_unseen_is_told_with_what_to_add(project):
    project.edit("pytest.ini", "    agent.refund\n", "")
    done = project.record("--agentreplay-no-prove")
    assert "[AR-UNFROZEN] tool refund ran unseen" in done.stdout
    assert "add to agentreplay_tools:   agent.refund" in done.stdout


def test_no_proof_runs_an_unseen_tool_a_second_time(project):
    project.edit("pytest.ini", "    agent.refund\n", "")
    done = project.record()
    assert "not replayed: a tool would run again" in done.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"]


def test_accepted_requests_are_told(project):
    project.record()
    project.edit("agent.py", "Be brief.", "Be short.")
    done = project.run("-q", "--agentreplay-adopt=tone only")
    assert done.returncode == 0, done.stdout
    assert "(3 changed requests, every reply as it was)" in done.stdout
    assert project.replay().returncode == 0
    project.edit("test_shop.py", '"refund" in', '"never" in')
    failed = project.run("-q", "--agentreplay-adopt=tone only")
    assert failed.returncode == 1
    assert "accepted  nothing" in failed.stdout
