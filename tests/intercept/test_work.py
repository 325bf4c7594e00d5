"""What threads count as at work, and which as waiting for somebody else."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from pytest_agentreplay.intercept.ordering.pausing import is_waiting


def until(condition):
    """Wait for `condition`, with a generous end."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.001)


def standing_at(thread, name):
    """Whether a thread stands in a function of this name, or has called it."""
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        if frame.f_code.co_name == name:
            return True
        frame = frame.f_back
    return False


def test_who_waits_for_a_lock_waits():
    """Only another thread can bring it on."""
    event = threading.Event()
    thread = threading.Thread(target=event.wait, daemon=True)
    thread.start()
    until(lambda: standing_at(thread, "wait"))
    assert is_waiting(thread.ident)
    event.set()
    thread.join()


def test_who_starts_a_thread_does_not_wait():
    """A thread that is slow to begin holds up its starter, and both will go on by themselves."""
    slow, begin = threading.Thread(target=int, daemon=True), threading.Event()
    bootstrap = slow._bootstrap

    def late():
        begin.wait()
        bootstrap()

    slow._bootstrap = late
    starter = threading.Thread(target=slow.start, daemon=True)
    starter.start()
    until(lambda: standing_at(starter, "wait"))
    assert not is_waiting(starter.ident)
    begin.set()
    starter.join()
    slow.join()


def test_an_idle_worker_of_a_pool_and_a_thread_that_is_gone_wait():
    """For a job, that somebody has to submit; for nothing."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        (worker,) = pool._threads
        until(lambda: is_waiting(worker.ident))
    assert is_waiting(worker.ident)


def test_a_thread_that_computes_is_at_work():
    """However long it takes."""
    over = []

    def compute():
        while not over:
            pass

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    until(lambda: standing_at(thread, "compute"))
    assert not is_waiting(thread.ident)
    over.append(True)
    thread.join()
