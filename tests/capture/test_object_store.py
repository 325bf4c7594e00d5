"""Captured runs in an object store: a real S3 server, which the tests start."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from pytest_agentreplay.errors import CannotWrite, SnapshotMissing
from pytest_agentreplay.runs.capture.keeping import Keeper
from pytest_agentreplay.snapshots.store.run_store import RunStore, find_runs
from tests.support.ended_captures import end

pytestmark = pytest.mark.env("service")


@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from moto.server import ThreadedMotoServer as S; s = S(port=0, verbose=False); s.start(); print(s.get_host_and_port()[1], flush=True); import threading; threading.Event().wait()",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        port = process.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}"
        process.kill()


@pytest.fixture
def bucket(server, monkeypatch, request):
    import fsspec

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    fs = fsspec.filesystem("s3")
    name = request.node.name.replace("_", "-")[:60].strip("-")
    fs.mkdir(name)
    return f"s3://{name}/runs"


def test_runs_are_written_listed_by_their_heads_and_read(bucket):
    keeper = Keeper(bucket, keep="all", service="shop")
    for n in range(30):
        keeper.take(end(str(n), input={"q": "x" * 3_000}))
    keeper.close(60)
    assert keeper.stats()["kept"] == 30
    entries = list(find_runs([bucket]))
    assert sorted(int(entry.head["id"]) for entry in entries) == list(range(30))
    assert {entry.problem for entry in entries} == {""}
    assert b'"integrity"' in RunStore(bucket).read_run(entries[0])
    [alone] = find_runs([entries[7].where])
    assert alone.head == entries[7].head
    RunStore(bucket).delete(entries[0])
    assert len(list(RunStore(bucket).list_runs())) == 29
    assert len(list(RunStore(bucket).list_runs(since="2026-11-29"))) == 0
    assert RunStore(bucket).rotate("2026-11-29", None) == 29


def test_services_at_once_write_over_nothing(bucket):
    stores = [RunStore(bucket) for _ in range(8)]
    places = []
    threads = [
        threading.Thread(target=lambda s=s, n=n: places.append(s.write("refund", "2026-11-28", "same", b"%d" % n)))
        for n, s in enumerate(stores)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*places}) == 8
    entries = list(RunStore(bucket).list_runs())
    assert {RunStore(bucket).read_run(entry) for entry in entries} == {b"%d" % n for n in range(8)}


def test_a_store_that_is_not_there_says_so(bucket):
    store = RunStore("s3://no-such-bucket/runs")
    with pytest.raises(CannotWrite, match="no-such-bucket"):
        store.write("refund", "2026-11-28", "a", b"x")
    with pytest.raises(SnapshotMissing, match="s3://no-such-bucket/runs: is not there"):
        list(store.list_runs())


def test_what_is_due_is_written_at_the_end_of_the_process(bucket):
    code = (
        "import sys; from pytest_agentreplay.runs.capture.keeping import Keeper; from tests.support.ended_captures import end\n"
        "keeper = Keeper(sys.argv[1], keep='all')\n"
        "keeper.take(end('first'))\n"
        "while not keeper.stats()['kept']: pass\n"
        "for n in range(19): keeper.take(end(str(n)))\n"
    )
    subprocess.run([sys.executable, "-c", code, bucket], check=True, timeout=60)
    assert len(list(RunStore(bucket).list_runs())) == 20
