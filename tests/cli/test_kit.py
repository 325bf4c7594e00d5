"""`agentreplay kit FILE`: every field of a snapshot, in any width, as plain data, and by its exit code."""

import json
from dataclasses import replace

import pytest

from pytest_agentreplay import codec
from pytest_agentreplay.core.kit import Status


@pytest.fixture(scope="module")
def recorded(shared_project):
    project = shared_project()
    project.furnish()
    assert project.record().returncode == 0
    run = project.snapshots[0].run
    # On a busy machine the clock may have run on, which is a gap.
    kit = run.header.kit | {"clock": {"mode": "stepped", "ran_on": False}}
    project.files[0].write_text(codec.dumps(replace(run, header=replace(run.header, kit=kit))), encoding="utf-8")
    return project


@pytest.mark.parametrize("columns", ["80", "120"])
def test_it_fits_the_terminal(recorded, columns):
    done = recorded.command("kit", recorded.files[0], COLUMNS=columns)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert rows[1] == "grade A: replays as it was recorded"
    assert max(map(len, rows)) <= int(columns)
    assert [row for row in rows if row and not row.startswith(" ")][2:] == ["calls", "model", "scene", "code", "run"]
    assert "  captured  requests             5 calls" in done.stdout
    assert "  captured  model asked          m-1" in done.stdout
    assert "  captured  the run's input      Where is A-17?" in done.stdout
    assert "sk-live" not in done.stdout


def test_plain_data(recorded):
    done = recorded.command("kit", recorded.files[0], "--json")
    said = json.loads(done.stdout)
    assert (said["grade"], said["reasons"]) == ("A", [])
    assert said["file"] == recorded.files[0].relative_to(recorded.root).as_posix()
    assert {field["status"] for field in said["fields"]} <= {status.value for status in Status}
    assert {"group": "calls", "name": "replies", "status": "captured", "value": "5 of 5"} in said["fields"]


def test_the_exit_code_says_whether_it_replays(recorded):
    file = recorded.files[0]
    whole = file.read_text(encoding="utf-8")
    try:
        stored = json.loads(whole)
        stored["header"]["outcome"] = {}
        file.write_text(json.dumps(stored), encoding="utf-8")
        done = recorded.command("kit", file)
        assert done.returncode == 125
        assert "grade C" in done.stdout
        stored["exchanges"] = []
        file.write_text(json.dumps(stored), encoding="utf-8")
        done = recorded.command("kit", file)
        assert done.returncode == 125
        assert "grade cold: cannot be replayed" in done.stdout
        file.write_text("{", encoding="utf-8")
        assert recorded.command("kit", file).returncode == 4
    finally:
        file.write_text(whole, encoding="utf-8")
    assert recorded.command("kit", "nothing.snapshot.json").returncode == 2
