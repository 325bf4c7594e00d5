"""Services that are killed while they write: `python -m tests.capture.killing FOLDER COUNT` prints what is left, as JSON.

Each is a process of its own, forked from this one, which has no other thread. The first ones are killed before a call
to the disk, each before the next one, the others at some time.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from pytest_agentreplay.runs.capture.ended_capture import Limits
from pytest_agentreplay.runs.capture.keeping import Keeper
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store.run_store import RunStore
from tests.snapshots.faults.disk import TOUCHES, Disk, dies, instead_of
from tests.support.ended_captures import end


def serve(store, name):
    """Write runs until somebody kills the process."""
    keeper = Keeper(store, keep="all", limits=Limits(max_store_bytes=200_000))
    number = 0
    while True:
        if keeper.stats()["waiting"] < 5:
            keeper.take(end(f"{name}-{number}"))
            number += 1
        time.sleep(0.0005)


def kill(store, number):
    """Have a service killed at a moment of its own."""
    chance = random.Random(number)
    child = os.fork()
    if child == 0:
        if number % 2:
            serve(store, number)
        with instead_of(Disk(20 + number, dies, counted=TOUCHES | {"mkdir", "link"})):
            serve(store, number)
    if number % 2:
        time.sleep(0.15 + chance.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(folder, count):
    store = RunStore(folder)
    for number in range(count):
        kill(folder, number)
    entries = list(store.list_runs())
    torn = [entry.where for entry in entries if entry.problem or not codec.loads(store.read_run(entry), file="").sealed]
    others = [path.name for path in Path(folder).rglob("*") if path.is_file() and not path.name.endswith(".run.json")]
    services = {str(entry.head["id"]).partition("-")[0] for entry in entries}
    print(json.dumps({"runs": len(entries), "services": len(services), "torn": torn, "others": others}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
