"""A replayed test of which all that is left waits is ended, and says what it waits for; what still works is left alone."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
import threading
import time

import pytest
import trio

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.ordering import stall_watch
from pytest_agentreplay.intercept.ordering.overtime import Overtime
from pytest_agentreplay.intercept.ordering.stall_watch import StallWatch
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.model.divergence import Divergence, Kind
from tests.support.tapes import Plain, Tape, body

MISSING = Divergence(Kind.MISSING, "tool look was not called")


@pytest.fixture
def watched(monkeypatch):
    """Return a function that runs a body under the watch, whose `missing` is given, and returns what it was ended with."""
    monkeypatch.setattr(stall_watch, "QUIET", 0.15)
    monkeypatch.setattr(stall_watch, "LONGER", 0.6)
    monkeypatch.setattr(stall_watch, "BEAT", 0.05)

    def run(act, missing=(MISSING, 0.0)):
        with body(interceptions.Interception(Tape(), Plain())) as interception:
            overtime = Overtime(interception)
            watch = StallWatch(interception, overtime, lambda: missing)
            overtime.start()
            watch.start()
            try:
                act()
            except (ReplayDiverged, asyncio.CancelledError, trio.Cancelled):
                assert interception.ending.refused is not None
            finally:
                overtime.stop()
                watch.stop()
            return interception.ending.refused

    return run


def beside(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def waits_for_an_item():
    beside(lambda: None)
    queue.Queue().get()


def waits_for_a_thread():
    beside(threading.Event().wait).join()


def waits_in_a_task():
    async def main():
        await asyncio.gather(asyncio.Event().wait(), asyncio.Queue().get())

    asyncio.run(main())


def waits_in_trio():
    trio.run(trio.Event().wait)


@pytest.mark.parametrize("act", [waits_for_an_item, waits_for_a_thread, waits_in_a_task, waits_in_trio])
def test_what_nothing_can_end_is_ended(watched, act):
    began = time.monotonic()
    assert watched(act).summary == "tool look was not called"
    assert 0.15 < time.monotonic() - began < 5


def test_a_recorded_pause_is_waited_for(watched):
    began = time.monotonic()
    assert watched(waits_for_an_item, missing=(MISSING, 0.1)) is not None
    assert time.monotonic() - began > 0.5


def test_a_child_process_has_longer(watched):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    began = time.monotonic()
    try:
        assert watched(child.wait) is not None
    finally:
        child.kill()
        child.communicate()
    assert time.monotonic() - began > 0.6


def test_who_reads_the_pipe_of_a_child_has_longer(watched):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    began = time.monotonic()
    try:
        assert watched(lambda: child.stdout.readline()) is not None
    finally:
        child.kill()
        child.communicate()
    assert time.monotonic() - began > 0.6


def sleeps():
    time.sleep(0.4)


def waits_for_one_at_work():
    beside(sleeps).join()


def computes():
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        pass


def waits_with_a_timeout():
    threading.Event().wait(0.4)


def waits_for_a_timer():
    asyncio.run(asyncio.sleep(0.4))


@pytest.mark.parametrize("act", [sleeps, waits_for_one_at_work, computes, waits_with_a_timeout, waits_for_a_timer])
def test_what_goes_on_by_itself_is_left_alone(watched, act):
    assert watched(act) is None


def test_a_test_that_has_made_all_its_calls_is_left_alone(watched):
    event = threading.Event()
    threading.Timer(0.4, event.set).start()
    assert watched(event.wait, missing=None) is None
