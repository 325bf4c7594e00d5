"""What makes, opens and exports cases, on disks that fail: a case is whole, or the same command makes it so."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from pytest_agentreplay.cli import main
from pytest_agentreplay.errors import AgentReplayError
from pytest_agentreplay.plugin.cases import is_our_case
from pytest_agentreplay.runs.case_files.case_writer import write_files
from pytest_agentreplay.runs.case_files.export import write
from pytest_agentreplay.runs.cases.command_agent import Artifacts
from pytest_agentreplay.snapshots.store import files, locks
from tests.snapshots.faults.disk import LASTING, Disk, each_call, fails, instead_of
from tests.support import kept_files
from tests.support.exhaustive import rare

REFUND = Path(__file__).parents[1] / "traces/traces/generated/otel-genai/otlp_refund_spanonly.jsonl"
CASE = {"run.snapshot.json": b"run", "case.yaml": b"case", "notes.md": b"notes", "fixtures/a-1.yaml": b"a"}
OLD = {"run.snapshot.json": b"another run", "case.yaml": b"another case", "mine.txt": b"mine"}
HALF = {"run.snapshot.json": b"run"}
UNSEEN = {"unlink", "rmdir", "lstat", "fstat", "listdir"}
"""What clears away, or looks; where it fails a temporary file may wait for the next writer."""

FAULTS = [(errno.EIO, False), (errno.ENOSPC, True), *rare((errno.EIO, True), (errno.EROFS, True))]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A real sync takes most of the time of these tests, and they have no power cut; one that fails fails as ever."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def laid(folder):
    write_files(folder, CASE)


def forced(folder):
    write_files(folder, CASE, force=True)


def exported(folder):
    write([(folder / name, data.decode()) for name, data in CASE.items()], force=True)


WRITERS = {
    "a new folder": (laid, None),
    "an empty folder": (laid, {}),
    "half a folder": (laid, HALF),
    "over another case": (forced, OLD),
    "an export": (exported, OLD),
}


def contents(folder):
    return {name: data for name, data in kept_files.contents(folder).items() if not name.endswith(".lock")}


def furnished(folder, before):
    if before is not None:
        folder.mkdir(parents=True)
        for name, data in before.items():
            (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(("code", "lasting"), FAULTS, ids=lambda one: errno.errorcode.get(one, one))
@pytest.mark.parametrize("writer", WRITERS)
def test_a_case_is_whole_or_the_next_run_makes_it_so(tmp_path, writer, code, lasting):
    work, before = WRITERS[writer]
    done = (before or {}) | CASE
    more = {"lasting": LASTING[code], "counted": LASTING[code]} if lasting else {}
    for number, disk in enumerate(each_call(fails(code), **more)):
        folder = furnished(tmp_path / str(number) / "cases" / "x", before)
        error = ""
        with instead_of(disk):
            try:
                work(folder)
            except AgentReplayError as caught:
                error = str(caught)
        found = contents(folder)
        if not error:
            assert found == done, f"{disk.struck}, call {disk.at}, failed unseen"
        else:
            assert os.strerror(code).lower() in error.lower()
            assert len(error.splitlines()) <= 2
        if error and not lasting and disk.struck not in UNSEEN:
            assert found == (done if "did not confirm" in error else (before or {}))
        whole = {name for name, data in found.items() if ".ar-" not in name and data == done.get(name)}
        assert work is not laid or "case.yaml" not in found or whole == set(done), "half a case that pytest collects"
        assert all(data in {before.get(name), done[name]} for name, data in found.items() if name in (before or {}))
        work(folder)
        assert contents(folder.parent) == {f"x/{name}": data for name, data in done.items()}
    assert disk.at > len(CASE), "there was something to fail"


def test_what_was_edited_is_not_written_over_because_the_disk_could_not_say_that_it_is_there(tmp_path):
    edited = CASE | {"case.yaml": b"edited", "notes.md": b"mine"}
    folder = furnished(tmp_path / "x", {})
    for disk in each_call(fails(errno.EIO)):
        files.write_all_whole({folder / name: data for name, data in edited.items()})
        (folder / "fixtures/a-1.yaml").unlink()
        with instead_of(disk):
            try:
                laid(folder)
            except AgentReplayError:
                pass
        found = contents(folder)
        assert (found["case.yaml"], found["notes.md"]) == (b"edited", b"mine")


def test_what_a_killed_process_left_is_no_case_and_goes_with_the_next_run(tmp_path, monkeypatch, capsys):
    """The folder is as a `kill -9` leaves it: written beside its place, not renamed, the lock nobody's."""
    monkeypatch.chdir(tmp_path)
    names = []

    def killed(real, old, new):
        names.append(Path(old))
        raise SystemExit  # what stands here never cleans up

    monkeypatch.setattr(files, "remove", lambda path: None)
    with instead_of(Disk(1, killed, counted={"replace"})), pytest.raises(SystemExit):
        main(["case", "new", str(REFUND), "--out", "cases/x"])
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert (names[0] / "case.yaml").exists()
    assert not is_our_case(names[0] / "case.yaml", tmp_path), "pytest takes it for none, whatever norecursedirs says"
    assert files.list_below(tmp_path, "case.yaml") == []
    assert [*locks.snapshots(tmp_path)] == []
    assert main(["ls", "--cold", "cases"]) == 5
    assert main(["case", "lint", "cases"]) != 0, "there is no case"
    capsys.readouterr()
    assert main(["case", "new", str(REFUND), "--out", "cases/x"]) == 0
    assert os.listdir("cases") == ["x"]


def test_two_that_make_one_case_at_once_make_it_once(tmp_path):
    told = []

    def work():
        told.append(write_files(tmp_path / "x", CASE).written)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, told)) == [0, 0, 0, len(CASE)]
    assert contents(tmp_path) == {f"x/{name}": data for name, data in CASE.items()}


def test_evidence_that_cannot_be_kept_is_told_and_holds_no_half_file(tmp_path):
    for number, disk in enumerate(each_call(fails(errno.ENOSPC), lasting=LASTING[errno.ENOSPC])):
        root = tmp_path / str(number)
        root.mkdir()
        error = ""
        with instead_of(disk):
            try:
                kept = Artifacts(root, "x", here=root)
                kept.keep("result.json", "whole")
                kept.keep("summary.md", "whole")
            except AgentReplayError as caught:
                error = str(caught)
        if not error:
            assert len([*root.rglob("result.json"), *root.rglob("summary.md")]) == 2
        assert {f.read_text(encoding="utf-8") for f in root.rglob("*") if f.suffix in {".json", ".md"}} <= {"whole"}
