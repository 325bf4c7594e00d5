"""`--snapshot-record-missing`: tests without a snapshot are recorded, the others are replayed."""

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

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
    assert project.record().returncode == 0
    (project.old,) = project.root.rglob("test_old.snapshot.json")
    project.before = project.old.read_bytes()
    project.write(test_shop=TESTS + MORE)
    project.asked = project.server.hits
    return project


def names(project):
    return sorted(file.name for file in (project.root / "__agent_snapshots__" / "test_shop").iterdir())


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
    assert len(names(grown)) == 3
    again = grown.run("--snapshot-record-missing")
    assert again.returncode == 0, again.stdout
    assert "created" not in again.stdout
    assert grown.server.hits == grown.asked + 6
    assert grown.offline().returncode == 0


def test_a_recorded_test_that_diverges_fails_and_keeps_its_snapshot(grown):
    grown.edit("agent.py", "Be brief.", "Be short.")
    done = grown.run("--snapshot-record-missing", "-k", "test_old or test_new")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "[AR-PROMPT]" in done.stdout
    assert grown.old.read_bytes() == grown.before
    assert grown.server.hits == grown.asked + 3


def test_an_unreadable_snapshot_is_not_taken_for_a_missing_one(grown):
    grown.old.write_bytes(grown.before[:-40])
    done = grown.run("--snapshot-record-missing", "-k", "test_old")
    assert "[AR-UNREADABLE]" in done.stdout
    assert grown.old.read_bytes() == grown.before[:-40]
    assert grown.server.hits == grown.asked


@pytest.mark.parametrize(
    ("words", "environ", "reason"),
    [
        ([], {"CI": "true"}, "--snapshot-record-missing is refused because CI is set"),
        (["--snapshot-record"], {}, "--snapshot-record-missing and --snapshot-record ask for different things"),
        (["--replay=model"], {}, "--snapshot-record-missing and --replay ask for different things"),
        (["--agentreplay-mode=off"], {}, "--snapshot-record-missing and --agentreplay-mode ask for different things"),
        (["--replay-tools=verify"], {}, "the mode is record"),
        (["--agentreplay-sandbox=require"], {}, "the mode is record"),
    ],
)
def test_it_is_refused_on_ci_and_beside_another_mode(grown, words, environ, reason):
    done = grown.run("--snapshot-record-missing", *words, **environ)
    assert done.returncode == 4
    assert reason in done.stderr
    assert grown.server.hits == grown.asked
    assert names(grown) == [grown.old.name]


def test_ci_refuses_it_where_recording_is_allowed(grown):
    (grown.root / "pytest.ini").write_text(
        (grown.root / "pytest.ini").read_text(encoding="utf-8") + "agentreplay_ci_record = true\n", encoding="utf-8"
    )
    done = grown.run("--snapshot-record-missing", CI="true")
    assert done.returncode == 4
    assert "refused because CI is set" in done.stderr
