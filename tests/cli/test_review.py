"""`agentreplay review`: what waits, one divergent turn at a time; by keys in a terminal, else as a list."""

import json
import os
import sys
from contextlib import nullcontext
from dataclasses import replace

import pytest

from pytest_agentreplay.cli import reviewing, verbs
from pytest_agentreplay.runs.pending_review import ReviewWalk, list_reviewed
from pytest_agentreplay.snapshots import codec
from tests.support.git_projects import commit, git
from tests.support.kept_files import contents, put_back

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

SAME, USAGE, NOTHING = 0, 2, 5
FOLDER = "__agent_snapshots__/test_shop"
PENDING = f".pytest_agentreplay/pending/{FOLDER}"
TESTS = """
import agent, pytest

@pytest.mark.parametrize("order", ["A-17", "A-18", "A-19"])
def test_refund(order, agentreplay):
    assert "refund" in agent.answer(f"Where is {order}?")
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    """A committed project; three pending runs with another prompt, model answers and end, and one of a new test."""
    project = shared_project()
    project.furnish(TESTS)
    (project.root / ".gitignore").write_text("ledger.txt\n__pycache__\n", encoding="utf-8")
    assert project.record().returncode == SAME
    git(project.root, "init", "-q")
    commit(project.root, "recorded")
    project.edit("agent.py", "Be brief.", "Be short.")
    project.edit("test_shop.py", '"refund" in', '"never" in')
    assert project.record().returncode == 1
    pending = project.root / PENDING
    first = sorted(pending.iterdir())[0]
    run = codec.loads(first.read_bytes(), file="f").run
    header = replace(run.header, test="test_shop.py::test_new", outcome={"status": "interrupted"})
    (pending / "test_new.snapshot.json").write_text(codec.dumps(replace(run, header=header)), encoding="utf-8")
    project.kept = contents(project.root)
    return project


@pytest.fixture
def waiting(shop, monkeypatch):
    """The project as it was, in whose root commands are typed."""
    put_back(shop.root, shop.kept)
    monkeypatch.chdir(shop.root)
    return shop


def changed(project):
    """The names of the files that are not as they were."""
    found = contents(project.root)
    names = (name for name in {*found, *project.kept} if not name.startswith(".git/"))  # whose index it may refresh
    return sorted(name for name in names if found.get(name) != project.kept.get(name))


def walk(project):
    return ReviewWalk(list_reviewed([], project.root), width=80)


def test_without_a_terminal_it_lists_what_waits_and_what_to_type(waiting, typed):
    told = typed("review")
    assert told.code == SAME
    assert told == typed("review", "--list")
    lines = told.out.splitlines()
    assert lines[0] == f"new       {FOLDER}/test_new.snapshot.json: 5 calls, test interrupted, no snapshot before"
    assert lines[1] == f"          agentreplay accept {PENDING}/test_new.snapshot.json"
    assert told.out.count("5 calls, test failed, changes: AR-PROMPT, AR-REPLY, AR-OUTCOME") == 3
    data = json.loads(typed("review", "--json").out)["runs"]
    assert [run["state"] for run in data] == ["new", "pending", "pending", "pending"]
    assert data[1]["divergences"][0]["properties"]["path"] == "$.messages[0].content"
    for finding in data[1]["divergences"]:
        assert finding["test"] == "test_shop.py::test_refund[A-17]"
        assert not [line for line in finding["lines"] if line["what"] == "next"], "command says what to type"
    assert len(json.loads(typed("review", "test_shop.py::test_refund[A-17]", "--json").out)["runs"]) == 1
    assert typed("review", "test_shop.py::test_gone").code == USAGE
    assert changed(waiting) == []


def test_each_divergent_turn_shows_both_sides_and_the_cause_and_the_last_one_takes_the_run(waiting):
    steps = walk(waiting)
    assert steps.show().startswith("[1/4] new ")
    shown = steps.obey("s")
    assert "left as it is" in shown
    assert "divergent turn 1 of 3" in shown
    assert "    - Be brief.\n" in shown
    assert "    + Be short.\n" in shown
    assert "likely cause  the prompt was edited" in shown
    assert "divergent turn 2 of 3" in steps.obey("a")
    assert "[AR-OUTCOME]" in steps.obey("a")
    assert changed(waiting) == []
    assert ": taken for test_shop.py::test_refund[A-17]" in steps.obey("a")
    taken = [name for name in changed(waiting) if "a-17" in name]
    assert len(taken) == 2, "the snapshot is written, the pending run is gone"
    assert steps.summarize() == "1 run accepted, 3 left: agentreplay review"
    shown = ReviewWalk(list_reviewed([], waiting.root), width=80, colour=True).obey("s")
    assert "\x1b[32m" in shown


def test_one_key_accepts_a_kind_everywhere_and_a_run_with_another_change_is_left(waiting):
    steps = walk(waiting)
    steps.obey("s")
    for _ in range(2):
        steps.obey("A")
    assert not steps.done
    steps.obey("A")
    assert steps.done
    assert steps.summarize() == "3 runs accepted, 1 left: agentreplay review"
    assert f"{PENDING}/test_new.snapshot.json" not in changed(waiting)


def test_the_whole_difference_and_the_help_change_nothing_and_an_unknown_key_is_named(waiting):
    steps = walk(waiting)
    assert "turn 3" in steps.obey("d"), "a new run is shown whole"
    steps.obey("s")
    assert all(code in steps.obey("d") for code in ("AR-PROMPT", "AR-REPLY", "AR-OUTCOME"))
    assert "A   accept it here and in all other runs" in steps.obey("?")
    assert steps.obey("x") == "no key x; ? lists them"
    assert steps.obey("") == ""
    assert steps.show_keys().splitlines() == [
        f"[2/4] {FOLDER}/{sorted((waiting.root / PENDING).iterdir())[1].name}",
        "a accept  A accept all of this kind  r reject  s skip  d whole difference  q quit  ? help",
    ]
    assert steps.obey("q") is None
    assert changed(waiting) == []


def test_a_run_is_rejected_by_the_same_key_twice_and_by_no_other(waiting):
    steps = walk(waiting)
    asks = f"r again deletes {PENDING}/test_new.snapshot.json; any other key leaves it"
    for other in ("", "a", "s", "\x1b[3~"):
        assert steps.obey("r") == asks
        assert steps.obey(other) == "nothing is deleted"
        assert steps.show().startswith("[1/4] new "), "the key does nothing else"
    assert changed(waiting) == []
    assert steps.obey("r") == asks
    assert steps.obey("r").startswith(f"{PENDING}/test_new.snapshot.json: deleted\n\n[2/4] pending ")
    assert changed(waiting) == [f"{PENDING}/test_new.snapshot.json"]
    assert steps.summarize() == "0 runs accepted, 1 rejected, 3 left: agentreplay review"


def test_the_keys_stand_below_each_answer_and_the_end_of_the_input_leaves_all_as_it_is(waiting, capsys, monkeypatch):
    typed_ahead = iter("sd\n")
    monkeypatch.setattr("pytest_agentreplay.cli.showing.open_keys", lambda: nullcontext(lambda: next(typed_ahead, "")))
    reviewing.walk(list_reviewed([], waiting.root))
    lines = capsys.readouterr().out.splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("a accept  A accept all of this kind")]
    assert [lines[number - 1][:6] for number in at] == ["[1/4] ", "[2/4] ", "[2/4] ", "[2/4] "]
    assert lines[-1] == "0 runs accepted, 4 left: agentreplay review"
    assert changed(waiting) == []


def test_a_whole_difference_that_is_longer_than_the_terminal_is_paged(waiting, capsys, monkeypatch):
    paged = []
    monkeypatch.setattr("pydoc.pager", paged.append)
    monkeypatch.delenv("CI", raising=False)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("LINES", "10")
    verbs.write_pages(walk(waiting).obey("d"))
    assert "turn 3" in paged[0]
    assert capsys.readouterr().out == ""


def test_what_was_accepted_stays_when_the_walk_is_interrupted(waiting, capsys, monkeypatch):
    keys = iter("a")

    def read_command(_):
        try:
            return next(keys)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("pytest_agentreplay.cli.showing.read_command", read_command)
    with pytest.raises(KeyboardInterrupt):
        reviewing.walk(list_reviewed([], waiting.root))
    assert "1 run accepted, 3 left: agentreplay review" in capsys.readouterr().out
    assert changed(waiting) == sorted([f"{FOLDER}/test_new.snapshot.json", f"{PENDING}/test_new.snapshot.json"])


def test_a_snapshot_that_changed_in_git_has_nothing_to_accept_and_a_damaged_one_cannot_be(waiting, typed):
    pending = sorted((waiting.root / PENDING).iterdir())
    homes = [waiting.root / FOLDER / file.name for file in pending]
    homes[1].write_bytes(pending[1].read_bytes())
    homes[2].write_bytes(homes[2].read_bytes()[:-40])
    for file in pending:
        file.unlink()
    lines = typed("review").out.splitlines()
    assert lines[0].startswith(f"refused   {FOLDER}/{homes[2].name}: ")
    assert lines[1].startswith(f"in git    {FOLDER}/{homes[1].name}: 5 calls, test failed, changes: AR-PROMPT, ")
    assert lines[2].strip().startswith("git restore ")
    steps = walk(waiting)
    assert steps.obey("a").startswith("this one cannot be accepted: ")
    steps.obey("s")
    steps.obey("a")
    steps.obey("a")
    before = contents(waiting.root)
    assert "kept; the file is in the working tree already, so there is nothing to accept" in steps.obey("a")
    assert contents(waiting.root) == before


def test_nothing_waits(waiting, typed):
    for file in (waiting.root / PENDING).iterdir():
        file.unlink()
    told = typed("review")
    assert (told.code, told.out, told.err.count("\n")) == (NOTHING, "", 1)
    assert json.loads(typed("review", "--json").out) == {"runs": []}


def test_without_git_or_a_repository_it_says_that_nothing_is_compared_and_lists_what_is_pending(
    waiting, typed, monkeypatch, tmp_path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    told = typed("review", "--json")
    assert len(json.loads(told.out)["runs"]) == 4
    assert told.err == (
        "agentreplay: snapshots are not compared with git's HEAD: git is not installed, or not on the PATH\n"
    )
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    told = typed("review")
    assert (told.code, told.out, "there is no git repository here" in told.err) == (NOTHING, "", True)
    git(tmp_path, "init", "-q")
    assert typed("review").err.endswith("compared with git's HEAD: this repository has no commit yet\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX")
@pytest.mark.real_process
def test_single_keys_in_a_terminal(waiting):
    import pty
    import subprocess

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "pytest_agentreplay", "review"]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, env=waiting.surroundings(), cwd=waiting.root)
    os.close(follower)
    os.write(leader, b"s?AAAq")
    text = b""
    while b"3 runs accepted, 1 left: agentreplay review" not in text and process.poll() is None:
        text += os.read(leader, 4096)
    assert process.wait(60) == SAME, text
    os.close(leader)
    assert len([name for name in changed(waiting) if name.startswith(FOLDER)]) == 3
