"""`agentreplay show FILE --kit`: every field of a snapshot, in any width, as plain data, and by its exit code."""

import json
from dataclasses import replace

import pytest

from pytest_agentreplay.compare.kit_fields import Status
from pytest_agentreplay.snapshots import codec


@pytest.fixture(scope="module")
def recorded(shared_project):
    project = shared_project()
    project.furnish()
    assert project.record().returncode == 0
    run = project.snapshots[0].run
    # On a busy machine the clock may have run on, which is a gap.
    kit = run.header.kit | {"clock": {"mode": "stepped", "ran_on": False}}
    return codec.dumps(replace(run, header=replace(run.header, kit=kit)))


@pytest.fixture
def file(recorded, root):
    (root / "a.snapshot.json").write_text(recorded, encoding="utf-8")
    return root / "a.snapshot.json"


def test_it_fits_the_terminal_and_gives_plain_data(file, typed, monkeypatch):
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        told = typed("show", "--kit", file)
        rows = told.out.splitlines()
        assert (told.code, rows[1]) == (0, "replays as it was recorded (grade A)")
        assert max(map(len, rows)) <= columns
        heads = [row for row in rows if row and not row.startswith(" ")]
        assert heads[2:] == ["calls", "model", "scene", "code", "run"]
        for row in ("requests             5 calls", "model asked          m-1", "the run's input      Where is A-17?"):
            assert f"  captured  {row}" in told.out
        assert "sk-live" not in told.out
    said = json.loads(typed("show", "--kit", file, "--json").out)
    assert (said["grade"], said["reasons"], said["file"]) == ("A", [], file.name)
    assert {field["status"] for field in said["fields"]} <= {status.value for status in Status}
    assert {"group": "calls", "name": "replies", "status": "captured", "value": "5 of 5"} in said["fields"]


def test_the_exit_code_says_whether_it_replays(file, typed):
    stored = json.loads(file.read_text(encoding="utf-8"))
    stored["header"]["outcome"] = {}
    file.write_text(json.dumps(stored), encoding="utf-8")
    told = typed("show", "--kit", file)
    assert (told.code, "grade C" in told.out) == (125, True)
    file.write_text(json.dumps(stored | {"exchanges": [], "volatile": []}), encoding="utf-8")
    told = typed("show", "--kit", file)
    assert (told.code, "cannot be replayed: there is nothing to serve (grade cold)" in told.out) == (125, True)
    file.write_text("{", encoding="utf-8")
    assert (typed("show", "--kit", file).code, typed("show", "--kit", "nothing.snapshot.json").code) == (4, 2)
