"""The main job, from a user's side: record, replay offline; record only what is missing."""

import re

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.settings import resolve
from tests.store.faults.spreading import recorded_twice

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
    done = project.run()
    assert "1 failed, 1 passed" in done.stdout
    assert "[AR-NEW]" in done.stdout
    assert "pytest --snapshot-record test_shop.py::test_refund" in done.stdout
    assert project.server.hits == 0
    assert project.ledger == []


@pytest.mark.proves
def test_a_failing_run_is_recorded_and_never_replaces_a_passing_snapshot(project):
    project.edit("test_shop.py", '"refund" in', '"never" in')
    assert "fails as recorded" in project.record().stdout
    assert project.snapshots[0].run.header.outcome["type"] == "AssertionError"
    project.edit("test_shop.py", '"never" in', '"refund" in')
    assert project.record().returncode == 0
    before = project.files[0].read_bytes()
    project.edit("test_shop.py", '"refund" in', '"never" in')
    done = project.record()
    assert project.files[0].read_bytes() == before
    assert "agentreplay accept" in done.stdout
    assert list((project.root / ".pytest_agentreplay" / "pending").rglob("*.snapshot.json"))
    assert (project.root / ".pytest_agentreplay" / ".gitignore").read_text(encoding="utf-8").strip() == "*"


@pytest.mark.proves
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
    assert project.replay("test_kept.py").returncode == 1
    before = project.files[0].read_bytes()
    project.record("test_kept.py", "--agentreplay-no-prove")
    assert project.files[0].read_bytes() == before, "nothing replaces a failure that its test keeps"


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
    assert project.record("--agentreplay-no-prove").returncode == 0
    (project.old,) = project.root.rglob("test_old.snapshot.json")
    project.before = project.old.read_bytes()
    project.write(test_shop=TESTS + MORE)
    project.asked = project.server.hits
    return project


@pytest.mark.proves
@pytest.mark.parametrize("words", [[], ["-p", "xdist.plugin", "-n", "2"]], ids=["one process", "xdist"])
def test_what_is_missing_is_recorded_and_the_rest_replayed(grown, words):
    done = grown.run("--snapshot-record-missing", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tests without a snapshot are RECORDED LIVE" in done.stdout
    assert done.stdout.count("(created, ") == 2, done.stdout
    assert done.stdout.count("   replays") == 2, "each recording is proved at once"
    assert "replayed 2 tests" not in done.stdout
    assert "replayed 1 test" in done.stdout
    assert "made no call" not in done.stdout
    assert grown.server.hits == grown.asked + 6, "three replies for each of the two runs that were missing"
    assert grown.old.read_bytes() == grown.before
    assert len(grown.files) == 3
    again = grown.run("--snapshot-record-missing", MODEL_URL="http://127.0.0.1:9")
    assert again.returncode == 0, again.stdout
    assert "created" not in again.stdout


def test_a_recorded_test_that_diverges_or_cannot_be_read_is_not_missing(grown):
    grown.edit("agent.py", "Be brief.", "Be short.")
    done = grown.run("--snapshot-record-missing", "-k", "test_old or test_new")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "[AR-PROMPT]" in done.stdout
    assert grown.old.read_bytes() == grown.before
    assert grown.server.hits == grown.asked + 3
    grown.old.write_bytes(grown.before[:-40])
    done = grown.run("--snapshot-record-missing", "-k", "test_old")
    assert "[AR-UNREADABLE]" in done.stdout
    assert grown.old.read_bytes() == grown.before[:-40]
    assert grown.server.hits == grown.asked + 3


@pytest.mark.parametrize(
    ("options", "environ", "ini", "reason"),
    [
        ({}, {"CI": "true"}, {}, "--snapshot-record-missing is refused because CI is set"),
        ({}, {"CI": "true"}, {"agentreplay_ci_record": True}, "refused because CI is set"),
        ({"record": True}, {}, {}, "--snapshot-record-missing and --snapshot-record ask for different things"),
        ({"replay": "model"}, {}, {}, "--snapshot-record-missing and --replay ask for different things"),
        ({"mode": "off"}, {}, {}, "--snapshot-record-missing and --agentreplay-mode ask for different things"),
        ({"replay_tools": "verify"}, {}, {}, "the mode is record"),
        ({"sandbox": "require"}, {}, {}, "the mode is record"),
    ],
)
def test_recording_what_is_missing_is_refused_on_ci_and_beside_another_mode(options, environ, ini, reason):
    options = {f"agentreplay_{name}": value for name, value in options.items()}
    with pytest.raises(SettingsError, match=re.escape(reason)):
        resolve(options | {"agentreplay_record_missing": True}, ini, environ)


@pytest.mark.real_process
def test_workers_record_what_one_process_records(project):
    alone, spread = recorded_twice(project, 6, 3)
    assert len(alone) == 6
    assert spread == alone
    assert not [*project.root.rglob(".ar-*"), *project.root.rglob("*.jsonl")]
