"""Snapshots that are not what was sealed or locked: told where people work, refused where the mode was typed or CI is set."""

import json
import re
import shutil

import pytest

from pytest_agentreplay import codec
from tests.support.exhaustive import rare

pytestmark = pytest.mark.env("main")

TESTS = """
import pytest, agent

@pytest.mark.parametrize("n", ["one", "two", "three"])
def test_refund(n, agentreplay):
    assert "refund" in agent.answer(f"Where is A-17? {n}")
"""

TYPED = [
    (["--replay=model"], {}),
    (["--agentreplay-mode=model"], {}),
    ([], {"AGENTREPLAY": "model"}),
    ([], {"CI": "1"}),
]
"""How the mode is said by somebody who means it; `AGENTREPLAY` and the flags are the same, as CI is."""


@pytest.fixture(scope="module")
def made(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    done = project.record("--agentreplay-no-prove")
    assert done.returncode == 0, done.stdout
    assert len(project.files) == 3
    shutil.rmtree(project.root / ".pytest_agentreplay")
    project.kept = {file.relative_to(project.root): file.read_bytes() for file in project.files}
    return project


@pytest.fixture
def recorded(made):
    """The three snapshots as they were recorded, and no lock."""
    for file in (*made.files, *made.root.rglob("agentreplay.lock*")):
        file.unlink()
    for name, data in made.kept.items():
        (made.root / name).parent.mkdir(parents=True, exist_ok=True)
        (made.root / name).write_bytes(data)
    made.live = made.ledger, made.server.hits
    yield made
    assert made.live == (made.ledger, made.server.hits), "nothing went live"


def flat(text):
    return re.sub(r"\s+", " ", text)


def snapshot(project, test):
    return next(file for file in project.files if f"[{test}]" in json.loads(file.read_text("utf-8"))["header"]["test"])


def edit(project, test="two"):
    file = snapshot(project, test)
    text = file.read_text("utf-8")
    assert text.count("Here is your refund") == 1
    file.write_text(text.replace("Here is your refund", "Here, a refund"), encoding="utf-8")
    return file.relative_to(project.root).as_posix()


# A snapshot that was edited.


def test_an_unsealed_edit_is_told_at_home_refused_where_the_mode_was_typed_and_sealed_by_a_command(recorded):
    name = edit(recorded)
    home = recorded.run()
    assert home.returncode == 0, home.stdout
    assert f"edited    {name}: exchange 5 was edited after it was sealed" in home.stdout
    command = re.search(rf"agentreplay (reseal {re.escape(name)} --reason \S+)", home.stdout)[1]
    for words, environ in TYPED:
        done = recorded.run(*words, **environ)
        assert done.returncode == 1, done.stdout
        assert "1 failed, 2 passed" in done.stdout
        told = flat(done.stdout)
        assert "[AR-UNREADABLE]" in told
        assert f"{name}: exchange 5 was edited after it was sealed" in told.replace(
            "snapshot cannot be used: ", f"{name}: "
        )
        assert f"agentreplay reseal {name} --reason WHY" in told
    assert recorded.command(*command.split()).returncode == 0
    done = recorded.run(CI="1")
    assert done.returncode == 0, done.stdout
    assert "edited" not in done.stdout
    assert [revision["reason"] for file in recorded.snapshots for revision in file.revisions] == ["WHY"]


def unsealed(doc):
    del doc["integrity"]


def without_digest(doc):
    del doc["integrity"]["digest"]


def edited_header(doc):
    doc["header"]["outcome"]["status"] = "failed"


@pytest.mark.parametrize(
    ("how", "said"), [(unsealed, "the seal"), (edited_header, "header"), *rare((without_digest, "the seal"))]
)
def test_without_a_digest_or_with_another_header_a_snapshot_counts_as_edited(recorded, how, said):
    file = snapshot(recorded, "two")
    doc = json.loads(file.read_text("utf-8"))
    how(doc)
    file.write_text(json.dumps(doc, indent=1), encoding="utf-8")
    refused = recorded.run("-k", "two", CI="1")
    assert refused.returncode == 1
    assert "was edited after it was sealed" in flat(refused.stdout)
    warned = recorded.run("-q", "-k", "two")
    assert warned.returncode == 0, warned.stdout
    assert f"edited    {file.relative_to(recorded.root).as_posix()}: {said}" in warned.stdout


@pytest.mark.parametrize(("key", "value"), [("alg", "none"), *rare(("form", "agentreplay-c0"))])
def test_a_seal_that_is_not_known_is_refused_everywhere(recorded, key, value):
    file = snapshot(recorded, "two")
    doc = json.loads(file.read_text("utf-8"))
    doc["integrity"][key] = value
    file.write_text(json.dumps(doc), encoding="utf-8")
    done = recorded.run("-k", "two")
    assert done.returncode == 1
    assert "which is not known here" in flat(done.stdout)


def test_a_checkout_with_other_line_ends_is_as_sealed(recorded):
    assert recorded.command("lock").returncode == 0
    for file in (*recorded.files, recorded.root / "agentreplay.lock"):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    done = recorded.replay()
    assert done.returncode == 0, done.stdout
    assert "edited" not in done.stdout
    assert "locked" not in done.stdout


# A folder that is locked.


@pytest.fixture
def locked(recorded):
    done = recorded.command("lock")
    assert done.returncode == 0, done.stderr
    return recorded


def swap(project):
    """The content of one snapshot under another test's name, as somebody would who wants it green."""
    one, two = snapshot(project, "one"), snapshot(project, "two")
    test = codec.loads(two.read_bytes(), file="f").run.header.test
    two.write_text(codec.restated(one.read_bytes(), test, file="f"), encoding="utf-8")
    return two.relative_to(project.root).as_posix()


@pytest.mark.parametrize(("words", "environ"), [TYPED[0], *rare(*TYPED[1:])])
def test_a_strict_session_fails_once_for_what_is_not_as_locked(locked, words, environ):
    spare = snapshot(locked, "three")
    added = spare.with_name("added.snapshot.json")
    shutil.copy(spare, added)
    try:
        done = locked.run(*words, **environ)
    finally:
        added.unlink()
    assert done.returncode == 1, done.stdout
    assert "3 passed" in done.stdout
    assert done.stdout.count("not as locked") == 1
    assert "locked    agentreplay.lock: 1 snapshot not as locked" in done.stdout
    assert "added.snapshot.json: is new" in done.stdout
    assert "if that is meant:   agentreplay lock ." in done.stdout
    assert "the session fails for it" in done.stdout


def test_at_home_it_is_told(locked):
    name = swap(locked)
    done = locked.run("-k", "three")
    assert done.returncode == 0, done.stdout
    assert f"{name}: is another one" in done.stdout
    assert "the session fails" not in done.stdout
    assert "not as locked" in locked.run("-q", "-k", "three").stdout


def test_under_xdist_the_controller_tells_it_once(locked):
    locked.plugins = (*locked.plugins, "xdist.plugin")
    try:
        assert locked.replay("-n", "2").returncode == 0
        spare = snapshot(locked, "three")
        spare.unlink()
        done = locked.replay("-n", "2", "--deselect", "test_shop.py::test_refund[three]")
    finally:
        locked.plugins = locked.plugins[:-1]
    assert done.returncode == 1, done.stdout
    assert done.stdout.count("not as locked") == 1
    assert f"{spare.name}: is gone" in done.stdout


@pytest.mark.parametrize("text", ["nonsense\n", *rare("<<<<<<< ours\n", f"{'a' * 64}  ../../x.snapshot.json  1\n")])
def test_a_lock_that_is_none_fails_a_strict_session_in_a_line(locked, text):
    (locked.root / "agentreplay.lock").write_text(text, encoding="utf-8")
    done = locked.replay("-k", "three")
    assert done.returncode == 1, done.stdout
    assert "agentreplay.lock: line 1: " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert locked.run("-k", "three").returncode == 0


def test_a_lock_is_not_looked_at_where_no_snapshot_is_used(locked):
    (locked.root / "agentreplay.lock").write_text("nonsense\n", encoding="utf-8")
    locked.write(test_plain="def test_plain():\n    pass\n", test_fixture="def test_it(agentreplay):\n    pass\n")
    plain, off = locked.replay("test_plain.py"), locked.run("--replay=off", "test_fixture.py")
    for name in ("test_plain.py", "test_fixture.py"):
        (locked.root / name).unlink()
    for done in (plain, off):
        assert done.returncode == 0
        assert "locked" not in done.stdout


def test_a_recording_says_what_to_type_and_fails_nothing(locked):
    done = locked.record("-k", "three", "--agentreplay-no-prove")
    locked.live = locked.ledger, locked.server.hits
    assert done.returncode == 0, done.stdout
    assert "locked    agentreplay.lock: 1 snapshot not as locked" in done.stdout
    assert "agentreplay lock ." in done.stdout
    on_ci = locked.run("-k", "one", CI="1")
    assert on_ci.returncode == 1
    assert locked.command("lock").returncode == 0
    assert locked.run("-k", "one", CI="1").returncode == 0
    shutil.rmtree(locked.root / ".pytest_agentreplay", ignore_errors=True)


def test_commands_that_write_snapshots_say_that_the_lock_no_longer_fits(locked):
    name = edit(locked)
    done = locked.command("reseal", name, "--reason", "as the shop says it now")
    assert done.returncode == 0
    assert "agentreplay.lock: no longer fits; to lock what is there: agentreplay lock ." in done.stdout
    assert locked.command("lock").returncode == 0
    assert locked.command("verify", ".").returncode == 0
