"""What of a recorded order was chance, or is guessed, is told: answers of two threads at once, a loop that cannot be asked."""

import pytest

from pytest_agentreplay.compare.kit_fields import Grade, make_kit
from pytest_agentreplay.providers import READER
from tests.support.small_projects import edited, runs

AGENT = """
import asyncio, os, threading
from concurrent.futures import ThreadPoolExecutor

NOW = os.environ.get("PROGRAM") == "changed"
MEETING = threading.Barrier(4)

async def ask(name):
    await asyncio.sleep(0.01)
    return name.upper()

def meet(name):
    MEETING.wait()
    return name.upper()

def at_the_same_time():
    # Four threads have their answers at once, eight times. What they ask does not depend on the order.
    def worker(number):
        for turn in range(8):
            meet(f"{number} {turn}")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(worker, range(4)))
    if NOW:
        meet("once more")

async def tasks():
    await asyncio.gather(ask("a"), ask("b"))
    if NOW:
        await ask("c")
"""

INI = "    agent.meet\n"


@pytest.fixture(scope="module")
def threads(programs):
    return programs(AGENT, INI)


def lines(said, word):
    return [line for line in said.splitlines() if line.startswith(word)]


def test_answers_of_two_threads_at_once_are_told(threads):
    (racy,) = lines(threads.recording, "racy ")
    assert "at_the_same_time" in racy
    assert "two threads had their answers within a millisecond" in racy
    for name, run in runs(threads.project).items():
        kit = make_kit(run, READER)
        chance = name == "program[at_the_same_time]"
        assert bool(run.header.kit["order"].get("racy")) == chance
        assert any("within a millisecond" in why for why in kit.reasons) == chance
        assert kit.grade is Grade.B or not chance


def test_a_divergence_of_such_a_recording_says_so(threads):
    told = threads.replayed(changed=True)
    assert all("[AR-EXTRA]" in told[name][0] for name in ("at_the_same_time", "tasks"))
    (said,) = lines(threads.said, "  racy ")
    assert "their order was chance" in said


GUESSES = """
from pytest_agentreplay.intercept.ordering import idle

idle.do_hooks_work = lambda: False  # as where the insides of the event loop have changed
"""


def test_a_loop_that_cannot_be_asked_is_told(threads):
    assert not lines(threads.replayed("-k", "tasks") and threads.said, "guessed")
    with edited(threads.project, "conftest.py", "import copy, os", GUESSES + "import copy, os"):
        assert threads.replayed("-k", "tasks") == {"tasks": [""]}
        assert len(lines(threads.said, "guessed")) == 1
        threads.replayed("-k", "tasks", changed=True)
        assert len(lines(threads.said, "  guessed")) == 1
