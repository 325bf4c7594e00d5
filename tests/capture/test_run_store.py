from __future__ import annotations

import os
import time

import pytest

from pytest_agentreplay.errors import CannotWrite, SettingsError, SnapshotError, SnapshotMissing
from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files, run_store
from pytest_agentreplay.snapshots.store.run_store import RunEntry, RunStore, find_runs, is_store

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")
DAY = "2026-11-28"


def text_of(name="refund", identity="a1", **kit):
    outcome = {"status": "passed"}
    kit = {"capture": {"id": identity, "name": name, "outcome": outcome, "tools": ["lookup_order"]}} | kit
    header = Header(f"{name}/{identity}", f"{DAY}T10:00:00+00:00", 1, 0, outcome, kit)
    return codec.dumps(Run(header, (Exchange(ToolCall("t", {"n": 1}), ToolReply("x"), 1, 2),))).encode()


@pytest.fixture(params=["folder", "memory"])
def where(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "runs")
    pytest.importorskip("fsspec")
    return f"memory://{tmp_path.name}-runs"


def test_what_is_written_is_listed_by_its_head_and_read_whole(where):
    store = RunStore(where)
    assert list(store.list_runs()) == []
    assert not is_store(where) or where.startswith("memory")
    data = text_of(input={"arguments": {"q": "x" * 1_000_000}})
    written = store.write("refund", DAY, "a1", data)
    store.write("GET /orders/{id}", "2026-11-27", "../../etc", text_of("GET /orders/{id}", "../../etc"))
    first, second = RunStore(where).list_runs()
    assert (second.where, second.name, second.day, second.id, second.size) == (written, "refund", DAY, "a1", len(data))
    assert second.head["tools"] == ["lookup_order"]
    assert (second.head["outcome"], second.head["recorded"][:10]) == ({"status": "passed"}, DAY)
    assert store.read_run(second) == data
    assert (first.name[:14], first.id[:4], first.head["id"]) == ("get-orders-id-", "etc-", "../../etc")
    assert list(RunStore(where).list_runs(since=DAY)) == [second]
    assert list(find_runs([where])) == [first, second]
    [alone] = find_runs([written])
    assert (alone.name, alone.day, alone.id, alone.head, store.read_run(alone)) == (
        "refund",
        DAY,
        "a1",
        second.head,
        data,
    )
    assert is_store(where)
    assert not is_store(written)
    store.delete(second)
    assert list(store.list_runs()) == [first]


@pytest.mark.parametrize(
    "identity", ["01J9ZK3M7Q4X8V2B6N5T1R0WYC", "req_011CTy8d2kq", "2f1e6c3a-9b7d-4d5f-8a55-0c1d2e3f4a5b"]
)
def test_a_file_is_found_by_the_id_of_its_run(where, identity):
    written = RunStore(where).write("refund", DAY, identity, text_of(identity=identity))
    assert written.replace("\\", "/").endswith(f"/refund/{DAY}/{identity}.run.json")


@pytest.mark.parametrize("identity", ["con", "a/../b", "..", "", "é", "a" * 200, "a.", "a\nb", "a:b", "~"])
def test_an_id_that_is_no_name_of_a_file_gets_one(where, identity):
    store = RunStore(where)
    store.write(identity, DAY, identity, text_of(identity=identity))
    [entry] = store.list_runs()
    assert (entry.problem, entry.head["id"]) == ("", identity)
    assert len(entry.id) <= 80


def test_another_run_of_the_same_id_stays(where):
    stores = RunStore(where), RunStore(where)
    places = {store.write("refund", DAY, "a1", text_of(n=n)) for n, store in enumerate(stores)}
    assert len(places) == 2
    assert {codec.loads(stores[0].read_run(entry), file="").run.header.kit["n"] for entry in stores[1].list_runs()} == {
        0,
        1,
    }


def test_what_is_no_run_is_listed_with_its_problem(where):
    store = RunStore(where)
    store.write("refund", DAY, "good", text_of())
    store.write("refund", DAY, "newer", text_of().replace(b'"1.0"', b'"2.0"', 1))
    store.write("refund", DAY, "torn", text_of()[:30])
    store.write("refund", DAY, "empty", b"")
    store.write("refund", DAY, "other", b'{"a": 1}')
    store.write("refund", DAY, "test", codec.dumps(Run(Header("test_a.py::test_b"))).encode())
    for place in ("readme.txt", "refund/readme.txt", f"refund/{DAY}/readme.txt", "refund/yesterday/a.run.json"):
        store._put(store._locate(place), b"hello")
    entries = {entry.where.removeprefix(f"{where}/"): entry for entry in RunStore(where).list_runs()}
    problems = {place: entry.problem for place, entry in entries.items()}
    assert problems.pop(f"refund/{DAY}/good.run.json") == ""
    assert "reads up to 1.0" in problems.pop(f"refund/{DAY}/newer.run.json")
    assert "no captured run" in problems.pop(f"refund/{DAY}/test.run.json")
    assert "have no `capture`" in problems.pop(f"refund/{DAY}/torn.run.json")
    for name in ("empty", "other"):
        assert "is this a snapshot?" in problems.pop(f"refund/{DAY}/{name}.run.json"), name
    assert problems == {}, "what lies elsewhere is left alone"


@posix
def test_links_in_a_store_are_neither_followed_nor_written_through(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / DAY).mkdir()
    (tmp_path / "secret" / DAY / "s.run.json").write_bytes(text_of())
    root = tmp_path / "runs"
    (root / "refund" / DAY).mkdir(parents=True)
    (root / "linked").symlink_to(tmp_path / "secret")
    (root / "refund" / "2026-11-27").symlink_to(tmp_path / "secret" / DAY)
    (root / "refund" / DAY / "s.run.json").symlink_to(tmp_path / "secret" / DAY / "s.run.json")
    entries = list(RunStore(root).list_runs())
    assert entries == []
    for place in ("linked", "refund/2026-11-27", "refund"):
        with pytest.raises(SnapshotError):
            RunStore(root).read_run(RunEntry(f"{root}/{place}/{DAY}/s.run.json"))
    with pytest.raises(CannotWrite, match="link"):
        RunStore(root).write("linked", DAY, "a", b"x")
    assert [*(tmp_path / "secret").rglob("*.json")] == [tmp_path / "secret" / DAY / "s.run.json"]


@posix
def test_files_and_folders_are_private_to_their_owner(tmp_path):
    old = os.umask(0)
    try:
        written = RunStore(tmp_path / "new" / "runs").write("refund", DAY, "a", text_of())
    finally:
        os.umask(old)
    made = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in made if path.is_dir()} == {0o700}
    assert os.stat(written).st_mode & 0o777 == 0o600
    assert [path.name for path in made if path.is_file()] == ["a.run.json"]


def test_what_killed_services_have_left_is_removed_and_folders_are_not_listed_for_each_file(tmp_path, monkeypatch):
    folder = tmp_path / "refund" / DAY
    folder.mkdir(parents=True)
    for name in (".ar-old.tmp", ".ar-new.tmp"):
        (folder / name).write_text("", encoding="utf-8")
    os.utime(folder / ".ar-old.tmp", (1, 1))
    listed = []
    monkeypatch.setattr(files, "list_names", lambda *args, real=files.list_names: listed.append(1) or real(*args))
    store = RunStore(tmp_path)
    for n in range(50):
        store.write("refund", DAY, str(n), text_of())
    assert len(listed) == 1
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == [".ar-new.tmp"]


def test_rotation_drops_old_days_and_then_the_oldest_files(where):
    store = RunStore(where)
    for day, name in (("2026-11-01", "a"), ("2026-11-27", "d"), ("2026-11-27", "c"), (DAY, "b")):
        store.write("refund", day, name, text_of(identity=name))
        time.sleep(0.02)
    assert store.rotate("2026-11-15", None) == 1
    assert store.rotate("", 2 * len(text_of(identity="a"))) == 1
    assert [entry.id for entry in store.list_runs()] == ["c", "b"]


def test_a_place_that_is_no_store_says_so(tmp_path):
    with pytest.raises(SnapshotMissing, match="no captured runs"):
        list(find_runs([tmp_path / "none"]))
    (tmp_path / "test_a.py").write_text("", encoding="utf-8")
    with pytest.raises(SnapshotMissing, match="no captured runs"):
        list(find_runs([tmp_path]))
    [entry] = find_runs([tmp_path / "test_a.py"])
    assert "is this a snapshot?" in entry.problem
    with pytest.raises(CannotWrite, match="Another file stands there"):
        RunStore(tmp_path / "test_a.py").write("refund", DAY, "a", b"x")


def test_a_file_system_with_folders_renames_what_is_written(monkeypatch, tmp_path):
    pytest.importorskip("fsspec")
    monkeypatch.setattr(run_store, "RENAMING", {"memory"})
    store = RunStore(f"memory://{tmp_path.name}")
    places = [store.write("refund", DAY, "a1", text_of()) for _ in range(2)]
    assert sorted(entry.where for entry in store.list_runs()) == sorted(places)
    system, root = store._connect(store.where)
    assert [name for name in system.find(root) if ".ar-" in name] == []


def test_a_url_whose_package_is_missing_says_what_to_install(monkeypatch):
    pytest.importorskip("fsspec")
    with pytest.raises(SettingsError, match="pip install adlfs"):
        RunStore("az://box/runs")
    with pytest.raises(SettingsError, match=r"nothing://box/runs: .* no such protocol"):
        RunStore("nothing://user:password@box/runs")
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(SettingsError, match=r"pip install 'frozen-agentreplay\[stores\]'"):
        RunStore("s3://box/runs")


def test_a_list_reads_the_heads_of_files_and_nothing_else(tmp_path, monkeypatch):
    store, sizes, head = RunStore(tmp_path / "runs"), [], files.head
    data = text_of(input={"q": "x" * 10_000})
    (folder := tmp_path / "runs" / "refund" / DAY).mkdir(parents=True)
    for n in range(20):
        (folder / f"{n}.run.json").write_bytes(data)
    monkeypatch.setattr(files, "read_file", None)
    monkeypatch.setattr(files, "head", lambda path, size: sizes.append(size) or head(path, size))
    assert len([*store.list_runs()]) == 20
    assert sizes == [codec.HEAD] * 20
