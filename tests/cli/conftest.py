"""The command line in the process of the test, in a project of one ini file."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from pytest_agentreplay import cli


class Typed(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def typed(capsys, monkeypatch):
    """Type a command at a terminal of 80 columns; no command shows a traceback."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words):
        capsys.readouterr()
        try:
            code = cli.main([str(word) for word in words])
        except SystemExit as left:
            code = left.code
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return Typed(code, said.out, said.err)

    return run


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The root of a project, in which commands are typed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path
