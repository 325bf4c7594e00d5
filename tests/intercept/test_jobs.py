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
    """Return what `act`, which is given its interception, returns as the body of a test that is recorded."""
    stage = Stage(tmp_path)
    return lambda act: stage.play(lambda: act(interceptions.find_interception()), mode="record").result


class Busy:
    """A pool of one thread, which a job holds until the block is over."""

    def __enter__(self):
        self.begun, self.over = threading.Event(), threading.Event()
        self.pool = ThreadPoolExecutor(1)
        self.first = self.pool.submit(lambda: self.begun.set() or self.over.wait(SECONDS))
        assert self.begun.wait(SECONDS)
        return self

    def __exit__(self, *_):
        self.over.set()
        self.pool.shutdown()


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
            with Busy() as busy:
                for _ in range(waiting):
                    busy.pool.submit(int)
                assert len(interception.work.jobs) == waiting + 1
                return lines_of(
                    lambda: pausing.has_job_on_its_way(interception.work) or pausing.find_at_work(interception.work, ())
                )

        return act

    assert 0 < in_test(looks(10)) == in_test(looks(2_000))


def test_a_job_waits_then_runs_then_is_gone_as_is_one_that_is_cancelled_or_refused(in_test):
    def act(interception):
        with Busy() as busy:
            second = busy.pool.submit(int)
            assert (len(interception.work.jobs), interception.work.jobs.running) == (2, 1)
            assert not interception.work.jobs.has_job_to_begin()
            assert {*interception.work.jobs} == {busy.first, second}
            assert busy.pool.submit(int).cancel()
            assert len(interception.work.jobs) == 2
        with pytest.raises(RuntimeError, match="shutdown"):
            busy.pool.submit(int)
        assert (len(interception.work.jobs), interception.work.jobs.running) == (0, 0)
        return True

    assert in_test(act)


def test_jobs_that_a_thread_pool_has_dropped_are_not_waited_for(in_test):
    def act(interception):
        over = threading.Event()
        with ThreadPool(1) as pool:
            results = [pool.apply_async(over.wait, (SECONDS,)) for _ in range(5)]
            assert len(interception.work.jobs) == len(results)
            over.set()
            results[0].get(SECONDS)
            pool.terminate()  # what has not begun is dropped
        del results
        return interception.work.jobs

    left = in_test(act)
    assert left.running == 0
    assert not left.has_job_to_begin()
