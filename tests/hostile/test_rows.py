"""Each row of the hostile corpus comes to what is stated of its class."""

import sys

import pytest
from hostile_rows import CHECKS, ROWS, refused
from making import sealed, stored
from shown import forbidden, speaks_to_ci

pytestmark = pytest.mark.process


@pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and limits of memory are those of POSIX")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_row_comes_to_what_is_stated(row, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    CHECKS[row["class"]](row, folder)


def test_what_a_row_is_refused_for_is_checked_at_all(tmp_path, monkeypatch):
    """The checks fail for what is harmless."""
    monkeypatch.setattr("hostile_rows.Store.load", lambda *_: None)
    for name in ("fifo", "empty"):
        (tmp_path / name).mkdir()
        with pytest.raises(AssertionError, match="followed"):
            CHECKS[name]({"payload": ""}, tmp_path / name)
    with pytest.raises(AssertionError, match="read"):
        refused(sealed(stored()))
    assert speaks_to_ci("x\n  ::error::y")
    assert speaks_to_ci("a ##vso[x]y")
    assert forbidden("\x1b[2J")
