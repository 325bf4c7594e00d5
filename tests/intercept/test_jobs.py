"""The jobs of executors: how many wait and run is known, and costs the same whatever their number."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest

from pytest_agentreplay.intercept.ordering import pausing
from pytest_agentreplay.intercept.session import interceptions, jobs
from tests.ordering.driving import Stage

OURS = frozenset(module.__file__ for module in (jobs, pausing))
SECONDS = 30


@pytest.fixture
def in_test(tmp_path):
    """Return what `act`, which is given its crossing, returns as the body of a test that is recorded."""
    stage = Stage(tmp_path)

    def run(act):
        return stage.play(lambda: act(interceptions.current()), mode="record").result

    return run


def lines_of(run):
    """How many lines of ours `run` takes, in this thread."""
    seen = 0

    def line(frame, event, arg):
        nonlocal seen
        seen += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: line if frame.f_code.co_filename in OURS else None)
    try:
        run()
    finally:
        sys.settrace(before)
    return seen


def test_a_look_costs_the_same_beside_many_jobs(in_test):
    def looks(waiting):
        def act(interception):
            begun, over = threading.Event(), threading.Event()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(lambda: begun.set() or over.wait(SECONDS))
                assert begun.wait(SECONDS)
                for _ in range(waiting):
                    pool.submit(int)
                assert len(interception.jobs) == waiting + 1
                try:
                    return lines_of(lambda: pausing.on_its_way(interception) or pausing.at_work(interception, ()))
                finally:
                    over.set()

        return act

    assert 0 < in_test(looks(10)) == in_test(looks(2_000))


def test_a_job_waits_then_runs_then_is_gone(in_test):
    def act(interception):
        begun, over = threading.Event(), threading.Event()
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(lambda: begun.set() or over.wait(SECONDS))
            assert begun.wait(SECONDS)
            second = pool.submit(int)
            assert (len(interception.jobs), interception.jobs.running) == (2, 1)
            assert not interception.jobs.one_may_begin()
            assert {*interception.jobs} == {first, second}
            over.set()
        assert (len(interception.jobs), interception.jobs.running) == (0, 0)
        return True

    assert in_test(act)


def test_a_job_that_is_cancelled_or_refused_is_not_waited_for(in_test):
    def act(interception):
        over = threading.Event()
        pool = ThreadPoolExecutor(1)
        pool.submit(over.wait, SECONDS)
        assert pool.submit(int).cancel()
        assert len(interception.jobs) == 1
        over.set()
        pool.shutdown()
        with pytest.raises(RuntimeError, match="shutdown"):
            pool.submit(int)
        assert len(interception.jobs) == 0
        return True

    assert in_test(act)


def test_jobs_that_a_thread_pool_has_dropped_are_not_waited_for(in_test):
    def act(interception):
        over = threading.Event()
        with ThreadPool(1) as pool:
            results = [pool.apply_async(over.wait, (SECONDS,)) for _ in range(5)]
            assert len(interception.jobs) == len(results)
            over.set()
            results[0].get(SECONDS)
            pool.terminate()  # what has not begun is dropped
        del results
        return interception.jobs

    left = in_test(act)
    assert left.running == 0
    assert not left.one_may_begin()
