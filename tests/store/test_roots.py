"""Ids of tests by the folder that configures pytest: in snapshots, from each root, and back."""

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.core.model import Header, Run
from pytest_agentreplay.store import layout, projects
from pytest_agentreplay.store.snapshots import Store

TEST = "packages/shop/tests/sub/test_a.py::TestA::test_b[x/y::z]"
SHORT = "tests/sub/test_a.py::TestA::test_b[x/y::z]"


@pytest.fixture
def repo(tmp_path):
    root = tmp_path.resolve() / "repo"
    shop = root / "packages" / "shop"
    (shop / "tests" / "sub").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (shop / "setup.cfg").write_text("[tool:pytest]\n", encoding="utf-8")
    (root / "packages" / "setup.cfg").write_text("[metadata]\nname = packages\n", encoding="utf-8")
    (shop / "tests" / "pyproject.toml").write_text("[tool.pytest_env]\nA = '1'\n", encoding="utf-8")
    return root


def test_a_snapshot_states_the_id_from_the_nearest_folder_that_configures_pytest(repo):
    shop = repo / "packages" / "shop"
    assert projects.snapshot_id(repo, TEST) == SHORT
    assert projects.snapshot_id(shop, SHORT) == SHORT
    assert projects.snapshot_id(repo, "tests/test_a.py::test_b") == "tests/test_a.py::test_b"
    assert projects.snapshot_id(repo, "packages/shop/conftest.py::@warm") == "conftest.py::@warm"
    assert projects.snapshot_id(repo, "packages/test_a.py::test_b") == "packages/test_a.py::test_b"
    assert projects.snapshot_id(repo, "../packages/shop/test_a.py::test_b") == "../packages/shop/test_a.py::test_b"


def test_the_id_from_each_root_is_accepted_and_no_other(repo):
    shop = repo / "packages" / "shop"
    assert projects.accepted_ids(repo, TEST) == (SHORT, TEST)
    assert projects.accepted_ids(shop, SHORT) == (SHORT, TEST)
    assert projects.accepted_ids(repo, "tests/test_a.py::test_b") == ("tests/test_a.py::test_b",)


def test_what_a_snapshot_states_is_todays_id_from_each_root(repo):
    shop = repo / "packages" / "shop"
    file = shop / "tests" / "sub" / layout.DIRECTORY / "test_a" / "test_b.snapshot.json"
    for stated in (TEST, SHORT):
        assert projects.todays_id(repo, file, stated) == TEST
        assert projects.todays_id(shop, file, stated) == SHORT
    moved = shop / "tests" / "other" / layout.DIRECTORY / "test_a" / "test_b.snapshot.json"
    assert projects.todays_id(repo, moved, SHORT) == projects.todays_id(repo, moved, TEST) == TEST
    assert projects.todays_id(shop, moved, SHORT) == SHORT


def test_a_recording_and_what_it_recorded_mark_the_same_folder_as_the_project(repo):
    """A snapshot of an earlier version that states the id from the outer root has its paths from there, too."""
    shop, store = repo / "packages" / "shop", Store(repo)
    path = store.path_of(repo / TEST.partition("::")[0], TEST)
    assert store.project_of(path, TEST, recording=True) == shop
    for stated, project in ((SHORT, shop), (TEST, repo)):
        store.save(path, codec.dumps(Run(Header(stated, "2026-01-01T00:00:00+00:00", 0, 0, {"status": "passed"}))))
        assert store.load(path, TEST).run.header.test == stated
        assert store.project_of(path, TEST, recording=False) == project
        assert store.project_of(path, TEST, recording=True) == shop
