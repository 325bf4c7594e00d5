"""The main job, from a user's side: record, replay offline, and read what parted."""

import json


def test_a_run_is_recorded_proved_and_replayed_offline(project):
    recorded = project.record()
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert "RECORDING" in recorded.stdout
    assert "replays" in recorded.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"], "the proof ran no tool"
    assert project.server.hits == 3, "the proof asked no model"
    project.server.stop()
    for words in (["--replay=model"], []):
        replayed = project.run(*words)
        assert replayed.returncode == 0, replayed.stdout
        assert "model frozen, tools frozen" in replayed.stdout
    assert len(project.ledger) == 2
    assert project.server.hits == 3


def test_the_file_holds_each_exchange_once_and_no_secret(project):
    project.record()
    (snapshot,) = project.snapshots
    assert snapshot.sealed
    assert snapshot.run.header.test == "test_shop.py::test_refund"
    assert [x.call.boundary for x in snapshot.run.exchanges] == ["http", "tool", "http", "tool", "http"]
    assert snapshot.run.header.outcome == {"status": "passed"}
    text = project.files[0].read_text(encoding="utf-8")
    assert "sk-live-0123456789abcdef" not in text
    assert text.count("You help customers.") == 1


def test_a_prompt_edit_is_named_at_its_turn(project):
    project.record()
    project.edit("agent.py", "Be brief.", "Be short.")
    done = project.replay()
    assert done.returncode == 1
    assert "[AR-PROMPT]" in done.stdout
    assert "turn 1/3" in done.stdout
    assert "brief" in done.stdout
    assert "short" in done.stdout
    assert "pytest --snapshot-record test_shop.py::test_refund" in done.stdout
    assert len(project.ledger) == 2, "no tool ran"
    assert project.server.hits == 3, "no model was asked"


def test_no_snapshot_fails_at_the_first_crossing(project):
    done = project.run()
    assert done.returncode == 1
    assert "[AR-NEW]" in done.stdout
    assert "1 failed" in done.stdout
    assert "pytest --snapshot-record test_shop.py::test_refund" in done.stdout
    assert project.server.hits == 0
    assert project.ledger == []


def test_a_test_that_crosses_nothing_needs_no_snapshot(project):
    project.write(test_quiet="def test_quiet(agentreplay):\n    assert agentreplay.mode == 'replay'\n")
    assert project.run("test_quiet.py").returncode == 0


def test_a_failing_run_is_recorded_too(project):
    project.edit("test_shop.py", '"refund" in', '"never" in')
    done = project.record()
    assert done.returncode == 1
    assert "fails as recorded" in done.stdout
    assert project.snapshots[0].run.header.outcome["type"] == "AssertionError"


def test_a_failing_run_never_replaces_a_passing_snapshot(project):
    project.record()
    before = project.files[0].read_bytes()
    project.edit("test_shop.py", '"refund" in', '"never" in')
    done = project.record()
    assert project.files[0].read_bytes() == before
    assert "agentreplay accept" in done.stdout
    assert list((project.root / ".pytest_agentreplay" / "pending").rglob("*.snapshot.json"))
    assert (project.root / ".pytest_agentreplay" / ".gitignore").read_text(encoding="utf-8").strip() == "*"


def test_a_kept_failure_is_green_while_it_recurs(project):
    project.write(
        test_kept=(
            "import agent, pytest\n"
            "@pytest.mark.agentreplay(expect='reproduces')\n"
            "def test_kept():\n"
            "    raise ValueError(agent.answer('Where is A-17?')[:24] + '\\nmore')\n"
        )
    )
    assert "replays: fails as recorded" in project.record("test_kept.py").stdout
    assert project.snapshots[0].run.header.outcome["message"].startswith("Here is your refund")
    again = project.replay("test_kept.py", "-v")
    assert again.returncode == 0, again.stdout
    assert "fails as recorded" in again.stdout
    project.edit("test_kept.py", "raise ValueError(", "raise KeyError(")
    other = project.replay("test_kept.py")
    assert other.returncode == 1
    assert "fails differently" in other.stdout
    project.edit("test_kept.py", "raise KeyError(", "print(")
    gone = project.replay("test_kept.py")
    assert gone.returncode == 1
    before = project.files[0].read_bytes()
    project.record("test_kept.py")
    assert project.files[0].read_bytes() == before, "nothing replaces a failure that its test keeps"


def test_recording_on_ci_is_refused(project):
    done = project.record(CI="true")
    assert done.returncode == 4
    assert "CI" in done.stderr
    assert "agentreplay_ci_record" in done.stderr
    assert project.files == []


def test_both_modes_at_once_are_a_usage_error(project):
    done = project.run("--snapshot-record", "--replay=model")
    assert done.returncode == 4
    assert "--snapshot-record" in done.stderr


def test_unknown_words_are_usage_errors_with_the_nearest_word(project):
    assert "model" in project.run("--replay=modle").stderr
    project.edit("pytest.ini", "agentreplay_tools", "agentreplay_tolls")
    done = project.run()
    assert done.returncode == 4
    assert "agentreplay_tolls" in done.stderr
    assert "agentreplay_tools" in done.stderr


def test_an_unknown_marker_keyword_fails_the_test_with_the_nearest_one(project):
    project.write(
        test_marked="import pytest\n@pytest.mark.agentreplay(expext='reproduces')\ndef test_marked():\n    pass\n"
    )
    done = project.run("test_marked.py")
    assert done.returncode == 1
    assert "expext" in done.stdout
    assert "expect" in done.stdout


def test_mode_off_runs_everything_and_writes_nothing(project):
    done = project.run("--replay=off", "-rs")
    assert done.returncode == 0, done.stdout
    assert "SKIPPED [1] test_shop.py:4: mode off records no run" in done.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"]
    assert "OFF" in done.stdout
    assert project.server.hits == 3
    assert project.files == []


OFF = """
import agent, pytest

def test_reads_no_run(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

def test_fails_before_it_reads_the_run(agentreplay):
    run = agentreplay.run
    assert repr(run) == "<no run: mode off records none>"
    assert "nothing" in agent.answer("Where is A-17?")
    run.assert_tool_calls(["lookup_order"])

@pytest.mark.parametrize("read", ["turns", "tool_calls", "final_text", "usage", "run"])
def test_reads_the_run(agentreplay, read):
    getattr(agentreplay.run, read)
    assert False, "never reached"

def test_transcript(agentreplay, agent_snapshot):
    assert agentreplay.run == agent_snapshot
"""


def test_in_mode_off_a_test_is_skipped_where_it_reads_the_run_and_checked_before(project):
    project.plugins = ("syrupy", *project.plugins)
    project.write(test_shop=OFF)
    done = project.run("--replay=off", "-rA")
    assert "1 failed, 1 passed, 6 skipped" in done.stdout, done.stdout
    assert "PASSED test_shop.py::test_reads_no_run" in done.stdout
    assert "FAILED test_shop.py::test_fails_before_it_reads_the_run - AssertionError" in done.stdout
    assert project.files == []


def test_the_environment_variable_and_the_twin_flag_choose_the_mode(project):
    assert "RECORDING" in project.run(AGENTREPLAY="record").stdout
    assert "RECORDING" in project.run("--agentreplay-mode=record").stdout
    assert "OFF" in project.run("--agentreplay-mode=off", AGENTREPLAY="model").stdout


def test_a_leftover_turn_is_a_divergence(project):
    project.record()
    project.write(test_shop="def test_refund(agentreplay):\n    import agent\n    agent.ask([])\n")
    project.write(test_shop="def test_refund(agentreplay):\n    pass\n")
    done = project.replay()
    assert done.returncode == 1
    assert "[AR-MISSING]" in done.stdout


def test_a_tool_called_otherwise_is_named(project):
    project.record()
    project.edit("agent.py", "TOOLS[call", "TOOLS[call")
    project.edit(
        "agent.py",
        '(**json.loads(call["function"]["arguments"]))',
        '(**{**json.loads(call["function"]["arguments"]), "order_id": "a-17"})',
    )
    done = project.replay()
    assert "[AR-ARGS]" in done.stdout
    assert "A-17" in done.stdout
    assert "a-17" in done.stdout


def test_swallowed_divergence_fails_the_test_all_the_same(project):
    project.record()
    project.edit("agent.py", "Be brief.", "Be short.")
    project.write(
        test_shop=(
            "import agent\n"
            "def test_refund(agentreplay):\n"
            "    try:\n        agent.answer('Where is A-17?')\n    except:\n        pass\n"
        )
    )
    done = project.replay()
    assert done.returncode == 1
    assert "[AR-PROMPT]" in done.stdout
    assert "Traceback" not in done.stdout


def test_json_of_the_header_is_the_replay_kit(project):
    project.write(
        test_shop=(
            "import agent\n"
            "def test_refund(agentreplay):\n"
            "    agentreplay.annotate(user='u-1', flags={'beta': True})\n"
            "    agent.answer('Where is A-17?')\n"
        )
    )
    project.record()
    kit = project.snapshots[0].run.header.kit
    assert kit["annotations"] == {"user": "u-1", "flags": {"beta": True}}
    assert kit["models"][0]["model"] == "m-1"
    assert kit["packages"]["httpx2"]
    assert json.dumps(kit)
