"""A thread that ran an event loop is one like any other once the loop has ended."""

import functools
import threading
import time

import anyio
import pytest

ASKED = threading.Event()


def look(place):
    """The world answers `beside` only after `in the end` was asked for."""
    if place == "beside":
        assert ASKED.wait(5)
        time.sleep(0.02)
    if place == "in the end":
        ASKED.set()
    return place


async def alook(place):
    await anyio.sleep(0.001)
    return place


TOOLS = (look, alook)


def agent(backend, *, seconds):
    """Run a loop to its end, start a thread, compute for some seconds, and ask at last."""
    ASKED.clear()
    anyio.run(alook, "in a loop", backend=backend)
    thread = threading.Thread(target=look, args=("beside",))
    thread.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    answer = look("in the end")
    thread.join()
    return answer


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_after_the_end_of_a_loop_is_waited_for_while_its_thread_computes(stage, backend):
    recorded = stage.record(functools.partial(agent, backend, seconds=0))
    replayed = stage.replay(functools.partial(agent, backend, seconds=0.6))
    assert replayed.finding is None, "\n".join(map(str, replayed.finding.lines))
    assert replayed.result == recorded.result
