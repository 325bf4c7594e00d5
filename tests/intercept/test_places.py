"""Today's places in every spelling that programs are told: through links (macOS, short names of Windows) and as they are."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path

import pytest

from pytest_agentreplay.intercept.environment import machine
from pytest_agentreplay.intercept.environment.machine import find_places, find_user_name, follow_link

MACOS = {"/private/tmp": "/tmp", "/private/var": "/var", "/private/var/folders/x/T": "/var/folders/x/T"}
WINDOWS = {r"C:\Users\runneradmin\AppData\Local\Temp": r"C:\Users\RUNNER~1\AppData\Local\Temp"}


@pytest.mark.parametrize(
    ("real", "links", "spelled"),
    [
        ("/private/var/folders/x/T/pytest-of-ada/t0", MACOS, "/var/folders/x/T/pytest-of-ada/t0"),
        ("/private/tmp/shop", MACOS, "/tmp/shop"),
        ("/private/tmp", MACOS, "/tmp"),
        ("/private/tmpfiles/shop", MACOS, "/private/tmpfiles/shop"),
        ("/home/ada/shop", MACOS, "/home/ada/shop"),
        (
            r"C:\Users\runneradmin\AppData\Local\Temp\pytest-1",
            WINDOWS,
            r"C:\Users\RUNNER~1\AppData\Local\Temp\pytest-1",
        ),
    ],
)
def test_a_directory_as_it_is_spelled_through_a_link(real, links, spelled):
    assert follow_link(real, links) == spelled


@pytest.fixture
def link(tmp_path):
    (tmp_path / "real").mkdir()
    try:
        (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    except OSError:
        pytest.skip("no links here: Windows asks for a privilege")
    return tmp_path / "link"


def test_every_spelling_has_a_mark(link, monkeypatch):
    """As on macOS: the temporary directory is told through a link, and pytest tells `tmp_path` as it really is."""
    real = Path(os.path.realpath(link))
    monkeypatch.setattr(tempfile, "tempdir", str(link))
    found = find_places(link / "shop", tmp=real / "pytest-1" / "t0")
    assert {mark: Path(found[mark]) for mark in ("root", "realroot", "tmp", "linktmp", "tempdir", "realtempdir")} == {
        "root": link / "shop",
        "realroot": real / "shop",
        "tmp": real / "pytest-1" / "t0",
        "linktmp": link / "pytest-1" / "t0",
        "tempdir": link,
        "realtempdir": real,
    }
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("error", [KeyError, OSError, ImportError])
def test_a_user_whom_the_system_does_not_name_has_no_mark(tmp_path, monkeypatch, error):
    """A container under a bare number; Windows, which has no `pwd`, without USERNAME."""

    def unknown():
        raise error("nobody")

    monkeypatch.setattr(getpass, "getuser", unknown)
    find_user_name.cache_clear()
    assert "user" not in find_places(tmp_path)
    find_user_name.cache_clear()


def test_no_home_no_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "find_home", lambda: None)
    assert "home" not in find_places(tmp_path)
