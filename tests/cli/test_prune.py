"""`agentreplay prune`: a whole run, offline, and then the snapshots that nothing used; or nothing, with the reason."""

import shutil

import pytest

from pytest_agentreplay.snapshots.store import layout
from tests.support.kept_files import contents, put_back

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

DONE, FAILED, USAGE, DAMAGED, NOTHING = 0, 1, 2, 4, 5
INI = "[pytest]\npythonpath = .\nagentreplay_tools = tools.lookup = read\n"
TEST = "import tools\n\ndef test_{}(agentreplay):\n    tools.lookup('A-1')\n"


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    tools = "def lookup(order):\n    return f'{order} is late'\n"
    project.write(tools=tools, test_it=TEST.format("one"), test_gone=TEST.format("two").replace("A-1", "B-2"))
    assert project.record().returncode == 0
    shutil.rmtree(project.root / ".pytest_agentreplay")
    (project.root / "test_gone.py").unlink()
    folder = project.root / layout.DIRECTORY
    project.used = folder / "test_it/test_one.snapshot.json"
    project.gone = folder / "test_gone/test_two.snapshot.json"
    project.kept = contents(project.root)
    return project


@pytest.fixture
def suite(shop):
    """A recorded test, and the snapshot of another one that is not there any more."""
    put_back(shop.root, shop.kept)
    return shop


def pruned(project, code, *words):
    done = project.command("prune", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def there(project):
    return [file for file in (project.used, project.gone) if file.exists()]


def addopts(project, words):
    (project.root / "pytest.ini").write_text(f"{INI}addopts = {words}\n", encoding="utf-8")


def test_the_unused_one_goes_with_its_folder_and_its_pending_run_though_another_test_fails(suite):
    suite.write(test_plain="def test_bad():\n    assert 0\n")
    pending = layout.pending_path(suite.root, suite.gone)
    pending.parent.mkdir(parents=True)
    pending.write_bytes(suite.gone.read_bytes())
    name = f"{layout.DIRECTORY}/test_gone/test_two.snapshot.json"
    names = [name, f".pytest_agentreplay/pending/{name}"]
    listed = pruned(suite, DONE, "--dry-run").stdout.replace("\\", "/").splitlines()
    assert [line.split()[1] for line in listed if line.startswith("unused  ") and name in line][-2:] == names
    assert len(there(suite)) == 2
    lines = [line.split() for line in pruned(suite, DONE).stdout.replace("\\", "/").splitlines()]
    assert [line[1] for line in lines if line[:1] == ["deleted"]] == names
    assert there(suite) == [suite.used]
    assert not suite.gone.parent.exists()
    assert not pending.exists()
    assert pruned(suite, NOTHING).stderr == "agentreplay: no snapshot is unused\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_of_the_kind\n", "pytest was interrupted|a collection error|the session was stopped"),
        ("def test_it():\n    raise KeyboardInterrupt\n", "the session was stopped"),
    ],
    ids=["collection error", "interrupt"],
)
def test_a_run_that_did_not_end_deletes_nothing(suite, text, said):
    suite.write(test_plain=text)
    done = pruned(suite, FAILED)
    assert any(f"because this was no full run: {one}" in done.stderr for one in said.split("|")), done.stderr
    assert len(there(suite)) == 2


def test_settings_that_filter_are_named_and_words_for_pytest_are_refused(suite, typed, monkeypatch):
    for filtered in ("-k one", "-x --deselect test_it.py::test_one", "-m 'not slow'"):
        addopts(suite, filtered)
        done = pruned(suite, FAILED)
        assert "no full run: -" in done.stderr
        assert "left tests out" in done.stderr
    monkeypatch.chdir(suite.root)
    for words in (["-k", "one"], ["--", "-k", "one"], ["test_it.py"]):
        assert typed("prune", *words).code == USAGE
    assert len(there(suite)) == 2


@pytest.mark.real_process
def test_a_lost_worker_deletes_nothing(suite):
    suite.plugins = (*suite.plugins, "xdist.plugin")
    addopts(suite, "-n 2")
    suite.write(test_plain="import os\n\ndef test_bad():\n    os._exit(3)\n")
    try:
        assert "no full run: a worker was lost" in pruned(suite, FAILED).stderr
    finally:
        suite.plugins = suite.plugins[:-1]
    assert len(there(suite)) == 2


def test_one_that_may_be_a_renamed_tests_own_stays(suite):
    suite.write(test_moved=TEST.format("two").replace("A-1", "B-2"))
    assert "agentreplay mv test_gone.py::test_two test_moved.py::test_two" in pruned(suite, DONE).stdout
    assert len(there(suite)) == 2
    assert suite.command("mv", "test_gone.py::test_two", "test_moved.py::test_two").returncode == DONE
    pruned(suite, NOTHING)


def test_what_cannot_be_read_is_named_and_left_and_a_link_that_leads_out_is_not_followed(suite, tmp_path):
    whole = suite.gone.read_bytes()
    for damaged in (b'{"schemaVersion": "1.0", "hea', whole[:-60]):
        suite.gone.write_bytes(damaged)
        done = pruned(suite, DAMAGED)
        assert "test_two.snapshot.json: " in done.stderr
        assert len(there(suite)) == 2
    suite.gone.unlink()
    suite.gone.parent.rmdir()
    (tmp_path / suite.gone.name).write_bytes(whole)
    suite.gone.parent.symlink_to(tmp_path, target_is_directory=True)
    pruned(suite, NOTHING)
    assert (tmp_path / suite.gone.name).read_bytes() == whole
