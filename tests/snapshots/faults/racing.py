"""Two processes that record one test at once: `python -m tests.snapshots.faults.racing HOW-MANY` prints each outcome."""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
from pathlib import Path

from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.snapshots import codec
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.snapshots import Store
from tests.support.stored_runs import tool_run

NODE = "test_a.py::test_b"


def text_of(who, round_):
    return codec.dumps(tool_run(NODE, f"{who} in round {round_} " * 2000))


def record(root, who, many, barrier, told):
    """Load what is there, let the other one do so too, and save."""
    for round_ in range(many):
        store = Store(Path(root))
        path = store.path_of(Path(root) / "test_a.py", NODE)
        barrier.wait(30)
        store.load(path, NODE)
        barrier.wait(30)
        try:
            store.save(path, text_of(who, round_))
            told.put((round_, who, "won"))
        except CannotWrite as error:
            told.put((round_, who, "told" if "changed underneath" in str(error) else str(error)))
        barrier.wait(30)


def outcomes(root, many):
    store = Store(Path(root))
    path = store.path_of(Path(root) / "test_a.py", NODE)
    files.write_whole(path, text_of("nobody", 0))
    start = multiprocessing.get_context("spawn")
    barrier, told = start.Barrier(3), start.SimpleQueue()
    racers = [start.Process(target=record, args=(root, who, many, barrier, told)) for who in ("a", "b")]
    for racer in racers:
        racer.start()
    for round_ in range(many):
        barrier.wait(30)
        barrier.wait(30)
        barrier.wait(30)
        said = {who: word for _, who, word in (told.get(), told.get())}
        winners = [who for who, word in said.items() if word == "won"]
        if sorted(said.values()) != ["told", "won"]:
            yield f"{said}"
        else:
            mixed = path.read_text(encoding="utf-8") != text_of(winners[0], round_)
            yield "a mix" if mixed or any(path.parent.glob(".ar-*")) else "one winner"
    for racer in racers:
        racer.join(30)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps([*outcomes(folder, int(sys.argv[1]))]))
