from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import gc
import inspect
import json
import sys
import threading
import time
import traceback
import types
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import trio

from pytest_agentreplay.core.backends.backend import PassThrough, Refused, Replayed
from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.model import Exchange, Failure, Timing, ToolCall, ToolReply
from pytest_agentreplay.core.serialize import Codec
from pytest_agentreplay.errors import CannotFreeze, CannotRedirect, ReplayDiverged
from pytest_agentreplay.intercept.session import interceptions, lanes, patching, thread_starts
from pytest_agentreplay.intercept.session.interceptions import Interception
from pytest_agentreplay.intercept.tools.tool import Tool, find, redirect

# A gate in small: records everything, or answers first in, first out by call, outermost exchanges only


class SmallGate:
    def __init__(self, recorded=None):
        self.recorded = recorded
        self.exchanges = {}
        self.latched = None
        self.count = 0
        self.lock = threading.Lock()

    def recognise(self, call):
        return True

    def decide(self, call, moment):
        with self.lock:
            self.count += 1
            if self.recorded is None:
                self.exchanges[self.count] = Exchange(
                    call, None, self.count, None, lane=moment.lane, parent=moment.parent, timing=Timing(start=moment.at)
                )
                return PassThrough(self.count)
            for number, exchange in enumerate(self.recorded):
                if exchange.parent is None and exchange.call == call:
                    return Replayed(self.recorded.pop(number), self.count)
            return Refused(self.latched or Divergence(Kind.EXTRA, f"nothing is left for {call}"))

    def settle(self, ticket, outcome, *, at, first, suspended):
        with self.lock:
            self.count += 1
            begun = self.exchanges[ticket]
            timing = replace(begun.timing, first=first, end=at)
            self.exchanges[ticket] = replace(
                begun, outcome=stored(outcome), finish=self.count, suspended=suspended, timing=timing
            )

    def latch(self, divergence, origin):
        self.latched = self.latched or replace(divergence, origin=origin)
        return self.latched


class NoScrub:
    headers = call = staticmethod(lambda *given: given[-1])
    outcome = staticmethod(lambda call, outcome: outcome)
    reveal = hide = staticmethod(lambda shown: shown)


def stored(outcome):
    """An outcome as a file would give it back."""

    def failure(f):
        return f and Failure(f.type, f.message, tuple(json.loads(json.dumps(f.args))), f.bases)

    if isinstance(outcome, Failure):
        return failure(outcome)
    items = outcome.items if outcome.items is None else tuple(json.loads(json.dumps(outcome.items)))
    value = json.loads(json.dumps(outcome.value, allow_nan=False))
    return ToolReply(value, items, failure(outcome.failure), outcome.closed)


@contextlib.contextmanager
def opened(backend):
    interception = Interception(backend, NoScrub(), root=__file__.rpartition("/")[0])
    interceptions.open_for(interception)
    token = lanes.CALL_CONTEXT.set(interception.main())
    try:
        yield interception
    finally:
        lanes.CALL_CONTEXT.reset(token)
        interception.end()
        interceptions.open_for(None)


@contextlib.contextmanager
def recording(problems=0):
    backend = SmallGate()
    with opened(backend) as interception:
        backend.interception = interception
        yield backend
    assert len(interception.problems) == problems, interception.problems


@contextlib.contextmanager
def replaying(backend):
    again = SmallGate(list(backend.exchanges.values()))
    with opened(again) as interception:
        again.interception = interception
        yield again


@contextlib.contextmanager
def redirected(*functions, codecs=(), **more):
    met = []
    try:
        for function in functions:
            name = getattr(function, "__name__", type(function).__name__)
            met.append(redirect(Tool(name, function, **more), codecs))
        yield met
    finally:
        for redirection in met:
            redirection.restore()


def both(agent, *tools, **more):
    """Record the agent, replay it; gives what it returned each time, how often the ledger was written, and the gate."""
    LEDGER.clear()
    with redirected(*tools, **more):
        with recording() as backend:
            first = agent()
        written = len(LEDGER)
        with replaying(backend) as again:
            second = agent()
        assert again.latched is None
        assert again.recorded == [x for x in backend.exchanges.values() if x.parent is not None]
    assert len(LEDGER) == written, "a tool ran in the replay"
    return first, second, written, backend


LEDGER = []


def refund(order, amount=5, *, note=""):
    LEDGER.append((order, amount, note))
    return {"refunded": amount, "serial": len(LEDGER)}


# The ten ways of holding a tool

from_import = refund  # `from shop import refund` in a module of the agent
REGISTRY = {"refund": refund}
SEQUENCE = [refund]
PARTIAL = functools.partial(refund, 7)


def _decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


CLOSURE = _decorated(refund)
CACHED = functools.lru_cache(refund)


def _by_default(order, tool=refund):
    return tool(order)


class Holder:
    __slots__ = ("tool",)
    static = staticmethod(refund)

    def __init__(self):
        self.tool = refund


class Instance:
    def __init__(self):
        self.tool = refund


HELD = {
    "module name": lambda: refund(7),
    "from import": lambda: from_import(7),
    "dict registry": lambda: REGISTRY["refund"](7),
    "list": lambda: SEQUENCE[0](7),
    "partial": lambda: PARTIAL(),
    "decorator closure": lambda: CLOSURE(7),
    "default argument": lambda: _by_default(7),
    "staticmethod": lambda: Holder.static(7),
    "instance attribute": lambda: Instance().tool(7),
    "slots": lambda: Holder().tool(7),
    "functools.lru_cache": lambda: (CACHED.cache_clear(), CACHED(7))[1],
}


@pytest.mark.parametrize("way", HELD)
def test_a_tool_is_met_however_the_agent_holds_it(way):
    first, second, written, backend = both(HELD[way], refund)
    assert first == second == {"refunded": 5, "serial": 1}
    assert written == 1
    (exchange,) = backend.exchanges.values()
    assert exchange.call == ToolCall("refund", {"order": 7, "amount": 5, "note": ""})


def test_a_bound_method_taken_before_is_met():
    class Shop:
        def refund(self, order):
            LEDGER.append(order)
            return len(LEDGER)

        @classmethod
        def make(cls, order):
            LEDGER.append(order)
            return cls.__name__

        @staticmethod
        def fee(order):
            LEDGER.append(order)
            return order

    bound, made, fee = Shop().refund, Shop.make, Shop().fee
    first, second, written, backend = both(
        lambda: (bound(7), made(8), fee(9), Shop().refund(1)), Shop.refund, Shop.make, Shop.fee
    )
    assert first == second == (1, "Shop", 9, 4)
    assert written == 4
    assert [x.call.arguments for x in backend.exchanges.values()] == [
        {"order": 7},
        {"order": 8},
        {"order": 9},
        {"order": 1},
    ]


# Four kinds in five places


def make_tools():
    captured = ["in the closure"]

    async def slept(n):
        LEDGER.append(n)
        await asyncio.sleep(0)
        return (n, captured[0])

    def counted(n):
        for i in range(n):
            LEDGER.append(i)
            yield i, captured[0]
        return "end"

    async def streamed(n):
        for i in range(n):
            await asyncio.sleep(0)
            LEDGER.append(i)
            yield i, captured[0]

    def plain(n):
        LEDGER.append(n)
        return (n, captured[0])

    return plain, slept, counted, streamed


def module_tools():
    """The same four without free variables."""
    namespace = {"LEDGER": LEDGER, "asyncio": asyncio}
    exec(
        "def plain(n):\n LEDGER.append(n)\n return (n,)\n"
        "async def slept(n):\n LEDGER.append(n)\n await asyncio.sleep(0)\n return (n,)\n"
        "def counted(n):\n for i in range(n):\n  LEDGER.append(i)\n  yield i,\n return 'end'\n"
        "async def streamed(n):\n for i in range(n):\n  await asyncio.sleep(0)\n  LEDGER.append(i)\n  yield i,\n",
        namespace,
    )
    return [namespace[name] for name in ("plain", "slept", "counted", "streamed")]


def drain(generator):
    found = []
    while True:
        try:
            found.append(next(generator))
        except StopIteration as stop:
            return found, stop.value


def use(call):
    """Run what a call of any kind gives to its end."""
    if inspect.iscoroutine(call):
        return asyncio.run(call)
    if inspect.isgenerator(call):
        return drain(call)
    if inspect.isasyncgen(call):

        async def collect():
            return [item async for item in call]

        return asyncio.run(collect())
    return call


KINDS = ["plain", "slept", "counted", "streamed"]


@pytest.mark.parametrize("place", ["function", "closure", "method", "staticmethod", "classmethod"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_in_each_place(kind, place):
    function = (make_tools() if place == "closure" else module_tools())[KINDS.index(kind)]
    if place in {"function", "closure"}:
        call = function
    else:
        # The same code as a method: one parameter more in front.
        lines = {
            "plain": "LEDGER.append(n)\n return (n,)",
            "slept": "LEDGER.append(n)\n await asyncio.sleep(0)\n return (n,)",
            "counted": "LEDGER.append(n)\n yield n,\n return 'end'",
            "streamed": "LEDGER.append(n)\n yield n,",
        }
        head = "async def" if kind in {"slept", "streamed"} else "def"
        first = {"method": "self, ", "classmethod": "cls, ", "staticmethod": ""}[place]
        namespace = {"LEDGER": LEDGER, "asyncio": asyncio}
        exec(f"{head} tool({first}n):\n {lines[kind]}", namespace)
        function = namespace["tool"]
        function.__qualname__ = "Shop.tool"
        wrap = {"method": lambda f: f, "classmethod": classmethod, "staticmethod": staticmethod}[place]
        shop = type("Shop", (), {"tool": wrap(function)})()
        call = shop.tool
        function = getattr(call, "__func__", call)
    code = function.__code__
    first, second, written, backend = both(lambda: use(call(2)), call)
    assert first == second
    assert type(first) is type(second)
    assert written >= 1
    (exchange,) = backend.exchanges.values()
    assert exchange.call.arguments == {"n": 2}
    assert exchange.suspended is (
        kind in {"slept", "streamed"} and (place in {"function", "closure"} or kind == "slept")
    )
    assert function.__code__ is code


@pytest.mark.parametrize("kind", range(4))
def test_a_stub_shows_itself_as_the_original(kind):
    function = make_tools()[kind]
    function.__annotations__ = {"n": int}
    code, before = function.__code__, inspect.signature(function)
    tests = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    source, answers = inspect.getsource(function), [test(function) for test in tests]
    with redirected(function):
        assert function.__code__ is not code
        assert inspect.signature(function) == before
        assert [test(function) for test in tests] == answers
        assert inspect.getsource(function) == source
        for name in (
            "co_name",
            "co_qualname",
            "co_filename",
            "co_firstlineno",
            "co_flags",
            "co_freevars",
            "co_argcount",
        ):
            assert getattr(function.__code__, name) == getattr(code, name)
        assert {line for _, _, line in function.__code__.co_lines()} <= {None, code.co_firstlineno}
    assert function.__code__ is code


def test_every_shape_of_parameters_passes_through():
    def tool(a, b=2, /, c=3, *rest, d, e=5, **more):
        return [a, b, c, list(rest), d, e, more]

    calls = [
        lambda: tool(1, d=4),
        lambda: tool(1, 9, 8, 7, 6, d=4, e=0, z=1, a=2),
        lambda: tool(1, c=2, d=4),
    ]
    expected = [call() for call in calls]
    with redirected(tool), recording() as backend:
        assert [call() for call in calls] == expected
        for wrong in (lambda: tool(), lambda: tool(1), lambda: tool(1, d=1, c=1, e=1, b=1)["x"]):
            with pytest.raises(TypeError):
                wrong()
    arguments = [x.call.arguments for x in backend.exchanges.values()]
    assert arguments[0] == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert arguments[1] == {"a": 1, "b": 9, "c": 8, "rest": [7, 6], "d": 4, "e": 0, "more": {"z": 1, "a": 2}}


def test_private_and_strange_parameter_names():
    class Shop:
        def tool(self, __secret, match, _meet=1, star=2, p0=3):  # noqa: PYI063  a mangled name
            return [__secret, match, _meet, star, p0]

    with redirected(Shop.tool), recording() as backend:
        assert Shop().tool(1, match=2, p0=9) == [1, 2, 1, 2, 9]
    (exchange,) = backend.exchanges.values()
    assert exchange.call.arguments == {"_Shop__secret": 1, "match": 2, "_meet": 1, "star": 2, "p0": 9}


def test_super_and_class_cells_work_inside():
    class Base:
        def tool(self):
            return [1]

    class Shop(Base):
        def tool(self):
            return [*super().tool(), __class__.__name__]

    first, second, _, backend = both(lambda: Shop().tool(), Shop.tool, Base.tool)
    assert first == second == [1, "Shop"]
    outer, inner = backend.exchanges.values()
    assert inner.parent == outer.start


# Values


@dataclasses.dataclass
class Order:
    id: int
    lines: list[tuple[str, int]]


@dataclasses.dataclass
class VipOrder(Order):
    level: int = 1


def test_values_come_back_by_annotation_fresh_each_time():
    def lookup(number) -> Order | None:
        return VipOrder(number, [("pen", 1)]) if number else None

    first, second, _, backend = both(lambda: (lookup(1), lookup(0), lookup(1)), lookup)
    assert first == second
    assert type(second[0]) is VipOrder
    with redirected(lookup), replaying(backend):
        one = lookup(1)
        one.lines.append("changed")
        assert lookup(1).lines == [("pen", 1)]


def test_returns_and_codecs_say_it_where_the_annotation_does_not():
    class Row:
        def __init__(self, n):
            self.n = n

    def lookup(number):
        return Order(number, [])

    def rows(n) -> list:
        return [Row(n)]

    first, second, *_ = both(lambda: lookup(1), lookup, returns=Order)
    assert first == second == Order(1, [])
    codecs = []
    with redirected(rows, codecs=codecs):
        codecs.append(Codec(Row, lambda row: row.n, Row))
        with recording() as backend:
            rows(3)
        with replaying(backend):
            assert [(type(row), row.n) for row in rows(3)] == [(Row, 3)]


def test_a_result_is_frozen_before_the_agent_changes_it_and_arguments_before_the_tool_does():
    def tool(rows):
        rows.append("by the tool")
        return [1]

    with redirected(tool), recording() as backend:
        result = tool(["given"])
        result.append("by the agent")
    (exchange,) = backend.exchanges.values()
    assert exchange.call.arguments == {"rows": ["given"]}
    assert exchange.outcome.value == [1]


def test_what_cannot_be_frozen_reaches_the_agent_and_fails_the_test_later():
    held = []

    def lookup(number):
        held.append(Order(number, []))
        return held[-1]

    with redirected(lookup), recording(problems=1) as backend:
        assert lookup(1) is held[0]
        assert lookup(2) is held[1]
    (problem,) = backend.interception.problems
    assert isinstance(problem, CannotFreeze)
    assert (problem.path, problem.kind) == ("$", f"{__name__}.Order")
    text = str(problem)
    assert "tool lookup returned" in text
    assert f"agentreplay.tool(lookup, returns={__name__}.Order)" in text
    with redirected(lookup), replaying(backend) as again, pytest.raises(ReplayDiverged, match="cannot be made again"):
        lookup(1)
    assert again.interception.problems


def test_an_annotation_that_cannot_be_evaluated_is_none():
    def lookup(number) -> NotImported:  # noqa: F821
        return (number,)

    first, second, *_ = both(lambda: lookup(1), lookup)
    assert first == second == (1,)


def test_opaque_arguments_are_compared_by_type():
    def tool(connection):
        return 1

    _, second, _, backend = both(lambda: tool(threading.Lock()), tool)
    assert second == 1
    (exchange,) = backend.exchanges.values()
    assert list(exchange.call.arguments["connection"]) == ["$opaque"]


# Exceptions


class ToolError(Exception):
    def __init__(self, code, *, retry):
        super().__init__(f"failed with {code}")
        self.code = code


def caught(call):
    try:
        return use(call())
    except Exception as error:
        return type(error), str(error), vars(error)


@pytest.mark.parametrize("kind", range(4))
def test_exceptions_come_back_in_every_kind(kind):
    async def slept():
        await asyncio.sleep(0)
        raise ToolError(1, retry=False)

    def counted():
        yield 1
        raise ToolError(1, retry=False)

    async def streamed():
        yield 1
        raise ToolError(1, retry=False)

    def plain():
        raise ToolError(1, retry=False)

    tool = (plain, slept, counted, streamed)[kind]
    first, second, *_ = both(lambda: caught(tool), tool)
    assert first == second == (ToolError, "failed with 1", {"code": 1})


def test_a_recorded_exception_is_the_very_object_while_recording():
    error = ToolError(1, retry=False)

    def tool():
        raise error

    with redirected(tool), recording(), pytest.raises(ToolError) as raised:
        tool()
    assert raised.value is error
    assert "in tool" in "".join(traceback.format_exception(error))


# Generators


def test_a_generator_is_driven_by_its_consumer_and_replayed_as_it_was_driven():
    log = []

    def tool():
        got = yield 1
        log.append(got)
        try:
            got = yield 2
        except KeyError as error:
            log.append(error)
        yield 3

    def agent():
        generator = tool()
        found = [next(generator), generator.send("hello"), generator.throw(KeyError("x"))]
        return [*found, *generator]

    first, second, *_ = both(agent, tool)
    assert first == second == [1, 2, 3]
    assert len(log) == 2


def test_a_generator_that_is_closed_early_is_closed_early():
    closed = []

    def tool():
        try:
            yield from range(5)
        finally:
            closed.append(True)

    def agent():
        for item in tool():
            if item == 1:
                break
        return item

    first, second, _, backend = both(agent, tool)
    assert first == second == 1
    assert closed == [True]
    (exchange,) = backend.exchanges.values()
    assert exchange.outcome == ToolReply(items=(0, 1), closed=True)
    with redirected(tool), replaying(backend) as again, pytest.raises(ReplayDiverged, match="item 3 was asked for"):
        list(tool())
    assert again.latched.kind is Kind.EXTRA
    assert again.latched.origin.startswith("test_tool.py:")


def test_a_generator_that_is_kept_open_is_settled_at_the_end_of_the_test():
    def tool():
        yield from range(5)

    kept = []
    with redirected(tool):
        with recording() as backend:
            kept.append(tool())
            next(kept[0])
        kept[0].close()
        (exchange,) = backend.exchanges.values()
        assert exchange.outcome == ToolReply(items=(0,), closed=True)


def test_an_async_generator_left_by_break():
    async def tool():
        for i in range(5):
            await asyncio.sleep(0)
            yield (i,)

    async def agent():
        async for item in tool():
            if item == (2,):
                return item
        return None

    first, second, _, backend = both(lambda: asyncio.run(agent()), tool)
    assert first == second == (2,)
    (exchange,) = backend.exchanges.values()
    assert exchange.outcome.items == ({"$tuple": [0]}, {"$tuple": [1]}, {"$tuple": [2]})
    assert exchange.outcome.closed


def test_an_async_generator_is_driven_by_asend_and_athrow():
    async def tool():
        try:
            got = yield 1
            yield got
        except KeyError:
            yield 3

    async def agent():
        generator = tool()
        found = [await generator.asend(None), await generator.asend(2), await generator.athrow(KeyError("x"))]
        return [*found, *[item async for item in generator]]

    first, second, *_ = both(lambda: asyncio.run(agent()), tool)
    assert first == second == [1, 2, 3]


def test_items_are_restored_by_the_annotation():
    def tool() -> Iterator[Order]:
        yield Order(1, [])

    async def streamed() -> AsyncIterator[Order]:
        yield Order(1, [("a", 2)])

    for each in (tool, streamed):
        first, second, *_ = both(lambda tool=each: use(tool()), each)
        assert first == second


def test_what_happens_between_two_items_is_no_child_of_the_generator():
    def inner(n):
        return n

    def tool():
        yield inner(1)
        yield inner(2)

    def agent():
        return [inner(item * 10) for item in tool()]

    first, second, _, backend = both(agent, tool, inner)
    assert first == second == [10, 20]
    flow, *others = backend.exchanges.values()
    parents = [x.parent for x in others]
    assert parents == [flow.start, None, flow.start, None]


@pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator"])
def test_a_plain_wrapper_of_another_kind_is_followed(kind):
    _, slept, counted, streamed = make_tools()

    def wrapped_away(fn):
        def wrapper(n):
            return fn(n)

        return wrapper

    tool = wrapped_away({"coroutine": slept, "generator": counted, "async generator": streamed}[kind])
    first, second, _, backend = both(lambda: use(tool(2)), tool)
    assert first == second
    assert len(backend.exchanges) == 1

    async def failing(n):
        raise ToolError(n, retry=True)

    naive = wrapped_away(failing)

    async def gathered():
        return [type(e).__name__ for e in await asyncio.gather(naive(1), naive(2), return_exceptions=True)]

    first, second, *_ = both(lambda: asyncio.run(gathered()), naive)
    assert first == second == ["ToolError", "ToolError"]


def test_annotated_awaitables_are_unwrapped():
    async def inner():
        return Order(1, [])

    def tool() -> Awaitable[Order]:
        return inner()

    first, second, *_ = both(lambda: use(tool()), tool)
    assert first == second == Order(1, [])


# Concurrency


def test_a_cancelled_call_waits_to_be_cancelled_again():
    async def slow():
        LEDGER.append("begun")
        await asyncio.sleep(60)

    async def agent():
        task = asyncio.create_task(slow())
        await asyncio.sleep(0.01)
        was_done = task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return was_done, task.cancelled()

    first, second, written, backend = both(lambda: asyncio.run(agent()), slow)
    assert first == second == (False, True)
    assert written == 1
    (exchange,) = backend.exchanges.values()
    assert exchange.outcome.cancelled
    assert exchange.suspended


def test_a_cancelled_call_under_trio():
    async def slow():
        LEDGER.append("begun")
        await trio.sleep_forever()

    async def agent():
        with trio.move_on_after(0.01) as scope:
            await slow()
        return scope.cancelled_caught

    first, second, written, _ = both(lambda: trio.run(agent), slow)
    assert (first, second, written) == (True, True, 1)


def test_many_at_once_are_told_apart():
    async def lookup(n):
        await asyncio.sleep(0.001 * (5 - n))
        return (n,)

    async def agent():
        return await asyncio.gather(*(lookup(n) for n in range(5)))

    first, second, _, backend = both(lambda: asyncio.run(agent()), lookup)
    assert first == second == [(n,) for n in range(5)]
    assert all(x.suspended for x in backend.exchanges.values())


def test_a_coroutine_that_never_gives_way_did_not_suspend():
    async def quick():
        return 1

    *_, backend = both(lambda: asyncio.run(quick()), quick)
    (exchange,) = backend.exchanges.values()
    assert exchange.suspended is False


def test_threads_and_pools():
    def tool(n):
        LEDGER.append(n)
        return threading.current_thread() is threading.main_thread()

    def agent():
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(tool, range(4)))
        thread = threading.Thread(target=lambda: found.append(tool(9)))
        thread.start()
        thread.join()
        return found

    thread_starts.stamp_threads()
    first, second, written, _ = both(agent, tool)
    assert first == second == [False] * 5
    assert written == 5


def test_a_sync_call_that_never_ended():
    def tool():
        return 1

    backend = SmallGate()
    backend.exchanges = {1: Exchange(ToolCall("tool"), None, 1, None)}
    with redirected(tool), replaying(backend) as again, pytest.raises(ReplayDiverged, match="never ended"):
        tool()
    assert again.latched is not None
    outcomes = []

    def straggler():
        try:
            tool()
        except ReplayDiverged:
            outcomes.append("refused")

    with redirected(tool):
        with replaying(backend) as again:
            thread = threading.Thread(target=straggler, daemon=True)
            thread.start()
            thread.join(0.05)
            assert outcomes == []
        thread.join(5)
    assert outcomes == ["refused"]


# Children and layers


def test_a_tool_inside_a_tool_is_its_child_and_is_not_called_in_the_replay():
    def price(item):
        LEDGER.append(item)
        return 2

    async def total(items):
        await asyncio.sleep(0)
        return sum(price(item) for item in items)

    first, second, written, backend = both(lambda: asyncio.run(total(["a", "b"])), total, price)
    assert first == second == 4
    assert written == 2
    outer, *inner = backend.exchanges.values()
    assert [x.parent for x in inner] == [outer.start] * 2
    assert outer.finish > max(x.finish for x in inner)


def test_a_decorated_tool_is_one_exchange_and_its_wrapped_function_is_no_way_around():
    tries = []

    def retry(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            for _ in range(3):
                try:
                    return fn(*args, **kwargs)
                except ConnectionError:
                    tries.append(1)
            return None

        return wrapper

    @retry
    def pay(order, amount=3):
        LEDGER.append(order)
        if len(LEDGER) < 3:
            raise ConnectionError
        return amount

    raw = pay.__wrapped__
    first, second, written, backend = both(lambda: pay(7), pay)
    assert (first, second, written, len(tries)) == (3, 3, 3, 2)
    (exchange,) = backend.exchanges.values()
    assert exchange.call.arguments == {"order": 7, "amount": 3}
    LEDGER.clear()
    with redirected(pay), replaying(backend):
        assert raw(7) == 3
        with pytest.raises(ReplayDiverged):
            raw(7)
    assert LEDGER == []


def test_caches_start_cold_in_each_test():
    @functools.lru_cache
    def lookup(n):
        LEDGER.append(n)
        return n

    lookup(1)
    LEDGER.clear()
    with redirected(lookup), recording() as backend:
        assert (lookup(1), lookup(1)) == (1, 1)
    assert (len(LEDGER), len(backend.exchanges)) == (1, 1)
    with redirected(lookup), replaying(backend) as again:
        assert (lookup(1), lookup(1)) == (1, 1)
        assert again.recorded == []
    lookup(1)
    assert len(LEDGER) == 2, "what the replay put there is gone"


def test_recursion_is_children():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    first, second, _, backend = both(lambda: down(3), down)
    assert first == second == 3
    assert [x.parent for x in backend.exchanges.values()] == [None, 1, 2, 3]


# No way to the original


def reachable(start):
    """Everything that can be reached from a stub without going through modules and classes."""
    seen, queue = {}, [start]
    while queue:
        at = queue.pop()
        if id(at) in seen or isinstance(at, type | types.ModuleType) or at is sys.modules:
            continue
        seen[id(at)] = at
        if isinstance(at, types.FunctionType):
            queue += [at.__code__, at.__defaults__, at.__kwdefaults__, at.__closure__, at.__dict__]
        else:
            queue += gc.get_referents(at)
    return seen.values()


@pytest.mark.parametrize("kind", range(4))
def test_a_stub_holds_no_path_to_its_original(kind):
    function = make_tools()[kind]
    code = function.__code__
    wrapped = functools.wraps(function)(lambda *args: function(*args))
    outer = wrapped.__code__
    with redirected(wrapped, function), replaying(SmallGate()):
        found = list(reachable(wrapped))
        assert function in found, "the walk follows closures and __wrapped__"
        assert any(isinstance(each, types.CodeType) for each in found)
        assert not any(each is code or each is outer for each in found)
    assert (function.__code__, wrapped.__code__) == (code, outer)


def test_the_vault_stays_shut_in_a_replay():
    def tool():
        LEDGER.append(1)
        return 1

    LEDGER.clear()
    with redirected(tool), recording() as backend:
        tool()
    with redirected(tool) as (redirection,), replaying(backend) as again:
        key = redirection._layer._key
        with pytest.raises(ReplayDiverged):
            patching.outside(key)
        intercepted = again.interception.enter(ToolCall("tool"))
        with pytest.raises(ReplayDiverged):
            patching.lend(key, intercepted)
    assert LEDGER == [1]


def test_nothing_fires_in_a_thousand_hostile_replays(tmp_path):
    ledger = tmp_path / "ledger"

    class Shop:
        def pay(self, order):
            with ledger.open("a") as file:
                file.write(f"{order}\n")
            return order

        async def ship(self, order):
            with ledger.open("a") as file:
                file.write(f"{order}\n")
            await asyncio.sleep(0)
            return order

        def stream(self, order):
            with ledger.open("a") as file:
                file.write(f"{order}\n")
            yield order

    class Vip(Shop):
        def pay(self, order):
            return super().pay(order)

    def swallowing(call):
        for _ in range(3):
            try:
                return call()
            except BaseException:
                continue
        return None

    async def cancelled(shop):
        task = asyncio.create_task(shop.ship(2))
        await asyncio.sleep(0)
        task.cancel()
        return await asyncio.gather(task, shop.ship(3), asyncio.wait_for(shop.ship(4), 1), return_exceptions=True)

    def agent(shop):
        bound = shop.pay
        for call in (
            lambda: shop.pay(1),
            functools.partial(bound, 1),
            functools.partial(Shop.pay, shop, 5),
            lambda: list(shop.stream(6)),
            lambda: next(shop.stream(7)),
            lambda: next(shop.stream(8)).throw(KeyError),
            lambda: getattr(shop.pay, "__wrapped__", shop.pay)(9),
            lambda: types.FunctionType(Shop.pay.__code__, globals(), "copy", None, Shop.pay.__closure__)(shop, 10),
            lambda: asyncio.run(cancelled(shop)),
        ):
            swallowing(call)

    with redirected(Shop.pay, Shop.ship, Shop.stream, Vip.pay):
        with recording() as backend:
            agent(Shop())
        before = ledger.read_text()
        assert before
        for round_ in range(120):
            # Less and less of the recording is there: answers first, refusals in the end.
            gate_now = SmallGate(list(backend.exchanges.values())[: max(0, 40 - round_)])
            with opened(gate_now):
                agent(Shop() if round_ % 2 else Vip())
        assert ledger.read_text() == before


def test_outside_a_test_a_tool_does_what_it_always_did():
    plain, slept, counted, streamed = make_tools()
    before = [use(tool(2)) for tool in (plain, slept, counted, streamed)]
    with redirected(plain, slept, counted, streamed):
        assert [use(tool(2)) for tool in (plain, slept, counted, streamed)] == before


def test_a_tool_called_after_its_test_is_refused():
    def tool():
        LEDGER.append(1)

    LEDGER.clear()
    with redirected(tool):
        with recording() as backend:
            call_context = lanes.CALL_CONTEXT.get()
        token = lanes.CALL_CONTEXT.set(call_context)
        try:
            with pytest.raises(ReplayDiverged):
                tool()
        finally:
            lanes.CALL_CONTEXT.reset(token)
    assert LEDGER == []
    assert backend.interception.late[0].startswith("tool tool   called from test_tool.py:")


def test_the_agents_line_is_told_not_the_tools():
    def tool():
        return 1

    with redirected(tool), replaying(SmallGate()) as again:
        line = inspect.currentframe().f_lineno + 2
        with pytest.raises(ReplayDiverged):
            tool()
    assert again.latched.origin == f"test_tool.py:{line} in test_the_agents_line_is_told_not_the_tools"


# Redirecting twice, restoring


def test_a_function_redirected_twice_is_one_tool_and_what_was_said_last_counts():
    def tool():
        return 1

    code = tool.__code__
    first, second = redirect(Tool("first", tool)), redirect(Tool("second", tool))
    with recording() as backend:
        tool()
    second.restore()
    second.restore()
    with recording() as again:
        tool()
    assert tool.__code__ is not code
    first.restore()
    assert tool.__code__ is code
    names = [x.call.name for g in (backend, again) for x in g.exchanges.values()]
    assert names == ["second", "first"]


def test_a_wrapped_function_can_be_named_beside_its_wrapper():
    def raw(n):
        return n

    wrapper = _decorated(raw)
    codes = raw.__code__, wrapper.__code__
    for order in ((raw, wrapper), (wrapper, raw)):
        first, second, _, backend = both(lambda: (wrapper(1), raw(2)), *order)
        assert first == second == (1, 2)
        assert [x.call.arguments for x in backend.exchanges.values() if x.parent is None] == [{"n": 1}, {"n": 2}]
        assert (raw.__code__, wrapper.__code__) == codes


# Tracing


def test_under_a_tracer_and_a_debugger_that_reads_locals():
    plain, slept, counted, streamed = make_tools()
    events = collections.Counter()

    def tracer(frame, event, arg):
        dict(frame.f_locals)
        events[event] += 1
        return tracer

    old = sys.gettrace()
    with redirected(plain, slept, counted, streamed), recording() as backend:
        sys.settrace(tracer)
        try:
            found = [use(tool(2)) for tool in (plain, slept, counted, streamed)]
        finally:
            sys.settrace(old)
    assert events["line"]
    assert found[0] == (2, "in the closure")
    assert len(backend.exchanges) == 4


def test_coverage_counts_the_body_when_it_runs_and_only_the_def_line_when_it_does_not(tmp_path):
    import coverage

    file = tmp_path / "covered_tool.py"
    file.write_text("def tool(n):\n    m = n + 1\n    return m\n\n\nasync def ag(n):\n    yield n\n    yield n\n")
    namespace = {"__name__": "covered_tool"}

    def lines(run):
        measured = coverage.Coverage(data_file=None, config_file=False, include=[str(file)])
        old = sys.gettrace()
        measured.start()
        try:
            exec(compile(file.read_text(), str(file), "exec"), namespace)
            tool, ag = namespace["tool"], namespace["ag"]
            with redirected(tool, ag), run():
                assert tool(1) == 2
                assert use(ag(1)) == [1, 1]
        finally:
            measured.stop()
            sys.settrace(old)
        return measured.get_data().lines(str(file))

    backends = []

    @contextlib.contextmanager
    def record():
        with recording() as backend:
            backends.append(backend)
            yield

    assert sorted(lines(record)) == [1, 2, 3, 6, 7, 8]
    assert sorted(lines(lambda: replaying(backends[0]))) == [1, 6]


# What cannot be redirected


class CallableInstance:
    def __call__(self, n):
        LEDGER.append(n)
        return n


def test_a_callable_instance_is_met_by_its_call():
    instance = CallableInstance()
    first, second, written, backend = both(lambda: instance(3), instance)
    assert (first, second, written) == (3, 3, 1)
    (exchange,) = backend.exchanges.values()
    assert exchange.call == ToolCall("CallableInstance", {"n": 3})


@types.coroutine
def old_style():
    yield


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (len, r"not written in Python .*\(def thing_tool\("),
        (time.sleep, "not written in Python"),
        ([].append, "not written in Python"),
        (functools.partial(len), "not written in Python"),
        (Order, r"is a class; name the method"),
        (CallableInstance, "is a class"),
        (property(lambda self: 1), "is a property"),
        (42, "is a int, and no tool"),
        (old_style, "old-style coroutine"),
    ],
)
def test_what_cannot_be_met_is_refused_with_what_to_do(given, says):
    with pytest.raises(CannotRedirect, match=says):
        redirect(Tool("shop.thing", given))


# Paths


@pytest.fixture
def shop(tmp_path, monkeypatch):
    package = tmp_path / "shopfixture"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text(
        "import functools, json\n"
        "from json import dumps\n"
        "def refund(order): return order\n"
        "def lookup_order(n): return n\n"
        "@functools.lru_cache\ndef cached(n): return n\n"
        "def _private(): pass\n"
        "class Shop:\n"
        "    def refund(self, order): return order\n"
        "    @staticmethod\n    def fee(n): return n\n"
        "class Vip(Shop):\n    def refund(self, order): return order\n"
        "SHOP = Shop()\n"
        "handler = functools.partial(refund, 1)\n"
    )
    (package / "broken.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "shopfixture"
    for name in [name for name in sys.modules if name.startswith("shopfixture")]:
        del sys.modules[name]


def test_paths_name_tools(shop):
    def names(path):
        return [name for name, _ in find(path)]

    assert names("shopfixture.tools.refund") == ["shopfixture.tools.refund"]
    assert names("shopfixture.tools.Shop.refund") == ["shopfixture.tools.Shop.refund", "shopfixture.tools.Vip.refund"]
    assert names("shopfixture.tools.Shop.fee") == ["shopfixture.tools.Shop.fee"]
    assert names("shopfixture.tools.SHOP.refund") == ["shopfixture.tools.SHOP.refund"]
    assert names("shopfixture.tools.handler") == ["shopfixture.tools.handler"]
    assert names("shopfixture.tools.*") == [f"shopfixture.tools.{n}" for n in ("refund", "lookup_order", "cached")]
    assert names("shopfixture.tools.Shop.*") == ["shopfixture.tools.Shop.refund", "shopfixture.tools.Shop.fee"]


def test_everything_that_a_path_names_can_be_redirected(shop):
    for path in ("tools.*", "tools.Shop.*", "tools.SHOP.refund", "tools.handler"):
        for name, function in find(f"{shop}.{path}"):
            redirect(Tool(name, function)).restore()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("tools.refnd", r"shopfixture.tools has no refnd; did you mean refund\?"),
        ("tools.Shop.refnd", r"Shop has no refnd; did you mean refund\?"),
        ("tols.refund", "shopfixture has no tols"),
        ("tools.Shop", "is a class; name the method that reaches out, as in shopfixture.tools.Shop.refund"),
        ("tools.json", "is a module, and no tool"),
        ("broken.tool", "importing shopfixture.broken failed: No module named 'not_there_at_all'"),
        ("*", "defines no public function"),
    ],
)
def test_a_path_that_names_nothing_says_what_is_near(shop, path, says):
    with pytest.raises(CannotRedirect, match=says):
        find(f"{shop}.{path}")


def test_a_path_without_a_module():
    with pytest.raises(CannotRedirect, match=r"module\.function"):
        find("refund")
    with pytest.raises(CannotRedirect, match="there is no module no_such_shop"):
        find("no_such_shop.refund")
