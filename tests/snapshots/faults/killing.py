"""Recordings that are killed: `python -m tests.snapshots.faults.killing FOLDER HOW MANY` prints what was found, as JSON.

HOW is `steps`: killed before each call to the disk in turn, round and round; or `delays`: killed at some time, seeded.
Each is a process of its own, forked from this one, which has no other thread.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from pytest_agentreplay.model.exchanges import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.codec import journal
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.snapshots.faults.disk import Disk, dies, instead_of

NODE = "test_a.py::test_b"


def run_of(word, calls=16):
    exchanges = (Exchange(ToolCall("t", {"n": n}), ToolReply(word * 400), 2 * n + 1, 2 * n + 2) for n in range(calls))
    return Run(Header(NODE), tuple(exchanges))


RUNS = {word: run_of(word) for word in ("old ", "new ")}
TEXTS = {word: codec.dumps(run) for word, run in RUNS.items()}


def record(root, word):
    """As a test does that is recorded."""
    store = Store(root)
    path = store.path_of(root / "test_a.py", NODE)
    store.load(path, NODE)
    keeper = store.journal_for(path, RUNS[word].header)
    for exchange in RUNS[word].exchanges:
        keeper.write(exchange)
    store.save(path, TEXTS[word])
    keeper.close(keep=False)


def killed(work, wait):
    """Run `work` in a process that is killed, by itself or after `wait` seconds; whether it was."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    if wait is not None:
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def found(root, path):
    """What a killed recording has left: is the file whole, what lies beside it, can the journal be read; is the next one green, and what lies there then."""
    text = path.read_text(encoding="utf-8")
    temporary = [file for file in root.rglob(".ar-*") if file.suffix == ".tmp"]
    journals = [*root.rglob("*.jsonl")]
    runs = [journal.read_journal(file.read_bytes())[0] for file in journals]
    read = [run is None or run.exchanges == RUNS["new "].exchanges[: len(run.exchanges)] for run in runs]
    record(root, "old ")
    left = [file.name for file in root.rglob("*") if file.is_file() and file.name not in {path.name, ".gitignore"}]
    told = {"torn": text not in TEXTS.values(), "new": text == TEXTS["new "], "unread": read.count(False), "left": left}
    green = path.read_text(encoding="utf-8") == TEXTS["old "]
    return told | {"temporary": len(temporary), "journals": len(journals), "green": green}


def main(folder, how, many):
    root = Path(folder)
    store = Store(root)
    path = store.path_of(root / "test_a.py", NODE)
    files.write_whole(path, TEXTS["old "])
    record(root, "old ")
    os.fsync = lambda handle: None  # the system goes on when a process is killed
    gc.freeze()
    begun = time.perf_counter()
    record(root, "old ")
    takes = time.perf_counter() - begun
    seeds, rows, step = random.Random(20), [], 0
    while len(rows) < many:
        step += 1
        if how == "steps":

            def work(at=step):
                with instead_of(Disk(at, dies)):
                    record(root, "new ")

            if not killed(work, None):
                step = 0
                record(root, "old ")
                continue
        else:

            def work():
                while True:
                    record(root, "new ")

            killed(work, seeds.uniform(0, 3 * takes))
        rows.append(found(root, path))
    print(json.dumps(rows))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
