"""Counts how often a refund runs in 10,000 replays of agents that hold and call it in every way: `python tests/support/refund_calls.py`.

Each way is recorded once, with the real tool, then replayed; every run of the tool appends to a ledger. In half of the
ways the agent misbehaves when it is replayed: it asks for another refund, swallows the refusal, tries again, or comes
late. It must print 0. `python tests/support/refund_calls.py 500` replays 500 times.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import operator
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agentreplay.intercept.environment.machine import find_places
from pytest_agentreplay.runs.fixture_handle import AgentReplay
from pytest_agentreplay.runs.run_session import EndedRun, Location
from pytest_agentreplay.runs.session_factory import begin_session
from pytest_agentreplay.settings import Settings
from pytest_agentreplay.snapshots.store.snapshots import Store

LEDGER = Path(os.environ.get("REFUND_LEDGER") or tempfile.mkdtemp(prefix="refunds-")) / "ledger.txt"
TESTS = "tests/test_refunds.py"


class Declined(Exception):
    """The bank says no."""


class Seen:
    """What an agent may know of the way it is run: whether this is a replay, and a door that opens after the test."""

    replaying = False
    over = threading.Event()
    late: list[Any] = []


# The tools


def fire(order):
    """A refund is paid: the one thing that must not happen in a replay."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{order}\n")
    if order.startswith("bad"):
        raise Declined(order)


def refund(order: str, amount: float = 5.0) -> str:
    fire(order)
    return f"{order}: {amount}"


async def arefund(order: str, amount: float = 5.0) -> str:
    """Slow where the order says so."""
    fire(order)
    await asyncio.sleep(0.2 if order.startswith("slow") else 0)
    return f"{order}: {amount}"


def refunds(*orders: str):
    """Pay money back, one by one."""
    for order in orders:
        fire(order)
        yield f"{order} done"


async def arefunds(*orders: str):
    for order in orders:
        fire(order)
        await asyncio.sleep(0)
        yield f"{order} done"


def logged(function):
    """An ordinary decorator."""

    @functools.wraps(function)
    def around(*args, **kwargs):
        return function(*args, **kwargs)

    return around


@logged
@logged
def wrapped(order: str) -> str:
    fire(order)
    return order


@functools.cache
def cached(order: str) -> str:
    fire(order)
    return order


class Desk:
    """A tool of every kind that classes have."""

    __slots__ = ("__weakref__", "held", "name")

    def __init__(self, name: str = "desk"):
        self.name = name
        self.held = refund

    def pay(self, order: str) -> str:
        fire(order)
        return f"{self.name} {order}"

    @classmethod
    def of_class(cls, order: str) -> str:
        fire(order)
        return order

    @staticmethod
    def static(order: str) -> str:
        fire(order)
        return order

    def __call__(self, order: str) -> str:
        fire(order)
        return order


class Strict(Desk):
    """An override that asks the tool it overrides."""

    __slots__ = ()

    def pay(self, order: str) -> str:
        return f"strict {super().pay(order)}"


class Lenient(Strict):
    """An heir that overrides nothing."""

    __slots__ = ()


DESK, STRICT, LENIENT = Desk(), Strict(), Lenient()
TOOLS = [refund, arefund, refunds, arefunds, wrapped, cached, Desk.pay, Desk.of_class, Desk.static, Desk.__call__]

# Ways to hold it; each was made before any test


def closed_over(held):
    return lambda order: held(order)


REGISTRY = {"refund": refund}
LIST = [refund]
PARTIAL = functools.partial(refund, amount=1.0)
NESTED = functools.partial(functools.partial(refund), "n-1")
BOUND, BOUND_STRICT, CLASS_BOUND, STATIC = DESK.pay, STRICT.pay, Desk.of_class, Desk.static
WEAK = weakref.WeakMethod(DESK.pay)
PICKLED = pickle.dumps([refund, PARTIAL, Desk.of_class])
COPIES = [copy.copy(refund), copy.deepcopy(refund), copy.copy(PARTIAL), copy.deepcopy(REGISTRY)["refund"]]
CLOSURE = closed_over(refund)
METHOD = types.MethodType(lambda self, order: self(order), refund)
POOL = ThreadPoolExecutor(2)
LOOP = asyncio.new_event_loop()


def by_default(order, call=refund):
    return call(order)


def again(call, *args, times=3, error=Exception):
    """The retry loop that every SDK has."""
    for attempt in range(times):
        try:
            return call(*args)
        except error:
            if attempt == times - 1:
                return "gave up"
    return None


def quietly(call, *args):
    """The agent that swallows whatever comes."""
    try:
        return call(*args)
    except BaseException as error:
        return type(error).__name__


def other(order):
    """The same order when it is recorded, another one when it is replayed."""
    return today(f"other-{order}", order)


def today(replayed, recorded):
    return replayed if Seen.replaying else recorded


async def all_of(*calls):
    return await asyncio.gather(*calls, return_exceptions=True)


async def cancelled():
    task = asyncio.ensure_future(arefund("slow-1"))
    await asyncio.sleep(0.01)
    task.cancel()
    return (await asyncio.gather(task, return_exceptions=True))[0].__class__.__name__


async def timed_out():
    try:
        async with asyncio.timeout(0.01):
            return await arefund("slow-2")
    except TimeoutError:
        return "timeout"


async def collected(source):
    return [item async for item in source]


async def cut_short():
    async with contextlib.aclosing(arefunds("a", "b", "c")) as flow:
        return await anext(flow)


def thrown_into():
    flow = refunds("a", "b")
    first = next(flow)
    with contextlib.suppress(Declined, StopIteration):
        flow.throw(Declined("no"))
    return first


def closed_early():
    with contextlib.closing(refunds("a", "b", "c")) as flow:
        return next(flow)


def in_thread(call, *args):
    box = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: box.put(quietly(call, *args)))
    thread.start()
    thread.join()
    return box.get()


def in_child():
    """A child process that would run it for real."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from refund_calls import refund; refund('child')"
    environ = {**os.environ, "REFUND_LEDGER": str(LEDGER.parent)}
    return quietly(functools.partial(subprocess.run, [sys.executable, "-c", code], env=environ, check=True))


def later(call, *args):
    """Call it when the test is over."""

    def wait():
        Seen.over.wait(10)
        quietly(call, *args)

    return wait


def late(start):
    """Leave a refund behind that is called when the test is over; `start` begins it and gives how to wait for it."""
    Seen.late.append(start(later(REGISTRY["refund"], "late")))
    return refund("in time")


def by_thread(call, kind=threading.Thread):
    thread = threading.Thread(target=call) if kind is threading.Thread else threading.Timer(0.1, call)
    thread.daemon = True
    thread.start()
    return thread.join


def late_task():
    """A task of a loop that outlives the test."""

    async def begin():
        async def late():
            await asyncio.sleep(0)
            while not Seen.over.is_set():  # noqa: ASYNC110  set by a thread of no loop
                await asyncio.sleep(0.001)
            with contextlib.suppress(BaseException):
                await arefund("late")

        task = asyncio.get_running_loop().create_task(late())
        Seen.late.append(lambda: LOOP.run_until_complete(asyncio.wait([task])))
        return await arefund("in time")

    return LOOP.run_until_complete(begin())


class Way(NamedTuple):
    """A way to hold and call it; `parts` when the replay of it does something else and must be told so."""

    name: str
    agent: Any
    parts: bool = False
    after: bool = False


FAITHFUL = [
    Way("by its name", lambda: refund("r-1")),
    Way("in a registry", lambda: REGISTRY["refund"]("r-2")),
    Way("in a list", lambda: [call("r-3") for call in LIST]),
    Way("as a partial", lambda: (PARTIAL("r-4"), NESTED())),
    Way("as a default argument", lambda: by_default("r-5")),
    Way("in a closure", lambda: CLOSURE("r-6")),
    Way("as an attribute", lambda: DESK.held("r-7")),
    Way("behind types.MethodType", lambda: METHOD("r-8")),
    Way("as a callback", lambda: sorted(map(refund, ["r-9", "r-10"]))),
    Way("through operator", lambda: (operator.methodcaller("pay", "r-11")(DESK), operator.call(refund, "r-12"))),
    Way("as a bound method", lambda: (DESK.pay("b-1"), BOUND("b-2"), WEAK()("b-3"), Desk.pay(DESK, "b-4"))),
    Way("as a class method", lambda: (Desk.of_class("c-1"), CLASS_BOUND("c-2"), DESK.of_class("c-3"))),
    Way("as a static method", lambda: (Desk.static("s-1"), STATIC("s-2"), DESK.static("s-3"))),
    Way("as an object that is called", lambda: DESK("o-1")),
    Way("under a subclass that overrides it", lambda: (STRICT.pay("u-1"), BOUND_STRICT("u-2"), LENIENT.pay("u-3"))),
    Way("under decorators", lambda: wrapped("w-1")),
    Way("by __wrapped__", lambda: (wrapped.__wrapped__("w-2"), wrapped.__wrapped__.__wrapped__("w-3"))),
    Way("behind a cache", lambda: (cached("k-1"), cached("k-1"), cached.__wrapped__("k-2"))),
    Way("pickled", lambda: [call("p-1") for call in pickle.loads(PICKLED)]),
    Way("copied", lambda: [call("p-2") for call in COPIES]),
    Way("copied while it is met", lambda: types.FunctionType(refund.__code__, globals(), "x", (5.0,))("p-3")),
    Way("retried after an exception", lambda: again(refund, "bad-1")),
    Way("retried in a thread", lambda: in_thread(again, refund, "bad-2")),
    Way("with an exception that nobody minds", lambda: quietly(refund, "bad-3")),
    Way("as a generator", lambda: list(refunds("g-1", "g-2"))),
    Way("as a generator closed early", closed_early),
    Way("as a generator that is thrown into", thrown_into),
    Way("as a coroutine", lambda: asyncio.run(arefund("a-1"))),
    Way("as coroutines at once", lambda: asyncio.run(all_of(*map(arefund, ["a-2", "a-3", "bad-4"])))[:2]),
    Way("as an async generator", lambda: asyncio.run(collected(arefunds("y-1", "y-2")))),
    Way("as an async generator cut short", lambda: asyncio.run(cut_short())),
    Way("cancelled", lambda: asyncio.run(cancelled())),
    Way("timed out", lambda: asyncio.run(timed_out())),
    Way("in a thread", lambda: in_thread(refund, "t-1")),
    Way("in an executor", lambda: list(POOL.map(refund, ["t-2"]))),
    Way("in asyncio's threads", lambda: asyncio.run(asyncio.to_thread(refund, "t-3"))),
]
UNFAITHFUL = [
    Way("another order", lambda: refund(other("x-1")), parts=True),
    Way("swallowed", lambda: quietly(refund, other("x-2")), parts=True),
    Way("swallowed, then the right one", lambda: (quietly(refund, other("x-3")), quietly(refund, "x-3")), parts=True),
    Way("tried again and again", lambda: again(refund, other("x-4"), error=BaseException), parts=True),
    Way("once more than recorded", lambda: [quietly(refund, "x-5") for _ in range(1 + Seen.replaying)], parts=True),
    Way("swallowed in a thread", lambda: in_thread(refund, other("x-6")), parts=True),
    Way("swallowed by gather", lambda: asyncio.run(all_of(arefund(other("x-7")), arefund("x-8"))), parts=True),
    Way("another item", lambda: quietly(lambda: list(refunds(other("x-9")))), parts=True),
    Way("past the override", lambda: quietly(today(Desk, Strict).pay, STRICT, other("x-10")), parts=True),
    Way("past the decorator", lambda: quietly(wrapped.__wrapped__, other("x-11")), parts=True),
    Way("by another tool", lambda: quietly(today(Desk.static, refund), "x-12"), parts=True),
    Way("in a child process", lambda: (refund("x-13"), in_child() if Seen.replaying else ""), parts=True),
    Way("late, in a thread", lambda: late(by_thread), after=True),
    Way("late, by a timer", lambda: late(lambda call: by_thread(call, threading.Timer)), after=True),
    Way("late, in an executor", lambda: late(lambda call: POOL.submit(call).result), after=True),
    Way("late, in a task", late_task, after=True),
]
WAYS = [*FAITHFUL, *UNFAITHFUL]


class Failed(AssertionError):
    """A way that was not recorded or replayed as it should have been; then the count would mean nothing."""


def run_once(root: Path, way: Way, mode: str):
    """One test as the plugin runs it: what the agent gave back, and the finding, if any."""
    test = f"{TESTS}::{way.name}"
    store = Store(root)
    place = Location(test, store.path_of(root / TESTS, test), root, find_places(root), os.environ)
    run_session = begin_session(place, Settings(mode=mode), store, lambda: None)
    Seen.replaying, Seen.late = mode == "replay", []
    Seen.over.clear()
    given, failure = None, None
    run_session.open()
    try:
        handle = AgentReplay(run_session)
        for tool in TOOLS:
            handle.tool(tool)
        run_session.enter_body()
        try:
            given = way.agent()
        except BaseException as raised:
            failure = raised
        run_session.leave_body()
        finding = run_session.end_body(EndedRun(failure))
        finding = run_session.end() or finding
    finally:
        run_session.close()
    Seen.over.set()
    for wait in Seen.late:
        wait()
    if failure is not None and not way.parts:
        raise Failed(f"{way.name}: {failure!r}") from failure
    return given, finding


def paid() -> int:
    """How many refunds the ledger holds."""
    return len(LEDGER.read_text(encoding="utf-8").splitlines()) if LEDGER.exists() else 0


def count(replays: int, ways: list[Way] = WAYS):
    """Replay each way in turn, `replays` times in all; gives how often a refund ran, by way."""
    fired = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for number, way in enumerate(ways):
            before = paid()
            recorded, finding = run_once(root, way, "record")
            if paid() == before or (finding is not None and not way.after):
                raise Failed(f"{way.name}: nothing was paid when it was recorded, or {finding}")
            before = paid()
            for _ in range(replays // len(ways) + (number < replays % len(ways))):
                given, finding = run_once(root, way, "replay")
                if way.parts == (finding is None) or (not way.parts and given != recorded):
                    raise Failed(f"{way.name}: gave {given!r} for {recorded!r}, found {finding}")
            fired[way.name] = paid() - before
    return fired


def main() -> int:
    """Print how often a refund ran."""
    replays = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    began = time.perf_counter()
    fired = count(replays)
    print(*(f"{times:6}  {name}\n" for name, times in fired.items() if times), sep="", end="")
    took = time.perf_counter() - began
    print(f"{sum(fired.values())} refunds in {replays:,} replays of {len(WAYS)} ways, {took:.0f} s")
    return 1 if any(fired.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
