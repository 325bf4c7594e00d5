"""The main job, from a user's side: record, replay offline; record only what is missing."""

import re

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings import read_settings
from tests.snapshots.faults.spreading import recorded_twice
from tests.support.project import NOBODY
from tests.support.small_projects import passed, recorded, runs, sections, summary

ANNOTATED = """
import agent

def test_refund(agentreplay):
    agentreplay.annotate(user="u-1", flags={"beta": True})
    assert "refund" in agent.answer("Where is A-17?")
"""


@pytest.mark.proves
def test_a_run_is_recorded_proved_and_replayed_offline(project):
    project.write(test_shop=ANNOTATED)
    recorded = project.record()
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert "RECORDING" in recorded.stdout
    assert "(created, 5 calls, test passed)   replays" in recorded.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"], "the proof ran no tool"
    assert project.server.hits == 3, "the proof asked no model"
    (snapshot,) = project.snapshots
    assert snapshot.sealed
    assert snapshot.run.header.test == "test_shop.py::test_refund"
    assert [x.call.boundary for x in snapshot.run.exchanges] == ["http", "tool", "http", "tool", "http"]
    assert snapshot.run.header.outcome == {"status": "passed"}
    kit = snapshot.run.header.kit
    assert kit["annotations"] == {"user": "u-1", "flags": {"beta": True}}
    assert kit["models"][0]["model"] == "m-1"
    assert kit["packages"]["httpx2"]
    text = project.files[0].read_text(encoding="utf-8")
    assert "sk-live-0123456789abcdef" not in text
    assert text.count("You help customers.") == 1, "a prompt that is sent again is stored once"
    for words, environ in ((["--replay=model"], {}), ([], {"CI": "1"})):
        del project.environ["MODEL_API_KEY"]
        replayed = project.run(*words, MODEL_URL="http://127.0.0.1:9", **environ)
        assert replayed.returncode == 0, replayed.stdout
        assert "model frozen, tools frozen" in replayed.stdout
        project.environ["MODEL_API_KEY"] = "another"
    assert len(project.ledger) == 2
    assert project.server.hits == 3


def test_without_a_snapshot_the_first_call_fails_and_no_call_needs_none(project):
    project.write(test_quiet="def test_quiet(agentreplay):\n    assert agentreplay.mode == 'replay'\n")
    done = project.offline(MODEL_URL=project.server.url)
    assert "1 failed, 1 passed" in done.stdout
    assert "[AR-NEW]" in done.stdout
    assert "pytest --snapshot-record test_shop.py::test_refund" in done.stdout


FAILING = """
import os
import agent, pytest

NOW = os.environ.get("PROGRAM")

def test_fails_now(agentreplay):
    assert ("never" if NOW else "refund") in agent.answer("Where is A-17?")

def test_fails_no_longer(agentreplay):
    assert ("refund" if NOW else "never") in agent.answer("Where is A-17?")

@pytest.mark.agentreplay(expect="reproduces")
@pytest.mark.parametrize("error", ["ValueError", "KeyError", ""])
def test_kept(error):
    said = agent.answer("Where is A-17?")[:24] + "\\nmore"
    if error or not NOW:
        raise (KeyError if NOW and error == "KeyError" else ValueError)(said)
"""


@pytest.mark.proves(forked=True)
def test_a_failing_run_is_recorded_and_a_kept_failure_is_green_while_it_recurs_and_each_replaces_no_other(project):
    project.write(test_shop=FAILING)
    first = project.record()
    assert first.stdout.count("replays: fails as recorded") == 4, first.stdout
    assert runs(project)["fails_no_longer"].header.outcome["type"] == "AssertionError"
    assert runs(project)["kept[KeyError]"].header.outcome["message"].startswith("Here is your refund")
    kept = {file: file.read_bytes() for file in project.files}
    again = project.replay("-v", PROGRAM="changed", COLUMNS="200")
    assert [name for name in summary(again) if "kept" in name] == ["kept[KeyError]", "kept[]"]
    assert "fails differently" in sections(again)["kept[KeyError]"]
    assert "fails as recorded" in again.stdout
    second = project.record("--agentreplay-checks=unproved=ignore", PROGRAM="changed")
    assert "agentreplay accept" in second.stdout
    replaced = [file.name for file, data in kept.items() if file.read_bytes() != data]
    assert replaced == ["test_fails_no_longer.snapshot.json"], (
        "a passing run replaces one that failed, and no other does"
    )
    private = project.root / ".pytest_agentreplay"
    assert [*(private / "pending").rglob("test_fails_now.snapshot.json")]
    assert (private / ".gitignore").read_text(encoding="utf-8").strip() == "*"


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


def test_in_mode_off_all_is_live_and_a_test_is_skipped_where_it_reads_the_run_and_checked_before(project):
    project.plugins = ("syrupy", *project.plugins)
    project.write(test_shop=OFF)
    done = project.run("--replay=off", "-rA")
    assert "1 failed, 1 passed, 6 skipped" in done.stdout, done.stdout
    assert "OFF" in done.stdout
    assert "PASSED test_shop.py::test_reads_no_run" in done.stdout
    assert "FAILED test_shop.py::test_fails_before_it_reads_the_run - AssertionError" in done.stdout
    assert "mode off records no run" in done.stdout
    assert project.ledger == ["lookup A-17", "refund A-17 18.5"] * 2
    assert project.server.hits == 6
    assert project.files == []


# Only what is missing.

TESTS = """
import agent, pytest

@pytest.fixture(scope="module")
def shared():
    return agent.answer("Where is S-1?")

def test_old(agentreplay):
    assert "refund" in agent.answer("Where is A-17?")

def test_silent(agentreplay):
    pass
"""
MORE = """
def test_new(agentreplay):
    assert "refund" in agent.answer("Where is A-18?")

def test_by_fixture(agentreplay, shared):
    assert "refund" in shared
"""


@pytest.fixture
def grown(project):
    """A project with one recorded test, to which two more came; one needs a fixture that nobody has recorded."""
    project.write(test_shop=TESTS)
    recorded(project)
    (project.old,) = project.files
    project.before = project.old.read_bytes()
    project.write(test_shop=TESTS + MORE)
    project.asked = project.server.hits
    return project


@pytest.mark.proves(forked=True)
@pytest.mark.parametrize("words", [[], ["-p", "xdist.plugin", "-n", "2"]], ids=["one process", "xdist"])
def test_what_is_missing_is_recorded_and_the_rest_replayed(grown, words):
    done = passed(grown.run("--snapshot-record-missing", *words))
    assert "tests without a snapshot are RECORDED LIVE" in done.stdout
    assert done.stdout.count("(created, ") == 2, done.stdout
    assert done.stdout.count("   replays") == 2, "each recording is proved at once"
    assert "replayed 2 tests" not in done.stdout
    assert "replayed 1 test" in done.stdout
    assert "made no call" not in done.stdout
    assert grown.server.hits == grown.asked + 6, "three replies for each of the two runs that were missing"
    assert grown.old.read_bytes() == grown.before
    assert len(grown.files) == 3
    if not words:
        assert "created" not in passed(grown.run("--snapshot-record-missing", MODEL_URL=NOBODY)).stdout


def test_a_recorded_test_that_diverges_or_cannot_be_read_is_not_missing(grown):
    grown.edit("agent.py", "Be brief.", "Be short.")
    done = grown.run("--snapshot-record-missing", "-k", "test_old or test_new")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "[AR-PROMPT]" in done.stdout
    assert grown.old.read_bytes() == grown.before
    grown.old.write_bytes(grown.before[:-40])
    done = grown.run("--snapshot-record-missing", "-k", "test_old")
    assert "[AR-UNREADABLE]" in done.stdout
    assert grown.old.read_bytes() == grown.before[:-40]
    assert grown.server.hits == grown.asked + 3


@pytest.mark.parametrize(
    ("options", "environ", "ini", "reason"),
    [
        ({}, {"CI": "true"}, {}, "--snapshot-record-missing is refused because CI is set"),
        ({}, {"CI": "true"}, {"agentreplay_ci": ["record"]}, "refused because CI is set"),
        ({"record": True}, {}, {}, "--snapshot-record and --snapshot-record-missing ask for different things"),
        ({"replay": "model"}, {}, {}, "--snapshot-record-missing and --replay=model ask for different things"),
        ({"mode": "off"}, {}, {}, "--snapshot-record-missing and --agentreplay-mode=off ask for different things"),
        ({"replay_tools": "checked"}, {}, {}, "the mode is record"),
        ({"sandbox": "require"}, {}, {}, "the mode is record"),
    ],
)
def test_recording_what_is_missing_is_refused_on_ci_and_beside_another_mode(options, environ, ini, reason):
    options = {f"agentreplay_{name}": value for name, value in options.items()}
    typed = ["--agentreplay-sandbox=require"]
    with pytest.raises(SettingsError, match=re.escape(reason)):
        read_settings(options | {"agentreplay_record_missing": True}, ini, environ, typed_words=typed)


@pytest.mark.real_process
def test_workers_record_what_one_process_records(project):
    alone, spread = recorded_twice(project, 4, 2)
    assert len(alone) == 4
    assert spread == alone
    assert not [*project.root.rglob(".ar-*"), *project.root.rglob("*.jsonl")]
