"""Two branches that recorded the same test: the merge is clean, or the next command says what to type."""

import os
import subprocess

import pytest

from pytest_agentreplay.cli.project_setup.git_files import with_attributes
from tests.support.git_projects import NOBODYS, commit, git
from tests.support.project import refunds

pytestmark = pytest.mark.env("main")  # git and this package alone

TEST = "test_shop.py::test_refund"
FILE = "__agent_snapshots__/test_shop/test_refund.snapshot.json"


@pytest.fixture
def branches(project):
    """A recorded test on the branch `main`, which is checked out."""
    (project.root / ".gitattributes").write_text(with_attributes(""), encoding="utf-8")
    (project.root / ".gitignore").write_text(".pytest_agentreplay/\n__pycache__/\nledger.txt\n", encoding="utf-8")
    project.server._replies = lambda body, _: refunds(body, 0)  # the same answers each time, under new ids
    git(project.root, "init", "-q", "-b", "main")
    commit(project.root, "code")
    assert project.record().returncode == 0
    commit(project.root, "recorded")
    return project


def on(project, branch, *changes):
    """Begin a branch at `main`, change files there, record and commit."""
    git(project.root, "checkout", "-q", "-B", branch, "main")
    for change in changes:
        project.edit(*change)
    assert project.record().returncode == 0
    commit(project.root, branch)


def merge(project, *words):
    """Merge `theirs` into `ours`; return what git said where it did not finish."""
    git(project.root, "checkout", "-q", "ours")
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid", "merge", "-q", *words, "theirs"]
    done = subprocess.run(
        command, cwd=project.root, env=os.environ | NOBODYS, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


PROMPT = ("agent.py", '"You help customers.', '"You help our customers.')
MODEL = ("agent.py", '"model": "m-1"', '"model": "m-2"')


def test_a_file_that_both_recorded_stays_whole_and_the_next_run_says_what_to_type(branches):
    on(branches, "ours", PROMPT)
    ours = (branches.root / FILE).read_bytes()
    on(branches, "theirs", MODEL)
    assert f"Merge conflict in {FILE}" in merge(branches)
    assert (branches.root / FILE).read_bytes() == ours

    red = branches.run()  # the code is merged: neither side's recording fits
    assert red.returncode == 1
    assert f"pytest --snapshot-record {TEST}" in red.stdout
    assert branches.record(TEST).returncode == 0
    commit(branches.root, "merged")
    assert branches.run().returncode == 0
    assert "our customers" in (text := (branches.root / FILE).read_text(encoding="utf-8"))
    assert '"m-2"' in text


def test_branches_that_recorded_the_same_merge_without_a_conflict(branches):
    on(branches, "ours")
    on(branches, "theirs", MODEL)
    assert merge(branches) == ""
    assert branches.run().returncode == 0


def test_a_rename_on_one_side_and_a_recording_on_the_other(branches):
    on(branches, "ours", PROMPT)
    git(branches.root, "checkout", "-q", "-b", "theirs", "main")
    branches.edit("test_shop.py", "test_refund", "test_money_back")
    new = TEST.replace("test_refund", "test_money_back")
    assert branches.command("mv", TEST, new).returncode == 0
    commit(branches.root, "renamed")
    assert "Merge conflict in" in merge(branches)
    assert f"agentreplay mv {TEST} {new}" in branches.run().stdout
    assert branches.command("mv", TEST, new).returncode == 0
    assert branches.run().returncode == 0


def test_marks_of_a_conflict_are_recognized_and_what_is_advised_works(branches):
    git(branches.root, "rm", "-q", ".gitattributes")
    commit(branches.root, "git merges line by line")
    on(branches, "ours", PROMPT)
    on(branches, "theirs", MODEL)
    assert merge(branches)
    assert "<<<<<<<" in (branches.root / FILE).read_text(encoding="utf-8")
    step = f"git checkout --ours {FILE}"
    red = branches.run(COLUMNS="300").stdout
    assert f"{step} && pytest --snapshot-record {TEST}" in red
    assert f"rm {FILE} && pytest --snapshot-record {TEST}" in red
    assert step in branches.command("verify").stderr
    git(branches.root, *step.split()[1:])
    assert branches.record(TEST).returncode == 0
    assert branches.run().returncode == 0


def test_marks_that_were_committed_are_got_rid_of_by_what_is_advised(branches):
    file = branches.root / FILE
    marked = file.read_text(encoding="utf-8").replace(' "exchanges"', '<<<<<<< HEAD\n "exchanges"', 1)
    file.write_text(marked, encoding="utf-8")
    commit(branches.root, "with marks")
    assert f"rm {FILE} && pytest --snapshot-record {TEST}" in branches.run(COLUMNS="300").stdout
    file.unlink()
    assert branches.record(TEST).returncode == 0


def test_a_file_that_git_mixed_is_found_by_its_digest(branches):
    git(branches.root, "rm", "-q", ".gitattributes")
    commit(branches.root, "git merges line by line")
    on(branches, "ours", PROMPT)
    on(branches, "theirs", MODEL)
    assert merge(branches, "-X", "ours") == "", "hunks in conflict are those of this branch, all others those of both"
    verified = branches.command("verify")
    assert verified.returncode == 4
    assert "edited after it was recorded" in verified.stderr
    red = branches.run("--replay=model", COLUMNS="300").stdout
    # The mixed file is committed, so a bare `git restore` would only bring it back.
    assert f"if it was committed, take a whole one from HEAD or an older commit: git checkout HEAD -- {FILE}" in red
    git(branches.root, "checkout", "HEAD~1", "--", FILE)
    assert branches.command("verify").returncode == 0
