"""What is otherwise on another system, as far as it can be had here: consoles, line ends, git's words, shells."""

import json
import os
import re
import subprocess

import pytest

from pytest_agentreplay.runs import replay_kit

LETTER = "\u91cc"  # in no Western code page


@pytest.fixture
def foreign(project):
    project.edit("agent.py", "Be brief.", f"Be brief {LETTER}.")
    assert project.record().returncode == 0
    return project


def test_a_console_of_a_code_page_shows_escapes(foreign):
    (file,) = foreign.files
    foreign.edit("agent.py", "Be kind.", f"Be {LETTER} kind.")
    failed = foreign.replay(PYTHONIOENCODING="cp1252")
    assert failed.returncode == 1
    assert "[AR-PROMPT]" in failed.stdout
    assert r"\u91cc" in failed.stdout
    for code, words in ((0, ("show", file)), (1, ("replay", file)), (0, ("verify", foreign.root)), (0, ("rules",))):
        done = foreign.command(*words, PYTHONIOENCODING="cp1252")
        assert done.returncode == code, done.stderr
        assert "UnicodeEncodeError" not in done.stdout + done.stderr
    assert r"Be brief \u91cc." in foreign.command("show", file, PYTHONIOENCODING="cp1252").stdout


def test_a_checkout_with_crlf_is_the_same_snapshot(foreign):
    """git's core.autocrlf, which Windows has on: neither damaged nor edited, and compared as before."""
    (file,) = foreign.files
    text = file.read_bytes()
    assert b"\r" not in text
    file.write_bytes(text.replace(b"\n", b"\r\n"))
    replayed = foreign.replay(CI="1")  # which tightens: an edited file is an error
    assert replayed.returncode == 0, replayed.stdout
    assert "edited" not in replayed.stdout
    assert "whole and sealed" in foreign.command("verify", file).stdout
    assert foreign.record().returncode == 0
    assert b"\r" not in file.read_bytes(), "what is written has LF everywhere"


def test_a_name_in_another_encoding_does_not_stop_a_recording(project):
    """git tells names as they are, if it is told to; they need not be of this system's encoding."""

    def git(*words):
        subprocess.run(["git", "-C", project.root, *words], check=True, capture_output=True)

    git("init")
    git("config", "core.quotepath", "false")
    name = "caf\u00e9.txt".encode("latin-1") if os.name == "posix" else "caf\u00e9.txt"
    try:
        with open(
            os.path.join(os.fsencode(project.root) if os.name == "posix" else project.root, name), "w", encoding="utf-8"
        ) as file:
            file.write("a")
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b.test", "commit", "-m", "one")
    with open(
        os.path.join(os.fsencode(project.root) if os.name == "posix" else project.root, name), "w", encoding="utf-8"
    ) as file:
        file.write("b")
    assert dict(replay_kit.git_state(str(project.root)))["dirty"] is True


def test_told_paths_have_slashes_and_commands_can_be_pasted(project):
    """The same words on every system; the parameter needs quotes in each shell."""
    project.write(
        tests__test_more="""
import agent, pytest

@pytest.mark.parametrize("order", ["A 17"])
def test_it(agentreplay, order):
    assert agent.answer(order)
"""
    )
    missing = project.replay("tests")
    assert 'pytest --snapshot-record "tests/test_more.py::test_it[A 17]"' in missing.stdout
    recorded = project.record("tests")
    told = re.search(r"recorded  (\S+) \(created", recorded.stdout)[1]
    assert told.startswith("tests/__agent_snapshots__/test_more/test_it-a-17-")
    assert (project.root / told).is_file()
    assert "\\" not in json.loads((project.root / told).read_text(encoding="utf-8"))["header"]["test"]
