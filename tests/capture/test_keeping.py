from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_agentreplay.errors import CannotWrite, PolicyError, SettingsError
from pytest_agentreplay.runs.capture import ended_capture, fail_open
from pytest_agentreplay.runs.capture.ended_capture import Limits
from pytest_agentreplay.runs.capture.keeping import Keeper
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.run_store import RunStore
from tests.snapshots.faults.disk import LASTING, TAKES_SPACE, Disk, fails, instead_of
from tests.support.ended_captures import end
from tests.support.exhaustive import rare


def close(keeper):
    keeper.close(10)
    return keeper.stats()


def kept(path):
    return {entry.head["id"]: entry.head["reason"] for entry in RunStore(path).list_runs() if not entry.problem}


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_failures_are_kept_and_the_rest_waits_in_the_ring(tmp_path):
    keeper = Keeper(tmp_path)
    keeper.take(end("bad", failure="no such order"))
    keeper.take(end("good"))
    keeper.take(end("later"))
    assert keeper.keep("later", "thumbs down")
    assert not keeper.keep("never")
    wait_for(lambda: keeper.stats()["kept"] == 2)
    assert keeper.keep("bad")
    close(keeper)
    assert kept(tmp_path) == {"bad": "failed", "later": "kept: thumbs down"}
    assert {"kept": 2, "dropped": 1, "waiting": 0, "ring": 0}.items() <= keeper.stats().items()


def test_all_a_rate_or_a_function_decides(tmp_path):
    ids = [f"{n:04x}" for n in range(400)]
    rules = [0.25, "0.25", "all", lambda run: run.input["amount"] > 100 and run.calls == 3 and not run.failed]
    found = []
    for n, rule in enumerate(rules):
        keeper = Keeper(tmp_path / str(n), keep=rule)
        for identity in ids[:16]:
            keeper.take(end(identity, input={"amount": int(identity, 16) * 10}))
        close(keeper)
        found.append(kept(tmp_path / str(n)))
    share = [identity for identity in ids if ended_capture.draw(identity) < 0.25]
    assert 80 < len(share) < 120
    assert found[0] == found[1] == {identity: "rate" for identity in share if identity in ids[:16]}
    assert found[2] == dict.fromkeys(ids[:16], "all")
    assert found[3] == dict.fromkeys(ids[11:16], "function")


def test_a_function_that_raises_is_a_fault_and_failures_are_kept(tmp_path, caplog):
    fail_open.reset()
    keeper = Keeper(tmp_path, keep=lambda run: {}[f"secret of {run.id}"])
    keeper.take(end("bad", failure="no"))
    keeper.take(end("good"))
    close(keeper)
    assert fail_open.read_counts()["faults"] == 2
    assert kept(tmp_path) == {"bad": "failed"}
    assert len(caplog.records) == 1
    assert "KeyError in" in caplog.text
    assert "secret of" not in caplog.text


@pytest.mark.parametrize("keep", ["some", "1.5", -1, True, None, "nan"])
def test_a_rule_that_is_none_is_refused(tmp_path, keep):
    with pytest.raises(SettingsError, match="keep takes"):
        Keeper(tmp_path, keep=keep)


def test_the_environment_overrides_the_call():
    choose = ended_capture.choose_capture
    assert choose("runs", "all", {}) == ("runs", "all")
    assert choose("runs", "all", {"AGENTREPLAY_CAPTURE": "off"}) is None
    assert choose("runs", "all", {"AGENTREPLAY_CAPTURE": "0.1", "AGENTREPLAY_CAPTURE_TO": "s3://b"}) == (
        "s3://b",
        "0.1",
    )
    with pytest.raises(SettingsError, match="AGENTREPLAY_CAPTURE takes off, failed, all or a rate"):
        choose("runs", "all", {"AGENTREPLAY_CAPTURE": "of"})


def test_the_ring_is_bounded_by_runs_and_by_bytes(tmp_path):
    for bounds in ({"ring_runs": 10}, {"ring_bytes": 10_000}):
        keeper = Keeper(tmp_path, limits=Limits(**bounds))
        for n in range(25):
            keeper.take(end(str(n)))
        assert {"ring": 10, "dropped": 15, "waiting": 0}.items() <= keeper.stats().items()
        assert (keeper.keep("14"), keeper.keep("15")) == (False, True)
        assert close(keeper)["dropped"] == 24


def test_a_run_that_is_too_large_is_kept_as_its_head_and_failure(tmp_path):
    keeper = Keeper(tmp_path, limits=Limits(max_bytes=2_000))
    keeper.take(end("large", size=2_001, failure="no such order", input={"q": "where"}, output="x" * 100_000))
    assert {"kept": 1, "too_large": 1}.items() <= close(keeper).items()
    [entry] = RunStore(tmp_path).list_runs()
    run = codec.loads(RunStore(tmp_path).read_run(entry), file="").run
    assert run.exchanges == ()
    assert run.header.outcome == {"status": "failed", "type": "ValueError", "message": "no such order"}
    assert entry.head["cold"] == "it is too large: its calls take 2,001 bytes, and max_bytes is 2,000"
    assert (entry.head["calls"], entry.head["length"]) == (3, 2_001)
    assert (run.header.kit["input"], "output" in run.header.kit) == ({"q": "where"}, False)


def test_a_file_that_nobody_could_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", 100_000)
    keeper = Keeper(tmp_path, keep="all")
    keeper.take(end("large", input={"q": "x" * 200_000}))
    assert {"kept": 1, "too_large": 1}.items() <= close(keeper).items()
    [entry] = RunStore(tmp_path).list_runs()
    assert entry.head["cold"].startswith("it is too large")
    assert entry.size < 5_000


def test_runs_of_one_id_are_kept_each(tmp_path):
    keeper = Keeper(tmp_path)
    for name in ("refund", "mail"):
        keeper.take(end("same", name, failure="no"))
        keeper.take(end("later", name))
    assert keeper.keep("later")
    assert {"kept": 4, "dropped": 0}.items() <= close(keeper).items()
    assert sorted(path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.run.json")) == [
        *("mail", "mail", "refund", "refund")
    ]


def test_take_never_waits_and_a_full_queue_drops_its_oldest_runs(tmp_path, monkeypatch, caplog):
    held = threading.Event()
    write = RunStore.write
    monkeypatch.setattr(RunStore, "write", lambda *args: (held.wait(20), write(*args)))
    keeper = Keeper(tmp_path, keep="all", limits=Limits(ring_runs=5))
    keeper.take(end("first"))
    wait_for(lambda: keeper._writing == "first")
    begun = time.monotonic()
    for n in range(20):
        keeper.take(end(str(n)))
    assert time.monotonic() - begun < 1
    assert {"waiting": 6, "dropped": 15}.items() <= keeper.stats().items()
    held.set()
    assert {"kept": 6, "dropped": 15}.items() <= close(keeper).items()
    assert kept(tmp_path).keys() == {"first", "15", "16", "17", "18", "19"}
    assert "keep a rate of them" in caplog.text
    assert len(caplog.records) == 1


def test_what_is_due_is_lost_in_words_where_the_end_cannot_wait(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(RunStore, "write", lambda *args: time.sleep(20))
    keeper = Keeper(tmp_path, keep="all")
    for n in range(3):
        keeper.take(end(str(n)))
    keeper.close(0.2)
    assert "3 runs were still to be written after 0.2 seconds" in caplog.text
    keeper.take(end("late"))
    assert {"dropped": 3, "waiting": 1}.items() <= keeper.stats().items()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_store_that_cannot_be_written_is_counted_and_the_run_waits(tmp_path, caplog, code):
    keeper = Keeper(tmp_path / "runs", keep="all")
    disk = Disk(1, fails(code), counted=TAKES_SPACE | {"mkdir"}, lasting=LASTING[code] | {"mkdir", "link"})
    with instead_of(disk):
        keeper.take(end("a"))
        keeper.take(end("b"))
        wait_for(lambda: keeper.stats()["failed_to_write"] == 2)
        wait_for(lambda: keeper.stats()["ring"] == 2)
    assert len(caplog.records) == 1
    assert (tmp_path / "runs").as_posix() in caplog.text
    assert {errno.ENOSPC: "ree some space", errno.EACCES: "ake the folder writable"}.get(
        code, "read-only"
    ) in caplog.text
    assert keeper.keep("a")
    assert {"kept": 1, "dropped": 1}.items() <= close(keeper).items()
    assert kept(tmp_path / "runs") == {"a": "kept"}
    assert not [*tmp_path.rglob(".ar-*")]


@pytest.mark.parametrize("store", ["", "  ", "http://127.0.0.1:1/runs", "nothing://runs", "az://box/runs"])
def test_a_store_that_is_none_is_refused_at_once(store):
    pytest.importorskip("fsspec")
    with pytest.raises(SettingsError, match=r"name a folder, or a URL as s3://bucket/runs|pip install adlfs"):
        Keeper(store)


def test_a_file_in_the_place_of_the_store_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    for store in ("file", "file/runs", "file/a/runs"):
        with pytest.raises(CannotWrite, match="name another place"):
            Keeper(tmp_path / store)
    Keeper(tmp_path / "new" / "runs")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused_at_once(tmp_path):
    tmp_path.chmod(0o500)
    for store in (tmp_path, tmp_path / "runs"):
        with pytest.raises(CannotWrite, match="ake the folder writable"):
            Keeper(store)


def test_a_store_that_breaks_later_is_counted(tmp_path, caplog):
    keeper = Keeper(tmp_path / "runs", keep="all")
    (tmp_path / "runs").write_text("", encoding="utf-8")
    keeper.take(end())
    assert close(keeper)["failed_to_write"] == 1
    assert "name another place" in caplog.text


def test_a_policy_that_is_none_is_refused_at_once(tmp_path):
    with pytest.raises(PolicyError, match="no such file"):
        Keeper(tmp_path, policy=tmp_path / "policy.yaml")
    (tmp_path / "policy.yaml").write_text("- no policy", encoding="utf-8")
    with pytest.raises(PolicyError):
        Keeper(tmp_path, policy=tmp_path / "policy.yaml")


def test_two_services_share_a_folder_and_lose_nothing(tmp_path):
    keepers = [Keeper(tmp_path, keep="all", service=name) for name in ("shop", "mail")]
    for n in range(20):
        for keeper in keepers:
            keeper.take(end(str(n)))
    for keeper in keepers:
        assert close(keeper)["kept"] == 20
    entries = list(RunStore(tmp_path).list_runs())
    assert sorted((entry.head["id"], entry.head["service"]) for entry in entries) == sorted(
        (str(n), name) for n in range(20) for name in ("shop", "mail")
    )


def test_files_rotate_by_bytes_and_by_age(tmp_path, monkeypatch):
    listed = []
    monkeypatch.setattr(RunStore, "rotate", lambda *args, real=RunStore.rotate: listed.append(1) or real(*args))
    keeper = Keeper(tmp_path, keep="all", limits=Limits(max_store_bytes=60_000))
    for n in range(30):
        keeper.take(end(str(n)))
    stats = close(keeper)
    files = [*tmp_path.rglob("*.run.json")]
    assert sum(file.stat().st_size for file in files) <= 60_000
    assert len(files) + stats["rotated"] == stats["kept"] == 30
    assert max(int(file.name.partition(".")[0]) for file in files) == 29
    assert len(listed) < 23
    keeper = Keeper(tmp_path, keep="all", limits=Limits(max_age=1))
    for name, began in (("new", time.time_ns()), ("old", 1_600_000_000_000_000_000), ("newer", time.time_ns())):
        keeper.take(end(name, began=began))
    close(keeper)
    keeper = Keeper(tmp_path, keep="all", limits=Limits(max_age=1))
    keeper.take(end("newest", began=time.time_ns()))
    close(keeper)
    assert "old" not in kept(tmp_path)
    assert {"new", "newer", "newest"} <= kept(tmp_path).keys()


def test_many_threads_hand_over_at_once_and_each_run_is_counted(tmp_path):
    keeper = Keeper(tmp_path, limits=Limits(ring_runs=20))

    def serve(worker):
        for n in range(20):
            keeper.take(end(f"{worker}-{n}", failure="no" if n % 10 == 0 else None))

    threads = [threading.Thread(target=serve, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = close(keeper)
    assert (stats["kept"], stats["dropped"]) == (16, 144)
    assert len(kept(tmp_path)) == 16


PRELUDE = """
import multiprocessing, os, sys
from pytest_agentreplay.runs.capture.keeping import Keeper
from tests.support.ended_captures import end
keeper = Keeper(sys.argv[1], keep="all")
"""
FORKED = """
keeper = Keeper(sys.argv[1])
keeper.take(end("of-parent"))
keeper._changed.acquire()  # as another thread of the parent may hold it
child = os.fork()
if child == 0:
    keeper = Keeper(sys.argv[1])
    assert not keeper.keep("of-parent")
    keeper.take(end("of-child", failure="no"))
    sys.exit()
keeper._changed.release()
assert os.waitpid(child, 0)[1] == 0
assert keeper.keep("of-parent")
"""
WORKER = """
def work():
    keeper = Keeper(sys.argv[1], keep="all")
    for n in range(20): keeper.take(end(str(n)))
process = multiprocessing.get_context("fork").Process(target=work)
process.start()
process.join()
sys.exit(process.exitcode)
"""
POOL = """
import time
from concurrent.futures import ThreadPoolExecutor
def work(n):
    time.sleep(0.05)
    keeper.take(end(str(n)))
pool = ThreadPoolExecutor(2)
for n in range(20): pool.submit(work, n)
"""


@pytest.mark.parametrize(
    ("code", "count"),
    [(POOL, 20), (FORKED, 2), (WORKER, 20), *rare(("for n in range(20): keeper.take(end(str(n)))", 20))],
)
def test_what_is_due_is_written_at_the_end_of_each_process_once(tmp_path, code, count):
    if "fork" in code and not hasattr(os, "fork"):
        pytest.skip("forks")
    command = [sys.executable, "-W", "ignore:::", "-c", PRELUDE + code, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60, cwd=Path(__file__).resolve().parents[2])
    assert len(kept(tmp_path)) == len([*tmp_path.rglob("*.run.json")]) == count


def test_the_writer_belongs_to_no_run(tmp_path):
    import contextvars

    variable = contextvars.ContextVar("run", default=None)
    variable.set("a run")
    seen = []
    keeper = Keeper(tmp_path, keep=lambda run: seen.append(variable.get()))
    keeper.take(end())
    close(keeper)
    assert seen == [None]
