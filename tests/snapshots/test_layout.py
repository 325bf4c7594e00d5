from __future__ import annotations

import posixpath
import re
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentreplay.model.exchanges import Header, Run
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import layout, projects
from pytest_agentreplay.snapshots.store.layout import (
    home_path,
    journal_path,
    module_folder,
    pending_path,
    snapshot_path,
)
from pytest_agentreplay.snapshots.store.snapshots import Store

ROOT = PurePosixPath("/shop")
SUFFIX = ".snapshot.json"


def path(nodeid, root=ROOT):
    """Where the snapshot lies; pytest gives the test's file whole and without `..`."""
    file = posixpath.normpath(str(PurePosixPath(root.as_posix().removeprefix("C:")) / nodeid.partition("::")[0]))
    return snapshot_path(root, type(root)(file), nodeid)


def test_a_plain_test_keeps_its_name():
    assert path("tests/test_shop.py::test_refund").as_posix() == (
        "/shop/tests/__agent_snapshots__/test_shop/test_refund.snapshot.json"
    )
    moved = snapshot_path(ROOT, PurePosixPath("/shop/tests/test_a.py"), "tests/test_a.py::test_b", "recorded/runs")
    assert moved.as_posix() == "/shop/tests/recorded/runs/test_a/test_b.snapshot.json"


LOSSY = [
    *("test_refund[eur]", "TestShop::test_refund", "test_" + "x" * 80, "lpt1", "aux.x", "test_é", "test_e\u0301", ""),
    *("test[..]", "test[a/b]", "test[a b. ]", "test[\ud800]", "doctest.of.a_module", "conin$", "com¹"),
]


def test_what_was_lost_is_made_up_for_by_a_hash():
    for name in LOSSY:
        slug = path(f"t.py::{name}").name.removesuffix(SUFFIX)
        assert re.search(r"-[0-9a-f]{10}\Z", slug), name
        assert len(slug) <= 60


def test_a_readable_rest_stays_and_long_names_of_modules_are_cut():
    assert path("t.py::TestShop::test_refund[eur-1]").name.startswith("testshop.test_refund-eur-1-")
    modules = {f"test_{'x' * 80}.py": 40, "case.yaml": len("case.yaml"), "case.py": len("case")}
    assert {name: len(module_folder(name)) for name in modules} == modules


def test_pending_runs_and_journals_find_home_and_what_is_neither_or_lies_outside_has_none():
    home = ROOT / "a/__agent_snapshots__/t/x.y.snapshot.json"
    pending, journal = pending_path(ROOT, home), journal_path(ROOT, home, "7-ab")
    assert pending.as_posix() == "/shop/.pytest_agentreplay/pending/a/__agent_snapshots__/t/x.y.snapshot.json"
    assert journal.as_posix() == "/shop/.pytest_agentreplay/journal/a/__agent_snapshots__/t/x.y.7-ab.jsonl"
    assert home_path(pending) == home_path(journal) == home
    outside = ROOT.parent / "other/__agent_snapshots__/t/x.snapshot.json"
    pending = pending_path(ROOT, outside)
    assert pending.is_relative_to(ROOT / ".pytest_agentreplay/pending")
    assert pending != pending_path(ROOT, outside.parent.parent / "u/x.snapshot.json")
    assert home_path(pending) is None
    names = ("x.snapshot.json", "pending", "pending/x.json", "other/x.snapshot.json")
    neither = [ROOT / "x.snapshot.json", *(ROOT / ".pytest_agentreplay" / name for name in names)]
    assert [home_path(file) for file in neither] == [None] * 5


# What stands for what on which system: reserved words and their look-alikes, streams, dots, case, normal forms, astral
# characters, half characters, separators, `::` inside parameters, doctests, the items of YAML cases, lengths at the edge.
# fmt: off
NAMES = st.sampled_from([
    "test_a", "test_A", "TEST_A", "test_a[x]", "test_a[X]", "test_a-x", "test_a[a/b]", "test_a[a\\b]", "test_a[a:b]",
    "test_a[ab]", "test_a[a::b]", "test_a[a.b]", "TestX::test_a", "testx::test_a", "testx.test_a", "test_a.txt",
    "test_é", "test_e\u0301", "test_\ufb01", "test_fi", "test_ß", "test_ss", "test_\u0130", "test_i\u0307", "test_\u212a",
    "test_k", "test_Σ", "test_\u03c3", "test_ς", "con", "CON", "con.x", "nul", "aux.h", "com1", "COM9.x", "com¹", "lpt²",
    "CONIN$", "conout$", "clock$", "test_a.", "test_a..", ".test_a", "..", ".", "test_a~1", "TEST_A~1", "test_a:stream",
    "test_a::$DATA", "[a]", "[A]", "case", "test_😀", "test_\U000e0041", "test_\ud83d", "test_\ude00", "test_\x00",
    "test_\x7f", "test_\u202e", "test_\\u00e9", "test_a ", "test_a. .", "", " ", "a", "a" * 59, "a" * 60, "a" * 61,
    "a" * 300, "a" * 299 + "b", "é" * 300, "😀" * 200,
]) | st.text(st.characters(), max_size=8)  # of all planes, half characters too
FILES = st.sampled_from([
    "t.py", "T.py", "t", "T", "t.yaml", "t.yml", "t.yaml.py", "t.txt", "t_é.py", "t_e\u0301.py", "con.py", "nul",
    "aux.yaml", "a.b.py", "t .py", "t..py", ".py", "py", "x" * 39 + ".py", "x" * 41 + ".py", "x" * 42 + ".py",
    "é" * 120 + ".py",
])
# fmt: on
FOLDERS = st.sampled_from(["", "a/", "A/", "é/", "e\u0301/", "ß/", "SS/", "../", "../a/", "/", "/away/a/", "/away/A/"])
IDS = st.builds("{}{}::{}".format, FOLDERS, FILES, NAMES)
CLASHES = {  # each pair once stood in one file, or would if a rule were left out
    *("t.py::testx::test_a", "t.py::testx.test_a", "t::a", "t.py::a", "t.yaml::a", "t.yaml.py::a"),
    *("t.py::a[x]", "t.py::a[X]", "T.py::a", "t.py::con", "t.py::_con", "a/t.py::a", "../a/t.py::a", "/away/a/t.py::a"),
}


def folded(text):
    """What a name is to a file system that folds case, normalises, and strips what Windows strips at its end."""
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "/".join(part.rstrip(". ") if part.strip(".") else part for part in text.split("/"))


def forms(nodeid):
    """The file names of one test: its snapshot, its pending run, and the journals of two recordings."""
    snapshot = path(nodeid)
    journals = [journal_path(ROOT, snapshot, token) for token in ("7-0a1b2c", "7-0a1b2d")]
    return [snapshot, pending_path(ROOT, snapshot), *journals]


@example(CLASHES)
@given(st.sets(IDS, min_size=2, max_size=24))
def test_any_set_of_ids_has_different_files_on_every_system(nodeids):
    met = {}
    for nodeid in nodeids:
        folder = path(nodeid).parents[2]
        for file in forms(nodeid):
            other, there = met.setdefault(folded(str(file)), (nodeid, folder))
            if other != nodeid or folder != there:
                # Two folders that a system cannot hold beside each other: their tests are not there together either.
                assert folder != there, f"{other!r} and {nodeid!r} share {file}"
                assert folded(str(folder)) == folded(str(there)), f"{other!r} and {nodeid!r} share {file}"
    assert len(met) >= 4


WINDOWS_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³])\s*(\.|:|\Z)")


@given(IDS)
def test_every_name_of_ours_is_legal_everywhere_and_short(nodeid):
    snapshot = path(nodeid)
    own = [*snapshot.parts[-2:], *(file.name for file in forms(nodeid))]
    outside = pending_path(ROOT, snapshot).relative_to(layout.pending_folder(ROOT)).parts[0] == layout.OUTSIDE
    assert outside == (not snapshot.is_relative_to(ROOT))
    for part in own:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+", part), part  # ASCII: no system encodes or composes it differently
        assert not part.endswith("."), part
        assert not WINDOWS_RESERVED.match(part), part
        assert len(part) <= 60 + len(".1234567-0a1b2c.jsonl")
        assert "~" not in part, "no short name (PROGRA~1) of another file"
    assert len(own[0]) <= 40
    assert len(own[1].removesuffix(SUFFIX)) <= 60


@given(IDS)
def test_no_pending_run_or_journal_leaves_the_private_folder_and_each_finds_home(nodeid):
    snapshot, *ours = forms(nodeid)
    for file in ours:
        assert file.is_relative_to(ROOT / ".pytest_agentreplay")
        assert ".." not in file.parts
        assert home_path(file) == (snapshot if snapshot.is_relative_to(ROOT) else None)


@given(st.builds("{}{}::{}".format, st.sampled_from(["", "a/", "../", "é/"]), FILES, NAMES))
def test_windows_gives_a_test_the_names_that_linux_gives_it(nodeid):
    """A snapshot that was recorded on one system is found on another."""
    there = path(nodeid, PureWindowsPath("C:/shop/deep"))
    here = path(nodeid, PurePosixPath("C:/shop/deep"[2:]))
    assert there.as_posix().removeprefix("C:") == here.as_posix()


# Ids of tests by the folder that configures pytest: in snapshots, from each root, and back.

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
    """A snapshot that was recorded before the inner folder configured pytest has its paths from the outer root."""
    shop, store = repo / "packages" / "shop", Store(repo)
    path = store.path_of(repo / TEST.partition("::")[0], TEST)
    assert store.project_of(path, TEST, recording=True) == shop
    for stated, project in ((SHORT, shop), (TEST, repo)):
        store.save(path, codec.dumps(Run(Header(stated, "2026-01-01T00:00:00+00:00", 0, 0, {"status": "passed"}))))
        assert store.load(path, TEST).run.header.test == stated
        assert store.project_of(path, TEST, recording=False) == project
        assert store.project_of(path, TEST, recording=True) == shop
