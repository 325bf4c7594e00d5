from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentreplay.store.layout import home_path, journal_path, module_folder, pending_path, snapshot_path

ROOT = Path("/shop")


def path(nodeid):
    return snapshot_path(ROOT, nodeid.partition("::")[0], nodeid)


def test_a_plain_test_keeps_its_name():
    assert path("tests/test_shop.py::test_refund").as_posix() == (
        "/shop/tests/__agent_snapshots__/test_shop/test_refund.snapshot.json"
    )


def test_the_folder_can_be_moved_and_the_module_may_be_absolute():
    moved = snapshot_path(ROOT, Path("/shop/tests/test_a.py"), "tests/test_a.py::test_b", "recorded/runs")
    assert moved.as_posix() == "/shop/tests/recorded/runs/test_a/test_b.snapshot.json"


@pytest.mark.parametrize(
    "name",
    [
        "test_refund[eur]",
        "TestShop::test_refund",
        "test_" + "x" * 80,
        "con",
        "aux.x",
        "test_é",
        "test_e\u0301",
        "test[..]",
        "test[a/b]",
        "test[a b. ]",
        "",
        "test[\ud800]",
    ],
)
def test_what_was_lost_is_made_up_for_by_a_hash(name):
    slug = path(f"t.py::{name}").name.removesuffix(".snapshot.json")
    assert re.search(r"-[0-9a-f]{8}\Z", slug)
    assert len(slug) <= 60


def test_a_readable_rest_stays():
    assert path("t.py::TestShop::test_refund[eur-1]").name.startswith("TestShop.test_refund-eur-1-")


def test_long_module_names():
    assert len(module_folder("test_" + "x" * 80 + ".py")) == 40
    assert module_folder("case.yaml") != module_folder("case.py") == "case"


def test_pending_and_journal():
    home = ROOT / "a/__agent_snapshots__/t/x.y.snapshot.json"
    pending, journal = pending_path(ROOT, home), journal_path(ROOT, home, "7-ab")
    assert pending.as_posix() == "/shop/.pytest_agentreplay/pending/a/__agent_snapshots__/t/x.y.snapshot.json"
    assert journal.as_posix() == "/shop/.pytest_agentreplay/journal/a/__agent_snapshots__/t/x.y.7-ab.jsonl"
    assert home_path(pending) == home_path(journal) == home


def test_what_lies_outside_of_the_root_has_a_place_and_no_home():
    outside = ROOT.parent / "other/__agent_snapshots__/t/x.snapshot.json"
    pending = pending_path(ROOT, outside)
    assert pending.is_relative_to(ROOT / ".pytest_agentreplay/pending")
    assert pending != pending_path(ROOT, outside.parent.parent / "u/x.snapshot.json")
    assert home_path(pending) is None


@pytest.mark.parametrize(
    "name",
    [
        "x.snapshot.json",
        ".pytest_agentreplay/x.snapshot.json",
        ".pytest_agentreplay/pending",
        ".pytest_agentreplay/pending/x.json",
        ".pytest_agentreplay/other/x.snapshot.json",
    ],
)
def test_what_is_neither_pending_nor_a_journal_has_no_home(name):
    assert home_path(ROOT / name) is None


NAMES = st.sampled_from(
    [
        "test_a",
        "test_A",
        "TEST_A",
        "test_a[x]",
        "test_a[X]",
        "test_a-x",
        "test_a[a/b]",
        "test_a[a:b]",
        "test_a[ab]",
        "TestX::test_a",
        "testx::test_a",
        "testx.test_a",
        "test_é",
        "test_é",
        "con",
        "CON",
        "nul.x",
        "test_a.",
        "test_a ",
        "x" * 70,
        "x" * 71,
        "test_ß",
        "test_ss",
        "test_ﬁ",
        "test_fi",
    ]
) | st.text(max_size=8)
FILES = st.sampled_from(
    ["t.py", "T.py", "a/t.py", "A/t.py", "t.yaml", "t_é.py", "con.py", "x" * 50 + ".py", "x" * 51 + ".py"]
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.sets(st.builds("{}::{}".format, FILES, NAMES), max_size=12))
def test_different_tests_have_different_files_even_where_case_is_folded(nodeids):
    paths = {nodeid: path(nodeid) for nodeid in nodeids}
    folders = {nodeid.partition("::")[0].rpartition("/")[0] for nodeid in nodeids}
    for folder in folders:
        # Folders of the project itself are told apart by the file system it was checked out on.
        here = [p for nodeid, p in paths.items() if nodeid.partition("::")[0].rpartition("/")[0] == folder]
        assert len({unicodedata.normalize("NFC", str(p)).casefold() for p in here}) == len(here)
    for p in paths.values():
        assert len(p.name.removesuffix(".snapshot.json")) <= 60
        assert len(p.parent.name) <= 40
        for part in (p.name, p.parent.name):
            assert re.fullmatch(r"[A-Za-z0-9_.-]+", part)
            assert not part.endswith(".")
            assert not re.match(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", part)
