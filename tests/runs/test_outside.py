"""A command as it is run, and where what it said is kept: bounded, and nobody else's."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime

import pytest

from pytest_agentreplay.runs import command
from pytest_agentreplay.runs.cases.command_agent import Artifacts
from pytest_agentreplay.runs.credential_files import hide_credential_files

WILD = """
import subprocess, sys
far = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(far.pid, flush=True)
for _ in range(64):
    sys.stdout.write("x" * 65536)
    sys.stderr.write("y" * 65536)
"""


@pytest.mark.process
def test_one_that_floods_and_leaves_a_child_that_holds_its_outputs_is_read_within_bounds(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "OUTPUT_LIMIT", 1 << 20)
    monkeypatch.setattr(command, "PATIENCE", 0.2)
    words = [sys.executable, "-c", WILD]
    ended = command.run_command(words, environ=os.environ, folder=tmp_path, stdin=b"never read" * 100_000, limit=60)
    far, _, said = ended.stdout.partition(b"\n")
    with suppress(OSError):
        os.kill(int(far), signal.SIGTERM)
    assert ended.code == 0
    for output in (said, ended.stderr):
        assert len(output) < command.OUTPUT_LIMIT + 100
        assert b"more bytes are left out" in output


@pytest.mark.process
@pytest.mark.skipif(os.name == "nt", reason="sh")
def test_one_that_runs_out_of_time_is_ended_with_its_children(tmp_path):
    beats = "sh -c 'while :; do echo >> beat; sleep 0.02; done' & wait"
    ended = command.run_command(["sh", "-c", beats], environ=os.environ, folder=tmp_path, stdin=b"", limit=0.5)
    assert ended.code is None
    size = (tmp_path / "beat").stat().st_size
    time.sleep(0.2)
    assert (tmp_path / "beat").stat().st_size == size > 0, "its child is dead, too"


def test_what_is_kept_of_several_runs_in_one_second_lies_apart(tmp_path):
    def keep(number):
        keeping = Artifacts(tmp_path, "refund", here=tmp_path, now=datetime(2026, 11, 22, 10, 0, 0))
        keeping.keep("result.json", f"{number}")
        return keeping.folder

    with ThreadPoolExecutor(8) as pool:
        folders = [*pool.map(keep, range(16))]
    assert sorted(int((folder / "result.json").read_text()) for folder in {*folders}) == [*range(16)]


@pytest.mark.parametrize(("seed", "proof"), [({}, "1"), ("0", "0"), ("1", "2"), ("7", "1")])
def test_a_proof_has_another_hash_seed_but_keeps_the_one_that_is_none(seed, proof):
    environ = {"PYTHONHASHSEED": seed} if seed else {}
    assert command.make_proof_environment(environ)["PYTHONHASHSEED"] == proof


def test_a_proof_hides_credentials_in_files_but_those_of_the_project(tmp_path):
    own = str(tmp_path / "tests" / "credentials")
    desk = {"GOOGLE_APPLICATION_CREDENTIALS": "/home/ada/key.json", "NETRC": "/home/ada/netrc", "AWS_PROFILE": "work"}
    hidden = hide_credential_files(desk, tmp_path)
    assert {hidden[name] for name in ("AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_CONFIG", "NETRC")} == {os.devnull}
    assert hidden["GOOGLE_APPLICATION_CREDENTIALS"] is hidden["AWS_PROFILE"] is None
    assert "HOME" not in hidden
    mine = {"AWS_SHARED_CREDENTIALS_FILE": own, "AWS_PROFILE": "work", "GOOGLE_APPLICATION_CREDENTIALS": own}
    assert mine.keys().isdisjoint(hide_credential_files(mine, tmp_path))
