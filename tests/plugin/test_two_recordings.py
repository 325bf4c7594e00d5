"""Several pytest processes record at once: each test by a worker of its own, or the same test by two of them."""

from __future__ import annotations

import re
import subprocess
import sys

from pytest_agentreplay import codec
from tests.store.faults.spreading import recorded_twice

MEETING = """
import os, pathlib, time
import pytest

HERE = pathlib.Path(__file__).parent

def meet(place):
    "Wait until the other process has come to the same place."
    (HERE / f"{place}.{os.environ['WHO']}").touch()
    for _ in range(3000):
        if len([*HERE.glob(f"{place}.*")]) == 2:
            return
        time.sleep(0.01)
    raise TimeoutError(place)

@pytest.fixture
def together(request):
    meet(request.node.name.replace("[", "-").rstrip("]"))
"""

RACE = """
import os, pytest, agent, conftest

@pytest.mark.parametrize("n", range(6))
def test_race(n, agentreplay, together):
    agent.ask([{"role": "user", "content": f"question {n} of {os.environ['WHO']}"}])
    conftest.meet(f"asked-{n}")
"""


def test_workers_record_what_one_process_records(project):
    alone, spread = recorded_twice(project, 12, 3)
    assert len(alone) == 12
    assert spread == alone
    assert not [*project.root.rglob(".ar-*"), *project.root.rglob("*.jsonl")]


def test_of_two_processes_that_record_one_test_one_wins_and_the_other_is_told(project):
    project.server._replies = lambda body, number: "fine"
    project.write(conftest=MEETING, test_shop=RACE)
    command = [sys.executable, "-m", "pytest", *project.options, "--snapshot-record", "--agentreplay-no-prove", "-rE"]
    racing = {
        who: subprocess.Popen(
            command, cwd=project.root, env=project.surroundings(WHO=who, COLUMNS="250"), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8",
        )
        for who in ("a", "b")
    }  # fmt: skip
    said = {who: process.communicate(timeout=120)[0] for who, process in racing.items()}
    assert len(project.files) == 6
    for n, file in enumerate(sorted(project.files, key=lambda file: int(re.search(r"race-(\d)", file.name)[1]))):
        snapshot = codec.loads(file.read_bytes(), file=str(file))
        assert snapshot.sealed
        asked = snapshot.run.exchanges[0].call.body.data.decode()
        (winner,) = (who for who in "ab" if f"question {n} of {who}" in asked)
        (loser,) = {*"ab"} - {winner}
        assert not re.search(rf"^ERROR \S+race\[{n}\]", said[winner], re.MULTILINE)
        assert re.search(rf"^ERROR \S+race\[{n}\] - .*changed underneath this recording", said[loser], re.MULTILINE)
    assert all(process.returncode in {0, 1} for process in racing.values())
    assert sum(text.count("changed underneath") > 0 for text in said.values()) >= 1
    for text in said.values():
        assert "Traceback" not in text
    assert not [*project.root.rglob(".ar-*")]
