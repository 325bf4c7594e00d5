"""Tests recorded by one process and by workers of xdist: `python -m tests.snapshots.faults.spreading TESTS WORKERS`.

Prints how many snapshots are the same, times apart: `recorded` and `clock` of the header, `ms` of each exchange, and
the digests over them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.support.model_script import Raw
from tests.support.model_server import ModelServer
from tests.support.project import Project

TESTS = """
import pytest, agent

@pytest.mark.parametrize("n", range(MANY))
def test_it(n, agentreplay):
    assert "refund" in agent.answer(f"Where is A-{n}?")
    agent.lookup_order(f"A-{n}")
"""


def always(body, number):
    """The same answer, to the byte: the ids of the server's own replies are new each time."""
    message = {"role": "assistant", "content": "Here is your refund."}
    reply = {"id": "r-1", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}
    return Raw(headers=(("Content-Type", "application/json"),), chunks=(json.dumps(reply).encode(),))


def timeless(file):
    """A snapshot without what says when it was recorded."""
    document = json.loads(file.read_bytes())
    del document["integrity"], document["recording"]
    for line in document["volatile"]:
        del line["ms"]
    return document


def recorded_twice(project, tests, workers):
    """The snapshots as one process records them, and as so many workers do; by name."""
    project.furnish(TESTS.replace("MANY", str(tests)))
    project.server._replies = always
    project.plugins = (*project.plugins, "xdist.plugin")
    found = []
    for words in ((), ("-n", str(workers))):
        for file in project.files:
            file.unlink()
        done = project.record("-q", "--agentreplay-checks=unproved=ignore", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append({file.name: timeless(file) for file in project.files})
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        alone, spread = recorded_twice(Project(Path(folder), server), *map(int, sys.argv[1:]))
    print(json.dumps({"tests": len(alone), "same": sum(spread.get(name) == one for name, one in alone.items())}))
