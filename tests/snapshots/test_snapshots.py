from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotMisplaced, SnapshotMissing, SnapshotUnreadable
from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import journal as journal_codec
from pytest_agentreplay.snapshots.store import layout, reading
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.snapshots.faults.disk import Disk, fails, instead_of
from tests.support.stored_runs import post, reply, run_of, tool_run

NODE = "tests/test_shop.py::test_refund"


def exchange(start=1, text="hi"):
    return Exchange(ToolCall("t", {"a": text}), ToolReply(text), start, start + 1)


def text_of(node=NODE):
    return codec.dumps(tool_run(node, "hi"))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def path(store, tmp_path):
    return store.path_of(tmp_path / "tests" / "test_shop.py", NODE)


def journals(store):
    kept = sorted(layout.journal_folder(store.root).rglob("*.jsonl"))
    return [(file, *journal_codec.read_journal(file.read_bytes())) for file in kept]


def test_a_run_comes_back_with_chunks_that_redaction_emptied(store, path):
    store.save(path, text_of())
    loaded = store.load(path, NODE)
    assert loaded.run == tool_run(NODE, "hi")
    assert loaded.sealed
    assert store.list_edits(path) == []
    emptied = reply(b"ab", (1, 0, 1), headers=(("Content-Type", "text/plain"),))
    sealed = run_of((post(), emptied), test=NODE)
    store.save(path, codec.dumps(sealed))
    assert store.load(path, NODE).run == sealed


def test_a_missing_snapshot_says_what_to_type_and_that_of_another_test_names_both(store, path):
    with pytest.raises(SnapshotMissing, match=f"pytest --snapshot-record {NODE}"):
        store.load(path, NODE)
    store.save(path, text_of("tests/test_shop.py::test_old"))
    with pytest.raises(SnapshotMisplaced) as caught:
        store.load(path, NODE)
    assert not [word for word in ("test_old", NODE, "renamed?", path.as_posix()) if word not in str(caught.value)]


def test_two_ids_of_one_hash_are_told_and_neither_loses_its_snapshot(store, tmp_path, monkeypatch):
    """Were two hashes equal: the second test is refused, recording or not, at the same time or later."""
    monkeypatch.setattr(layout, "HASH_LENGTH", 0)
    module, ids = tmp_path / "t.py", ("t.py::test[a/b]", "t.py::test[a:b]")
    path, same = (store.path_of(module, nodeid) for nodeid in ids)
    assert path == same
    other = Store(tmp_path)
    with pytest.raises(SnapshotMissing):
        other.load(path, ids[1])
    store.save(path, text_of(ids[0]))
    with pytest.raises(CannotWrite, match="changed underneath"):
        other.save(path, text_of(ids[1]))
    with pytest.raises(SnapshotMisplaced, match=r"a:b"):
        store.load(path, ids[1])
    assert store.load(path, ids[0]).run.header.test == ids[0]
    store.save(path, text_of(ids[0]))


def test_unreadable_is_never_missing(store, path):
    path.parent.mkdir(parents=True)
    for data in (b"", b"{", b"<<<<<<< HEAD\n", b"\xff\xfe", b"version https://git-lfs.github.com/spec/v1\n"):
        path.write_bytes(data)
        with pytest.raises(SnapshotUnreadable) as caught:
            store.load(path, NODE)
        assert path.as_posix() in str(caught.value)
        assert path.read_bytes() == data


def test_a_journal_is_there_at_once_gone_when_sealed_and_a_kept_one_loses_at_most_its_torn_end(store, path):
    journal = store.journal_for(path, Header(NODE))
    journal.write(exchange(1))
    journal.write(exchange(3))
    ((file, found, torn),) = journals(store)
    assert (file, torn) == (journal.path, 0)
    assert found == Run(Header(NODE), (exchange(1), exchange(3)))
    data = journal.path.read_bytes()
    journal.path.write_bytes(data[:-7])
    ((_, found, torn),) = journals(store)
    assert [e.start for e in found.exchanges] == [1]
    assert torn > 0
    journal.close(keep=False)
    journal.write(exchange(5))
    assert journals(store) == []


def test_a_journal_takes_from_many_threads(store, path):
    journal = store.journal_for(path, Header(NODE))

    def write(first):
        for start in range(first, first + 20):
            journal.write(exchange(start))

    with ThreadPoolExecutor(8) as pool:
        pool.map(write, range(0, 800, 100))
    journal.close(keep=True)
    ((_, found, torn),) = journals(store)
    assert (len(found.exchanges), torn) == (160, 0)


def test_a_full_disk_ends_the_journal_and_not_the_call(store, path):
    journal = store.journal_for(path, Header(NODE))
    journal.write(exchange(1))
    with instead_of(Disk(1, fails(errno.ENOSPC), counted={"write"})):
        journal.write(exchange(3))
    journal.write(exchange(5))
    ((_, found, _),) = journals(store)
    assert [e.start for e in found.exchanges] == [1]
    journal.close(keep=False)
    assert journals(store) == []


def test_nowhere_to_write_is_said_before_anything_runs(tmp_path):
    (tmp_path / ".pytest_agentreplay").write_text("a file where the folder belongs", encoding="utf-8")
    with pytest.raises(CannotWrite):
        Store(tmp_path).journal_for(tmp_path / "x.snapshot.json", Header(NODE))


def test_what_would_be_too_large_to_be_read_is_not_written(store, path):
    text = text_of()
    store.save(path, text)
    small = Store(store.root, largest=len(text.encode()) - 1)
    for write in (small.save, small.save_pending):
        with pytest.raises(
            CannotWrite, match="record less in one test, or raise largest in agentreplay_checks"
        ) as caught:
            write(path, text)
        assert f"{len(text.encode()):,} bytes" in str(caught.value)
    assert path.read_text(encoding="utf-8") == text


def test_a_command_reads_no_file_above_the_largest(tmp_path):
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nagentreplay_checks =\n    large = 1\n    largest = 9\n", encoding="utf-8"
    )
    (tmp_path / "x.snapshot.json").write_bytes(b" " * 10)
    with pytest.raises(
        SnapshotUnreadable, match="larger than 9 bytes; to allow it, raise largest in agentreplay_checks"
    ):
        reading.data(tmp_path / "x.snapshot.json")
