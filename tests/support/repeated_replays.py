"""Records tests of a project once, and replays them many times: none may fail, and none do anything else than recorded.

The agents keep notes together. What one of them was told stands in the next prompt of each other, so an answer that is
handed over out of order changes a request, which is refused, or the transcript, which is compared.

`ORDER_ROUNDS=50 pytest tests/plugin/test_order_clients.py` replays fifty times what is replayed three times otherwise.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import defaultdict

from pytest_agentreplay.demo.script import Ask, fresh

ROUNDS = int(os.environ.get("ORDER_ROUNDS", "3"))
"""How often each test is replayed."""

NOTES = '''
"""What the agents of a test know together, and what they did."""

import json, os, pathlib

URL = os.environ["MODEL_URL"]
KEY = "sk-live-0123456789abcdef"
LOG = pathlib.Path(__file__).with_name("log.jsonl")
NOTES = []

def note(word):
    NOTES.append(word)
    return word

def known(question):
    return f"{question} Known: " + " / ".join(NOTES)

def done(agentreplay, answer):
    """The test is over: tell what was answered, what was called, and all that happened in its order."""
    kept = {
        "test": os.environ["PYTEST_CURRENT_TEST"].split(" ")[0],
        "mode": agentreplay.mode,
        "answer": answer,
        "calls": [[call.name, dict(call.arguments)] for call in agentreplay.run.tool_calls],
        "notes": NOTES,
    }
    with LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps(kept) + "\\n")
'''

CONFTEST = """
import os
import pytest
import notes

def pytest_collection_modifyitems(items):
    items[:] = items * int(os.environ.get("ROUNDS", "1"))

@pytest.fixture(autouse=True)
def nothing_is_known():
    notes.NOTES.clear()

def test_between_two_rounds():
    pass
"""


def script(body, number):
    """A model that thinks for a while, nobody knows how long; it asks for what it is told to, else says something new."""
    time.sleep(random.SystemRandom().uniform(0, 0.02))
    said = json.dumps(body)
    if "Use your tools" in said and "found" not in said:
        return [Ask("look", {"place": place}) for place in ("attic", "cellar", "garden")]
    return f"answer {number} {fresh('')} in some words"


def house(project, ini="", **tests):
    """Furnish `project` with the notes, these `tests` and a model that takes its time."""
    project.server._replies = script
    project.server.pace = 0.002
    project.write(notes=NOTES, conftest=CONFTEST, **tests)
    (project.root / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{ini}", encoding="utf-8")


def rehearsed(project, *words, rounds=ROUNDS, chance=(), offline=None, **environ):
    """What was done when recorded, by test; each of as many replays as there are `rounds` has done the same.

    Of tests with a word of `chance` in their names what was noted, and in which order it was called, counts without its
    order: between two answers threads run as they like. `offline` are more variables of the replays.
    """
    log = project.root / "log.jsonl"
    recorded = project.record(*words, **environ)
    assert recorded.returncode == 0, recorded.stdout
    before = told(log)
    log.unlink()
    project.replayed = project.offline(*words, ROUNDS=str(rounds), **environ | (offline or {}))
    assert project.replayed.returncode == 0, project.replayed.stdout[-6000:]
    after = told(log)
    assert before.keys() == after.keys()
    for test, (first, *_) in before.items():
        assert len(after[test]) == rounds
        for one in after[test]:
            both = [one, first]
            if any(word in test for word in chance):
                both = [done | {key: sorted(map(str, done[key])) for key in ("calls", "notes")} for done in both]
            assert both[0] == both[1], test
    return {test: first for test, (first, *_) in before.items()}


def told(log):
    """By test, what each of its runs has told of itself."""
    found = defaultdict(list)
    for kept in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        del kept["mode"]
        found[kept.pop("test")].append(kept)
    return found
