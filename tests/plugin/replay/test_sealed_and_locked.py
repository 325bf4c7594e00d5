"""Snapshots that are not what was sealed or locked: told where people work, refused where the mode was typed or CI is set."""

import json
import re
import shutil

import pytest

from pytest_agentreplay.snapshots import codec
from tests.support.exhaustive import rare
from tests.support.small_projects import flat, passed, recorded

pytestmark = pytest.mark.env("main")

TESTS = """
import pytest, agent

@pytest.mark.parametrize("n", ["one", "two", "three"])
def test_refund(n, agentreplay):
    assert "refund" in agent.answer(f"Where is A-17? {n}")
"""


@pytest.fixture(scope="module")
def made(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    assert len(recorded(project).files) == 3
    passed(project.command("verify", "--lock"))
    shutil.rmtree(project.root / ".pytest_agentreplay")
    project.lock = project.root / "agentreplay.lock"
    project.kept = {file: file.read_bytes() for file in (*project.files, project.lock)}
    return project


@pytest.fixture
def locked(made):
    """The three snapshots as they were recorded, locked."""
    for file in made.files:
        file.unlink()
    for file, data in made.kept.items():
        file.write_bytes(data)
    made.live = made.ledger, made.server.hits
    yield made
    assert made.live == (made.ledger, made.server.hits), "nothing went live"


@pytest.fixture
def unlocked(locked):
    """The same without a lock."""
    locked.lock.unlink()
    return locked


def snapshot(project, test):
    return next(file for file in project.files if f"[{test}]" in json.loads(file.read_text("utf-8"))["header"]["test"])


def edit(project, test="two"):
    file = snapshot(project, test)
    text = file.read_text("utf-8")
    assert text.count("Here is your refund") == 1
    file.write_text(text.replace("Here is your refund", "Here, a refund"), encoding="utf-8")
    return file.relative_to(project.root).as_posix()


# A snapshot that was edited.


def test_an_unsealed_edit_is_told_at_home_refused_where_it_is_strict_and_sealed_by_a_command(unlocked):
    name = edit(unlocked)
    home = passed(unlocked.run())
    assert f"edited    {name}: edited after it was recorded: exchange 5\n" in home.stdout
    command = re.search(rf"agentreplay (verify {re.escape(name)} --accept-edit --reason \S+)", home.stdout)[1]
    for words, environ in ((["--replay=model"], {}), ([], {"CI": "1"})):
        done = unlocked.run(*words, **environ)
        assert done.returncode == 1, done.stdout
        assert "1 failed, 2 passed" in done.stdout
        assert "[AR-UNREADABLE]" in done.stdout
        told = flat(done).replace("snapshot cannot be used: ", f"{name}: ")
        assert f"{name}: edited after it was recorded: exchange 5" in told
        assert f"agentreplay verify {name} --accept-edit --reason WHY" in told
    passed(unlocked.command(*command.split()))
    assert "edited" not in passed(unlocked.run(CI="1")).stdout
    assert [revision["reason"] for file in unlocked.snapshots for revision in file.revisions] == ["WHY"]


@pytest.mark.parametrize(("path", "said"), [("integrity", "the seal"), *rare(("header.outcome", "header"))])
def test_without_a_seal_or_with_another_header_a_snapshot_counts_as_edited(unlocked, path, said):
    file = snapshot(unlocked, "two")
    doc = json.loads(file.read_text("utf-8"))
    if path == "integrity":
        del doc["integrity"]
    else:
        doc["header"]["outcome"] = {"status": "failed"}
    file.write_text(json.dumps(doc, indent=1), encoding="utf-8")
    refused = unlocked.run("-k", "two", CI="1")
    assert refused.returncode == 1
    assert f"edited after it was recorded: {said}" in flat(refused)
    warned = passed(unlocked.run("-q", "-k", "two"))
    assert (
        f"edited    {file.relative_to(unlocked.root).as_posix()}: edited after it was recorded: {said}" in warned.stdout
    )


def test_a_test_that_an_edit_fails_blames_the_edit_before_the_agent(unlocked):
    file = snapshot(unlocked, "two")
    text = file.read_text("utf-8")
    file.write_text(text.replace('"status": "late"', '"status": "lost"', 1), encoding="utf-8")
    done = unlocked.run("-k", "two")
    assert done.returncode == 1
    report, name = flat(done), file.relative_to(unlocked.root).as_posix()
    assert "likely cause the snapshot was edited after it was recorded: exchange 2; if not that, " in report
    assert f"if the edit is meant: agentreplay verify {name} --accept-edit --reason WHY" in report
    assert (
        f"else, if it was committed, take a whole one from HEAD or an older commit: git checkout HEAD -- {name}"
        in report
    )
    assert "--requests" not in report, "of an edited file it takes nothing"


# A folder that is locked.


def swap(project):
    """The content of one snapshot under another test's name, as somebody would who wants it green."""
    one, two = snapshot(project, "one"), snapshot(project, "two")
    test = codec.loads(two.read_bytes(), file="f").run.header.test
    two.write_text(codec.restate(one.read_bytes(), test, file="f"), encoding="utf-8")
    return two.relative_to(project.root).as_posix()


def test_a_strict_session_fails_once_for_what_is_not_as_locked(locked):
    shutil.copy(spare := snapshot(locked, "three"), spare.with_name("added.snapshot.json"))
    done = locked.replay()
    assert done.returncode == 1, done.stdout
    assert "3 passed" in done.stdout
    assert done.stdout.count("not as locked") == 1
    assert "locked    agentreplay.lock: 1 snapshot not as locked" in done.stdout
    assert "added.snapshot.json: is new" in done.stdout
    assert "if that is meant:   agentreplay verify . --lock" in done.stdout
    assert "the session fails for it" in done.stdout


def test_at_home_it_is_told(locked):
    name = swap(locked)
    done = passed(locked.run("-q", "-k", "three"))
    assert f"{name}: is another one" in done.stdout
    assert "the session fails" not in done.stdout


def test_under_xdist_the_controller_tells_it_once(locked):
    spare = snapshot(locked, "three")
    spare.unlink()
    done = locked.replay("-p", "xdist.plugin", "-n", "2", "--deselect", "test_shop.py::test_refund[three]")
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("not as locked") == 1
    assert f"{spare.name}: is gone" in done.stdout


def test_a_lock_that_is_none_fails_a_strict_session_in_a_line_where_a_snapshot_is_used(locked):
    locked.lock.write_text("nonsense\n", encoding="utf-8")
    done = locked.replay("-k", "three")
    assert done.returncode == 1, done.stdout
    assert "agentreplay.lock: line 1: " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    passed(locked.run("-k", "three"))
    locked.write(test_plain="def test_plain():\n    pass\n", test_fixture="def test_it(agentreplay):\n    pass\n")
    plain, off = locked.replay("test_plain.py"), locked.run("--replay=off", "test_fixture.py")
    assert "locked" not in passed(plain).stdout + passed(off).stdout


def test_what_writes_snapshots_says_that_the_lock_no_longer_fits_and_fails_nothing(locked):
    done = passed(locked.record("test_shop.py", "-k", "three"))
    locked.live = locked.ledger, locked.server.hits
    assert "locked    agentreplay.lock: 1 snapshot not as locked" in done.stdout
    assert "agentreplay verify . --lock" in done.stdout
    assert locked.run("test_shop.py", "-k", "one", CI="1").returncode == 1
    passed(locked.command("verify", "--lock"))
    done = passed(locked.command("verify", "--accept-edit", edit(locked), "--reason", "as the shop says it now"))
    assert "agentreplay.lock: no longer fits; to lock what is there: agentreplay verify . --lock" in done.stdout
    passed(locked.command("verify", "--lock"))
    passed(locked.run("test_shop.py", "-k", "one", CI="1"))
    shutil.rmtree(locked.root / ".pytest_agentreplay", ignore_errors=True)
