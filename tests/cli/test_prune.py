"""`agentreplay prune`: a whole run, offline, and then the snapshots that nothing used; or nothing, with the reason."""

import shutil

import pytest

from pytest_agentreplay.store import layout

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

DONE, FAILED, USAGE, DAMAGED, NOTHING = 0, 1, 2, 4, 5
TOOLS = "def lookup(order):\n    return f'{order} is late'\n"
TESTS = """
import tools

def test_one(agentreplay):
    tools.lookup("A-1")
"""
GONE = """
def test_two(agentreplay):
    tools.lookup("B-2")
"""
RECORDED = {}


@pytest.fixture
def suite(project):
    """A recorded test, and the snapshot of another one that is not there any more."""
    (project.root / "test_shop.py").unlink()
    (project.root / "pytest.ini").write_text(
        "[pytest]\npythonpath = .\nagentreplay_tools = tools.lookup = read\n", encoding="utf-8"
    )
    project.write(tools=TOOLS, test_it=TESTS, test_gone=f"import tools\n{GONE}")
    if not RECORDED:
        assert project.record("--agentreplay-no-prove").returncode == 0
        RECORDED.update({file.relative_to(project.root): file.read_bytes() for file in project.files})
        shutil.rmtree(project.root / ".pytest_agentreplay")
    for name, data in RECORDED.items():
        (project.root / name).parent.mkdir(parents=True, exist_ok=True)
        (project.root / name).write_bytes(data)
    (project.root / "test_gone.py").unlink()
    project.kept, project.gone = (
        project.root / layout.DIRECTORY / name
        for name in ("test_it/test_one.snapshot.json", "test_gone/test_two.snapshot.json")
    )
    return project


def there(project):
    return [file for file in (project.kept, project.gone) if file.exists()]


def test_the_unused_one_goes_with_its_folder_and_its_pending_run(suite):
    pending = layout.pending_path(suite.root, suite.gone)
    pending.parent.mkdir(parents=True)
    pending.write_bytes(suite.gone.read_bytes())
    listed = suite.command("prune", "--dry-run")
    assert listed.returncode == DONE, listed.stderr
    assert len(there(suite)) == 2
    done = suite.command("prune")
    assert done.returncode == DONE
    lines = [line.split() for line in done.stdout.replace("\\", "/").splitlines()]
    name = f"{layout.DIRECTORY}/test_gone/test_two.snapshot.json"
    assert ["deleted", name] in lines
    assert ["deleted", f".pytest_agentreplay/pending/{name}"] in lines
    assert [["unused", *words[1:]] for words in lines if words[:1] == ["deleted"]] == [
        line.split()
        for line in listed.stdout.replace("\\", "/").splitlines()
        if line.startswith("unused  ") and name in line
    ][-2:]
    assert there(suite) == [suite.kept]
    assert not suite.gone.parent.exists()
    assert not pending.exists()
    again = suite.command("prune")
    assert again.returncode == NOTHING
    assert again.stderr == "agentreplay: no snapshot is unused\n"


def test_the_tests_may_fail_and_the_run_is_whole(suite):
    suite.write(test_plain="def test_bad():\n    assert 0\n")
    assert suite.command("prune").returncode == DONE
    assert there(suite) == [suite.kept]


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        ("import nothing_of_the_kind\n", "pytest was interrupted|a collection error|the session was stopped", FAILED),
        ("def test_it():\n    raise KeyboardInterrupt\n", "the session was stopped", FAILED),
    ],
    ids=["collection error", "interrupt"],
)
def test_a_run_that_did_not_end_deletes_nothing(suite, text, said, code):
    suite.write(test_plain=text)
    done = suite.command("prune")
    assert done.returncode == code
    assert any(f"because this was no full run: {one}" in done.stderr for one in said.split("|")), done.stderr
    assert len(there(suite)) == 2


@pytest.mark.parametrize("filtered", ["-k one", "-x --deselect test_it.py::test_one", "-m 'not slow'"])
def test_settings_that_filter_are_named(suite, filtered):
    with (suite.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write(f"addopts = {filtered}\n")
    done = suite.command("prune")
    assert done.returncode == FAILED
    assert "no full run: -" in done.stderr
    assert "left tests out" in done.stderr
    assert len(there(suite)) == 2


def test_words_for_pytest_are_refused(suite):
    for words in (["-k", "one"], ["--", "-k", "one"], ["test_it.py"]):
        assert suite.command("prune", *words).returncode == USAGE
    assert len(there(suite)) == 2


def test_a_lost_worker_deletes_nothing(suite):
    suite.plugins += ("xdist.plugin",)
    with (suite.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("addopts = -n 2\n")
    suite.write(test_plain="import os\n\ndef test_bad():\n    os._exit(3)\n")
    done = suite.command("prune")
    assert done.returncode == FAILED
    assert "no full run: a worker was lost" in done.stderr
    assert len(there(suite)) == 2
    (suite.root / "test_plain.py").unlink()
    assert suite.command("prune").returncode == DONE
    assert there(suite) == [suite.kept]


def test_one_that_may_be_a_renamed_tests_own_stays(suite):
    suite.write(test_moved=f"import tools\n{GONE}")
    done = suite.command("prune")
    assert done.returncode == DONE
    assert "agentreplay mv test_gone.py::test_two test_moved.py::test_two" in done.stdout
    assert len(there(suite)) == 2
    assert suite.command("mv", "test_gone.py::test_two", "test_moved.py::test_two").returncode == DONE
    assert suite.command("prune").returncode == NOTHING


def test_what_cannot_be_read_is_named_and_left(suite):
    suite.gone.write_text('{"schemaVersion": "1.0", "hea', encoding="utf-8")
    done = suite.command("prune")
    assert done.returncode == DAMAGED
    assert "test_two.snapshot.json: cannot be read as a snapshot, so it is left where it is" in done.stderr
    assert len(there(suite)) == 2


def test_a_damage_behind_the_header_is_named_and_left(suite):
    suite.gone.write_text(suite.gone.read_text(encoding="utf-8")[:-60], encoding="utf-8")
    assert suite.command("prune").returncode == DAMAGED
    assert len(there(suite)) == 2


def test_a_link_that_leads_out_is_left(suite, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    shutil.move(suite.gone, outside / suite.gone.name)
    suite.gone.parent.rmdir()
    suite.gone.parent.symlink_to(outside, target_is_directory=True)
    assert suite.command("prune").returncode == NOTHING
    assert (outside / suite.gone.name).is_file()
