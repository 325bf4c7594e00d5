"""`agentreplay accept` of many tests at once: folders, ids, `--all`, `--code`, `--dry-run`; each file whole or not at all."""

import pytest

from pytest_agentreplay.runs.snapshot_selection import select_snapshots
from tests.support.kept_files import contents, put_back

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

SAME, DIVERGED, USAGE, DAMAGED, NOTHING = 0, 1, 2, 4, 5
REASON = ("--requests", "--reason", "the wording alone has changed")
FOLDER = "__agent_snapshots__/test_shop"
OTHER = f"{FOLDER}/test_other.snapshot.json"

TESTS = """
import agent, pytest

@pytest.mark.parametrize("order", ["A-17", "A-18", "A-19"])
def test_refund(order, agentreplay):
    assert "refund" in agent.answer(f"Where is {order}?")

def test_other(agentreplay):
    assert "refund" in agent.answer("Where is B-1?", top_p=1)
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    assert project.record().returncode == SAME
    project.kept = contents(project.root)
    return project


@pytest.fixture
def recorded(shop, monkeypatch):
    """Four recorded tests that share one prompt, in whose root commands are typed."""
    put_back(shop.root, shop.kept)
    monkeypatch.chdir(shop.root)
    shop.asked = shop.server.hits
    return shop


def changed(project):
    """The names of the snapshots that are not as they were recorded."""
    found = contents(project.root)
    names = (name for name in project.kept if name.startswith(FOLDER))
    return [name for name in names if found[name] != project.kept[name]]


def accept(project, *words, code=SAME):
    done = project.command("accept", *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert project.server.hits == project.asked, "nothing goes live"
    return done


def reword(project):
    project.edit("agent.py", "Be brief.", "Be short.")


def test_one_command_takes_the_changed_requests_of_all_tests_and_a_dry_run_says_the_same(recorded):
    told = accept(recorded, "--all", *REASON).stdout
    assert "requests of 4 snapshots: 4 unchanged" in told
    assert "accepted  nothing" not in told
    reword(recorded)
    told = accept(recorded, "--all", "--requests", "--dry-run").stdout
    assert told.count("to accept") == 5, told
    assert "requests of 4 snapshots: 4 to accept" in told
    assert changed(recorded) == []
    told = accept(recorded, "--all", *REASON).stdout
    assert told.count("3 changed requests") == len(changed(recorded)) == 4
    assert "requests of 4 snapshots: 4 accepted" in told
    assert "4 passed" in recorded.replay().stdout


def test_those_of_a_folder_a_file_a_function_or_of_ids_are_chosen(recorded):
    for words, count in (
        ([], 4),
        (["."], 4),
        (["test_shop.py"], 4),
        (["test_shop.py::test_refund"], 3),
        (["test_shop.py::test_refund[A-17]", "test_shop.py::test_other"], 2),
        (["test_shop.py::test_other", OTHER], 1),
    ):
        assert len(select_snapshots(words, recorded.root)) == count, words


def test_a_code_leaves_snapshots_with_other_changes_whole_and_one_that_fails_leaves_its_own(recorded):
    reword(recorded)
    recorded.edit("test_shop.py", "top_p=1", "top_p=0.5")
    told = accept(recorded, "--all", *REASON, "--code", "ar-prompt").stdout
    assert "requests of 4 snapshots: 3 accepted, 1 left" in told
    assert f"left      {OTHER}: its changes are " in told
    assert "AR-MODEL" in told
    recorded.edit("agent.py", "Be kind.", "Be nice.")
    recorded.edit("test_shop.py", '("Where is B-1?", top_p=0.5)', '("Where is B-1?", top_p=1) and agent.ask([])')
    told = accept(recorded, "--all", *REASON, code=DIVERGED).stdout
    assert "requests of 4 snapshots: 3 accepted, 1 failed" in told
    assert (len(changed(recorded)), OTHER in changed(recorded)) == (3, False)


def test_a_damaged_snapshot_is_told_and_the_others_are_taken(recorded):
    reword(recorded)
    broken = recorded.root / OTHER
    broken.write_bytes(broken.read_bytes()[:-40])
    done = accept(
        recorded, "test_shop.py::test_refund[A-17]", "test_shop.py::test_refund[A-18]", OTHER, *REASON, code=DAMAGED
    )
    assert "test_other.snapshot.json" in done.stderr
    assert "requests of 2 snapshots: 2 accepted" in done.stdout


def test_an_id_of_no_test_and_a_word_that_is_no_code_are_usage(recorded, typed):
    for words, said in (
        (
            ["test_shop.py::test_othr"],
            ": no snapshot or pending run below . is of this test; the nearest: test_shop.py::test_other",
        ),
        (
            ["test_othr"],
            "test_othr: no snapshot or pending run below . is of this test; the nearest: test_shop.py::test_other",
        ),
        (["tests_shop.py"], "is of this test; the nearest: test_shop.py"),
        (["what"], "what: no snapshot or pending run below . is of this test\n"),
        ([OTHER.replace("other", "gone")], "test_gone.snapshot.json: there is no such file"),
        (["--all", "--code", "PROMPT"], "the nearest is AR-PROMPT"),
        ([".", "--all"], "--all takes those of the whole project"),
    ):
        for more in ((), REASON):
            told = typed("accept", *words, *more)
            assert (told.code, said in told.err) == (USAGE, True), told
    for word in ("test_shop.py::test_other", OTHER):
        told = typed("accept", word)
        assert (told.code, "no run is pending" in told.err) == (USAGE, True), told


def fail_and_record(project):
    project.edit("test_shop.py", '"refund" in', '"never" in')
    assert project.record().returncode == DIVERGED


def test_pending_runs_are_shown_and_taken_together_and_a_damaged_one_is_told(recorded, typed):
    fail_and_record(recorded)
    told = typed("accept", "--all", "--dry-run")
    assert (told.code, told.out.count("to take   __agent_snapshots__/test_shop/")) == (SAME, 4)
    assert "5 calls, test failed, changes: 1 AR-OUTCOME" in told.out
    assert changed(recorded) == []
    told = typed("accept", "test_shop.py::test_refund").out
    assert (told.count("take      "), told.count(": taken for ")) == (3, 3)
    assert len(changed(recorded)) == 3
    broken = recorded.root / ".pytest_agentreplay" / "pending" / OTHER
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-40])
    told = typed("accept", "--all")
    assert (told.code, "test_other.snapshot.json" in told.err) == (DAMAGED, True)
    broken.write_bytes(whole)
    assert typed("accept", "--all") == (SAME, f"{OTHER}: taken for test_shop.py::test_other\n", "")
    assert typed("accept", "--all").code == NOTHING


def test_pending_runs_with_other_changes_than_the_code_are_left(recorded, typed):
    reword(recorded)
    fail_and_record(recorded)
    left = typed("accept", FOLDER, "--code", "AR-OUTCOME")
    assert (left.code, left.out.count("left      ")) == (NOTHING, 4)
    codes = [word for code in ("AR-OUTCOME", "AR-PROMPT", "AR-REPLY") for word in ("--code", code)]
    taken = typed("accept", FOLDER, *codes)
    assert (taken.code, taken.out.count(": taken for "), len(changed(recorded))) == (SAME, 4, 4)
