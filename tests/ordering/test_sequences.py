"""What was done one after the other stays so: it may be done neither at once nor the other way round."""

import asyncio
import functools
import importlib.util
import inspect
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace

import anyio
import pytest
import trio

from pytest_agentreplay.intercept.session.courses import Courses
from tests.ordering import shapes
from tests.support.exhaustive import rare


def check(order):
    time.sleep(0.003)
    return order


def pay(order):
    time.sleep(0.003)
    return order


async def acheck(order):
    return order


async def apay(order):
    return order


def runs():
    """How event loops are run here: by asyncio, and by uvloop where it is made for this system."""
    if importlib.util.find_spec("uvloop") is None:
        return {"asyncio": asyncio.run}
    return {"asyncio": asyncio.run, "uvloop": importlib.import_module("uvloop").run}


# One after the other, each in a task or thread of its own.


async def awaited(*steps):
    for step in steps:
        await asyncio.create_task(step(1))


async def gathered_alone(*steps):
    for step in steps:
        await asyncio.gather(step(1))


async def waited_for(*steps):
    for step in steps:
        await asyncio.wait_for(step(1), 5)


async def in_task_groups(*steps):
    for step in steps:
        async with asyncio.TaskGroup() as group:
            group.create_task(step(1))


async def in_anyio_groups(*steps):
    for step in steps:
        async with anyio.create_task_group() as group:
            group.start_soon(step, 1)


TASKS = [awaited, gathered_alone, waited_for, in_task_groups, in_anyio_groups]


# One after the other too, but nobody awaits the task itself.


async def shielded(*steps):
    for step in steps:
        await asyncio.shield(step(1))


async def as_completed(*steps):
    for step in steps:
        for ended in asyncio.as_completed([step(1)]):
            await ended


async def by_events(*steps):
    for step in steps:
        over = asyncio.Event()
        task = asyncio.create_task(step(1))
        task.add_done_callback(lambda _, over=over: over.set())
        await over.wait()


async def by_a_queue(*steps):
    over = asyncio.Queue()
    for step in steps:
        asyncio.create_task(step(1)).add_done_callback(over.put_nowait)
        await (await over.get())


async def by_done_callbacks(*steps):
    loop, left = asyncio.get_running_loop(), list(steps)
    over = loop.create_future()

    def go_on(before=None):
        if not left:
            over.set_result(None)
        elif before is None or before.exception() is None:
            loop.create_task(left.pop(0)(1)).add_done_callback(go_on)
        else:
            over.set_exception(before.exception())

    go_on()
    await over


async def gathered_within(*steps):
    for step in steps:
        await asyncio.gather(asyncio.gather(step(1)), asyncio.sleep(0))


async def waited_for_with_others(*steps):
    for step in steps:
        await asyncio.wait([asyncio.create_task(step(1)), asyncio.create_task(asyncio.sleep(0))], timeout=5)


async def polled(*steps):
    for step in steps:
        task = asyncio.create_task(step(1))
        while not task.done():  # noqa: ASYNC110  the program polls
            await asyncio.sleep(0)


def from_another_thread(*steps):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        for step in steps:
            asyncio.run_coroutine_threadsafe(step(1), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def by_loops_in_jobs(*steps):
    with ThreadPoolExecutor(2) as executor:
        for step in steps:
            wait([executor.submit(lambda step=step: asyncio.run(step(1)))])


INDIRECT = (
    *(shielded, as_completed, by_events, by_a_queue, by_done_callbacks, gathered_within, waited_for_with_others),
    *(polled, from_another_thread, by_loops_in_jobs),
)


async def slow_check(order):
    await anyio.sleep(0.002)
    return order


async def slow_pay(order):
    await anyio.sleep(0.002)
    return order


async def slow(order):
    await asyncio.sleep(0.01)
    return order


async def checked_in_the_loop(order):
    return check(order)


async def paid_in_the_loop(order):
    return pay(order)


KINDS = {
    "at-once": (acheck, apay),
    "slow": (slow_check, slow_pay),
    "sync": (checked_in_the_loop, paid_in_the_loop),
}

TOOLS = (check, pay, acheck, apay, slow_check, slow_pay, slow)


def calls(*steps):
    return [functools.partial(step, 1) for step in steps]


def assert_out_of_order(replayed):
    assert replayed.finding is not None, "passed in silence"
    assert replayed.finding.code == "AR-ORDER", replayed.finding.headline


@pytest.mark.parametrize("run", runs().values(), ids=runs())
@pytest.mark.parametrize("shape", TASKS, ids=lambda shape: shape.__name__)
def test_tasks_that_run_one_after_the_other_do_not_swap(stage, shape, run):
    stage.record(lambda: run(shape(acheck, apay)))
    for _ in range(2):
        assert stage.replay(lambda: run(shape(acheck, apay))).finding is None
    assert_out_of_order(stage.replay(lambda: run(shape(apay, acheck))))


def run_steps(shape, steps):
    return asyncio.run(shape(*steps)) if inspect.iscoroutinefunction(shape) else shape(*steps)


OFTEN = [(gathered_within, "at-once"), (by_a_queue, "slow"), (gathered_within, "sync"), (from_another_thread, "sync")]
INDIRECTLY = OFTEN + rare(*((shape, kind) for shape in INDIRECT for kind in KINDS if (shape, kind) not in OFTEN))


@pytest.mark.parametrize(("shape", "kind"), INDIRECTLY, ids=lambda each: getattr(each, "__name__", each))
def test_steps_that_are_awaited_indirectly_do_not_swap(stage, shape, kind):
    first, second = KINDS[kind]
    stage.record(lambda: run_steps(shape, (first, second)))
    for _ in range(2):
        assert stage.replay(lambda: run_steps(shape, (first, second))).finding is None
    assert_out_of_order(stage.replay(lambda: run_steps(shape, (second, first))))


@pytest.mark.parametrize("shape", shapes.IN_THREADS_IN_TURN, ids=lambda shape: shape.__name__)
def test_threads_that_run_one_after_the_other_do_not_swap(stage, shape):
    stage.record(lambda: shape(calls(check, pay)))
    for _ in range(3):
        assert stage.replay(lambda: shape(calls(check, pay))).finding is None
    assert_out_of_order(stage.replay(lambda: shape(calls(pay, check))))


AT_ONCE = (shapes.pool, shapes.threads, shapes.beside_a_thread, shapes.gathered_threads)
PAIRS = [(before, now) for before in shapes.IN_TURN for now in AT_ONCE]
FIRST = [(before, now) for before, now in PAIRS if before is shapes.plainly or now is shapes.pool]


@pytest.mark.parametrize(
    ("before", "now"), FIRST + rare(*(pair for pair in PAIRS if pair not in FIRST)), ids=lambda shape: shape.__name__
)
def test_two_steps_do_not_come_at_once(stage, before, now):
    stage.record(lambda: before(calls(check, pay)))
    for _ in range(2):
        assert_out_of_order(stage.replay(lambda: now(calls(check, pay))))


def test_two_steps_do_not_come_at_once_under_uvloop(stage):
    run = runs().get("uvloop", asyncio.run)
    stage.record(lambda: shapes.to_threads(calls(check, pay), run=run))
    assert stage.replay(lambda: shapes.to_threads(calls(check, pay), run=run)).finding is None
    for _ in range(3):
        assert_out_of_order(stage.replay(lambda: shapes.gathered_threads(calls(check, pay), run=run)))


# Writes beside each other, with something between them.


async def ticks(count):
    for _ in range(count):
        await asyncio.sleep(0)


async def call_later(seconds):
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


async def hop():
    await asyncio.to_thread(time.sleep, 0.01)


GAPS = {
    **{f"{count}-ticks": functools.partial(ticks, count) for count in (0, 1, 3, 10)},
    "sleep": functools.partial(asyncio.sleep, 0.003),
    "long-sleep": functools.partial(asyncio.sleep, 0.5),
    "anyio-sleep": functools.partial(anyio.sleep, 0.02),
    "call-later": functools.partial(call_later, 0.02),
    "thread": hop,
}


async def in_turn(first, second):
    await first(1)
    await second(1)


async def in_turn_in_a_task(first, second):
    await asyncio.create_task(first(1))
    await second(1)


async def two_in_turn(first, second):
    await asyncio.gather(in_turn(first, second), slow(1))


async def not_awaited(gap, first, second):
    begun = asyncio.create_task(first(1))
    await gap()
    await second(1)
    await begun


async def in_two_tasks(gap, first, second):
    begun = asyncio.create_task(first(1))
    await gap()
    await asyncio.gather(begun, asyncio.create_task(second(1)))


async def in_a_task_group(gap, first, second):
    async with asyncio.TaskGroup() as group:
        group.create_task(first(1))
        await gap()
        group.create_task(second(1))


async def in_an_anyio_group(gap, first, second):
    async with anyio.create_task_group() as group:
        group.start_soon(first, 1)
        await gap()
        group.start_soon(second, 1)


async def the_later_in_a_task(gap, first, second):
    async def later():
        await gap()
        await second(1)

    begun = asyncio.create_task(later())
    await first(1)
    await begun


NOW = (not_awaited, in_two_tasks, in_a_task_group, in_an_anyio_group, the_later_in_a_task)
GAPPED = [(now, gap) for now in NOW for gap in GAPS]
OFTEN_GAPPED = [(not_awaited, "sleep"), (in_two_tasks, "1-ticks"), (the_later_in_a_task, "call-later")]
OFTEN_GAPPED += [(in_a_task_group, "thread"), (in_an_anyio_group, "10-ticks")]


@pytest.mark.parametrize("before", [in_turn, in_turn_in_a_task, two_in_turn], ids=lambda shape: shape.__name__)
@pytest.mark.parametrize(
    ("now", "gap"),
    OFTEN_GAPPED + rare(*(pair for pair in GAPPED if pair not in OFTEN_GAPPED)),
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_write_is_not_made_before_the_one_before_it_is_answered(stage, before, now, gap):
    async def act():
        beside = [slow(1)] if before is two_in_turn else []
        await asyncio.gather(now(GAPS[gap], slow_check, slow_pay), *beside)

    stage.record(lambda: asyncio.run(before(slow_check, slow_pay)))
    assert stage.replay(lambda: asyncio.run(before(slow_check, slow_pay))).finding is None
    assert_out_of_order(stage.replay(lambda: asyncio.run(act())))


def with_a_gap(seconds, functions):
    thread = threading.Thread(target=functions[0])
    thread.start()
    time.sleep(seconds)
    functions[1]()
    thread.join()


def to_threads_with_a_gap(seconds, functions):
    async def act():
        begun = asyncio.create_task(asyncio.to_thread(functions[0]))
        await asyncio.sleep(seconds)
        await asyncio.to_thread(functions[1])
        await begun

    asyncio.run(act())


@pytest.mark.parametrize("now", [with_a_gap, to_threads_with_a_gap])
@pytest.mark.parametrize("before", [shapes.plainly, shapes.in_threads, shapes.to_threads])
@pytest.mark.parametrize("seconds", [0.003, 0.5])
def test_writes_of_threads_do_not_overlap_after_a_sleep(stage, before, now, seconds):
    stage.record(lambda: before(calls(check, pay)))
    assert_out_of_order(stage.replay(lambda: now(seconds, calls(check, pay))))


# What keeps its freedom.


async def gathered(steps):
    await asyncio.gather(*(step(1) for step in steps))


@pytest.mark.parametrize("run", runs().values(), ids=runs())
def test_tasks_that_run_beside_each_other_may_be_begun_in_any_order(stage, run):
    steps = [acheck, slow_check, checked_in_the_loop, apay, slow_pay, paid_in_the_loop]
    stage.record(lambda: run(gathered(steps)))
    for order in (steps, steps[::-1], steps[3:] + steps[:3]):
        assert stage.replay(lambda order=order: run(gathered(order))).finding is None


def staggered():
    """Jobs that are begun one after the other and not waited for."""
    with ThreadPoolExecutor() as pool:
        for step in (check, pay):
            pool.submit(step, 1)
            time.sleep(0.006)


async def in_background():
    """The second task is begun first, and takes its own time until it calls."""

    async def later():
        await asyncio.to_thread(time.sleep, 0.005)
        await apay(1)

    begun = asyncio.create_task(later())
    await asyncio.create_task(acheck(1))
    await begun


def test_jobs_that_nobody_waits_for_are_free(stage):
    stage.record(staggered)
    for _ in range(3):
        assert stage.replay(staggered).finding is None
    assert stage.replay(lambda: shapes.pool(calls(check, pay))).finding is None


def test_a_task_that_was_begun_before_is_free_of_what_was_waited_for_meanwhile(stage):
    stage.record(lambda: asyncio.run(in_background()))
    kit = stage.replay(lambda: asyncio.run(in_background())).run_session.snapshot.run.header.kit
    assert "after" not in kit


async def beside_a_watchdog():
    here = asyncio.current_task()
    dog = asyncio.create_task(bark(here.cancel))
    await in_turn(slow_check, slow_pay)
    dog.cancel()


async def bark(cancel):
    await asyncio.sleep(0.3)
    cancel()


async def polled_in_steps():
    for step in (slow_check, slow_pay):
        task = asyncio.create_task(step(1))
        while not task.done():  # noqa: ASYNC110  the program polls
            await asyncio.sleep(0.01)


def beside_a_thread_that_sleeps():
    over = threading.Event()

    def beat():
        while not over.is_set():
            time.sleep(0.02)

    thread = threading.Thread(target=beat)
    thread.start()
    for step in (check, pay, check):
        step(1)
    over.set()
    thread.join()


async def two_that_share():
    """The second agent sleeps beside the first one's write, and goes by what this has given."""
    seen = []

    async def second():
        await asyncio.sleep(0.03)
        await slow_check(len(seen))

    async def first():
        seen.append(await slow_check("first"))
        await slow_pay("first")

    await asyncio.gather(first(), second())


@pytest.mark.parametrize("act", [beside_a_watchdog, polled_in_steps, beside_a_thread_that_sleeps, two_that_share])
def test_what_slept_beside_a_write_when_recorded_is_not_waited_for(stage, act):
    run = act if act is beside_a_thread_that_sleeps else lambda: asyncio.run(act())
    stage.record(run)
    began = time.monotonic()
    for _ in range(2):
        assert stage.replay(run).finding is None
    assert time.monotonic() - began < 1


async def with_timeouts(*steps):
    for step in steps:
        await asyncio.wait_for(step(1), 0.2)


async def raced_with_a_sleep(*steps):
    for step in steps:
        task = asyncio.create_task(step(1))
        await asyncio.wait([task, asyncio.create_task(asyncio.sleep(0.2))], return_when=asyncio.FIRST_COMPLETED)
        assert task.done()


async def beside_a_heartbeat(*steps):
    async def beat():
        while True:  # noqa: ASYNC110  the program beats
            await asyncio.sleep(0.05)

    beating = asyncio.create_task(beat())
    await in_turn(*steps)
    beating.cancel()


@pytest.mark.parametrize("now", [with_timeouts, raced_with_a_sleep, by_events, polled, beside_a_heartbeat])
def test_writes_that_are_still_made_in_turn_are_in_order(stage, now):
    stage.record(lambda: asyncio.run(in_turn(slow_check, slow_pay)))
    assert stage.replay(lambda: asyncio.run(now(slow_check, slow_pay))).finding is None


@pytest.mark.parametrize("gap", ["3-ticks", "sleep"])
def test_a_read_may_be_made_beside_a_write_that_was_made_before_it(stage, gap):
    async def ahead():
        begun = asyncio.create_task(slow_check(1))
        await GAPS[gap]()
        await slow(1)
        await begun

    stage.tools = [slow_check]
    stage.reads = [slow]
    stage.record(lambda: asyncio.run(in_turn(slow_check, slow)))
    assert stage.replay(lambda: asyncio.run(ahead())).finding is None


def test_writes_in_trio_are_not_made_beside_each_other(stage):
    async def act():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow_check, 1)
            for _ in range(3):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(slow_pay, 1)

    stage.record(lambda: trio.run(in_turn, slow_check, slow_pay))
    assert stage.replay(lambda: trio.run(in_turn, slow_check, slow_pay)).finding is None
    assert_out_of_order(stage.replay(lambda: trio.run(act)))


def workers(functions):
    """A pool of one's own: which of two threads takes what is chance."""
    waiting = queue.Queue()
    for function in (*functions, None, None):
        waiting.put(function)

    def work():
        while (function := waiting.get()) is not None:
            function()

    shapes.threads([work, work])


def test_the_workers_of_a_home_made_pool_are_free(stage):
    functions = [functools.partial(step, number) for number in range(4) for step in (check, pay)]
    for _ in range(2):
        stage.record(lambda: workers(functions))
        for _ in range(4):
            assert stage.replay(lambda: workers(functions)).finding is None


def test_calls_of_children_that_one_thread_serves_follow_no_order():
    """A thread of the gateway serves one child after another, and ids of threads are used again."""
    courses, interception = Courses(), SimpleNamespace(work=SimpleNamespace(running={}))
    first = courses.here(SimpleNamespace(path="main.1.1", interception=interception))
    courses.note_end(1, first, courses.note_call(1, first))
    second = courses.here(SimpleNamespace(path="main.2.1", interception=interception))
    assert courses.note_call(2, second) == ()
    assert courses.note_call(3, courses.here(SimpleNamespace(path="main.1.1", interception=interception))) == (1,)


async def two_agents(*left_out):
    """The second one asks for its only answer first, and gets it last."""

    async def first():
        await slow_check("first")
        await asyncio.gather(*(step("first") for step in (slow_pay, acheck) if step not in left_out))

    async def second():
        await slow("second")
        await slow_pay("second")

    await asyncio.gather(second(), first())


def test_a_call_that_one_of_two_agents_leaves_out_is_reported_on_that_agent(stage):
    stage.record(lambda: asyncio.run(two_agents()))
    finding = stage.replay(lambda: asyncio.run(two_agents(acheck))).finding
    assert "tool acheck is not called" in finding.headline
    sides = next(line for line in finding.lines if line.what == "difference")
    assert ("first" in sides.recorded, "first" in sides.now) == (True, True), finding
