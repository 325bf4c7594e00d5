"""`agentreplay accept` of many tests at once: folders, ids, `--all`, `--code`, `--dry-run`; each file whole or not at all."""

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

SAME, DIVERGED, USAGE, DAMAGED, NOTHING = 0, 1, 2, 4, 5
WHY = "the wording alone has changed"
FOLDER = "__agent_snapshots__/test_shop"

TESTS = """
import agent, pytest

@pytest.mark.parametrize("order", ["A-17", "A-18", "A-19"])
def test_refund(order, agentreplay):
    assert "refund" in agent.answer(f"Where is {order}?")

def test_other(agentreplay):
    assert "refund" in agent.answer("Where is B-1?", top_p=1)
"""
RECORDED = {}


@pytest.fixture
def recorded(project):
    """Four recorded tests that share one prompt; recorded once for this module."""
    project.write(test_shop=TESTS)
    folder = project.root / FOLDER
    if not RECORDED:
        assert project.record().returncode == SAME
        RECORDED.update({file.name: file.read_bytes() for file in folder.iterdir()})
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in RECORDED.items():
        (folder / name).write_bytes(data)
    project.asked = project.server.hits
    return project


def changed(project):
    """The names of the snapshots that are not as they were recorded."""
    return sorted(name for name, data in RECORDED.items() if (project.root / FOLDER / name).read_bytes() != data)


def accept(project, *words, code=SAME, **environ):
    done = project.command("accept", *words, **environ)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert project.server.hits == project.asked, "nothing goes live"
    return done


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--all"], 4),
        (["--all", "--code", "AR-PROMPT"], 4),
        (["."], 4),
        (["test_shop.py"], 4),
        (["test_shop.py::test_refund"], 3),
        (["test_shop.py::test_refund[A-17]", "test_shop.py::test_other"], 2),
    ],
    ids=["all", "code", "folder", "test file", "function", "two ids"],
)
def test_one_command_takes_the_changed_requests_of_many_tests(recorded, words, count):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    told = accept(recorded, *words, "--requests", "--reason", WHY).stdout
    assert told.count("3 changed requests") == count == len(changed(recorded)), told
    assert f"requests of {count} snapshots: {count} accepted" in told
    again = recorded.replay()
    assert f"{count} passed" in again.stdout


def test_a_dry_run_says_the_same_and_writes_nothing(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    told = accept(recorded, "--all", "--requests", "--dry-run").stdout
    assert told.count("to accept") == 5, told
    assert "requests of 4 snapshots: 4 to accept" in told
    assert changed(recorded) == []


def test_a_code_leaves_snapshots_with_other_changes_whole(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    recorded.edit("test_shop.py", "top_p=1", "top_p=0.5")
    told = accept(recorded, "--all", "--requests", "--reason", WHY, "--code", "ar-prompt").stdout
    assert "requests of 4 snapshots: 3 accepted, 1 left" in told
    assert f"left      {FOLDER}/test_other.snapshot.json: its changes are " in told
    assert "AR-MODEL" in told
    assert len(changed(recorded)) == 3
    assert "test_other.snapshot.json" not in changed(recorded)


def test_one_that_fails_leaves_its_own_file_and_no_other(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    recorded.edit("test_shop.py", '("Where is B-1?", top_p=1)', '("Where is B-1?", top_p=1) and agent.ask([])')
    told = accept(recorded, "--all", "--requests", "--reason", WHY, code=DIVERGED).stdout
    assert "requests of 4 snapshots: 3 accepted, 1 failed" in told
    assert len(changed(recorded)) == 3
    assert "test_other.snapshot.json" not in changed(recorded)


def test_unchanged_snapshots_are_counted_alone(recorded):
    told = accept(recorded, "--all", "--requests", "--reason", WHY).stdout
    assert "requests of 4 snapshots: 4 unchanged" in told
    assert "accepted  nothing" not in told
    assert changed(recorded) == []


def test_an_id_of_no_test_and_a_word_that_is_no_code_are_usage(recorded):
    said = accept(recorded, "test_shop.py::test_gone", "--requests", "--reason", WHY, code=USAGE).stderr
    assert "test_shop.py::test_gone: no snapshot" in said
    said = accept(recorded, "--all", "--requests", "--reason", WHY, "--code", "PROMPT", code=USAGE).stderr
    assert "the nearest is AR-PROMPT" in said
    said = accept(recorded, ".", "--all", "--requests", "--reason", WHY, code=USAGE).stderr
    assert "--all takes those of the whole project" in said


def test_a_damaged_snapshot_is_told_and_the_others_are_taken(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    broken = recorded.root / FOLDER / "test_other.snapshot.json"
    broken.write_bytes(broken.read_bytes()[:-40])
    done = accept(recorded, FOLDER, "--requests", "--reason", WHY, code=DAMAGED)
    assert "test_other.snapshot.json" in done.stderr
    assert "requests of 3 snapshots: 3 accepted" in done.stdout


# Pending runs.


def fail_and_record(project):
    project.edit("test_shop.py", '"refund" in', '"never" in')
    assert project.record().returncode == DIVERGED
    project.asked = project.server.hits


def test_pending_runs_are_shown_and_taken_together(recorded):
    fail_and_record(recorded)
    told = accept(recorded, "--all", "--dry-run").stdout
    assert told.count("to take   __agent_snapshots__/test_shop/") == 4
    assert "5 calls, test failed, changes: 1 AR-OUTCOME" in told
    assert changed(recorded) == []
    told = accept(recorded, "test_shop.py::test_refund").stdout
    assert (told.count("take      "), told.count(": taken for ")) == (3, 3)
    assert len(changed(recorded)) == 3
    told = accept(recorded, "--all").stdout
    assert told == f"{FOLDER}/test_other.snapshot.json: taken for test_shop.py::test_other\n"
    accept(recorded, "--all", code=NOTHING)


def test_pending_runs_with_other_changes_than_the_code_are_left(recorded):
    recorded.edit("agent.py", "Be brief.", "Be short.")
    fail_and_record(recorded)
    told = accept(recorded, FOLDER, "--code", "AR-OUTCOME", code=NOTHING).stdout
    assert told.count("left      ") == 4
    told = accept(recorded, FOLDER, "--code", "AR-OUTCOME", "--code", "AR-PROMPT").stdout
    assert told.count(": taken for ") == 4
    assert len(changed(recorded)) == 4


def test_a_damaged_pending_run_is_told_and_the_others_are_taken(recorded):
    fail_and_record(recorded)
    broken = recorded.root / ".pytest_agentreplay" / "pending" / FOLDER / "test_other.snapshot.json"
    broken.write_bytes(broken.read_bytes()[:-40])
    done = accept(recorded, "--all", code=DAMAGED)
    assert "test_other.snapshot.json" in done.stderr
    assert len(changed(recorded)) == 3
