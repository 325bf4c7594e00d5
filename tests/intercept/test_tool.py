"""Tools of any kind, held in any way: recorded where their body runs, answered in a replay without it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import gc
import inspect
import sys
import threading
import time
import traceback
import types
from collections.abc import AsyncIterator, Awaitable, Iterator

import coverage
import pytest
import trio

from pytest_agentreplay.errors import CannotFreeze, CannotRedirect, ReplayDiverged
from pytest_agentreplay.intercept.session import lanes, patching
from pytest_agentreplay.intercept.tools.tool import Tool, find, redirect
from pytest_agentreplay.intercept.tools.tool_paths import functions_behind
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.exchanges import Exchange, RawCall, ToolCall, ToolReply
from pytest_agentreplay.values import Codec
from tests.support import tapes
from tests.support.tapes import Player

ROOT = __file__.rpartition("/")[0]
recording = functools.partial(tapes.recording, root=ROOT)
replaying = functools.partial(tapes.replaying, root=ROOT)
running = functools.partial(tapes.running, root=ROOT)

LEDGER = []


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
    """Record the agent, replay it; gives what it returned each time, how often the ledger was written, and the tape."""
    LEDGER.clear()
    with redirected(*tools, **more):
        with recording() as tape:
            first = agent()
        written = len(LEDGER)
        with replaying(tape) as player:
            second = agent()
        assert player.latched is None
        assert player.left == [x for x in tape.exchanges.values() if x.parent is not None]
    assert len(LEDGER) == written, "a tool ran in the replay"
    return first, second, written, tape


def arguments(tape):
    return [x.call.arguments for x in tape.exchanges.values()]


def refund(order, amount=5, *, note=""):
    LEDGER.append((order, amount, note))
    return {"refunded": amount, "serial": len(LEDGER)}


def _decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    return wrapper


class Holder:
    __slots__ = ("tool",)
    static = staticmethod(refund)

    def __init__(self):
        self.tool = refund


CACHED = functools.lru_cache(refund)
HELD = {
    "its name": refund,
    "a registry": {"refund": refund}["refund"],
    "a partial": functools.partial(refund),
    "a decorator": _decorated(refund),
    "a default": lambda order, tool=refund: tool(order),
    "a static method": Holder.static,
    "a slot": lambda order: Holder().tool(order),
    "a cache": lambda order: (CACHED.cache_clear(), CACHED(order))[1],
}


class Shop:
    def pay(self, order):
        LEDGER.append(order)
        return order

    @classmethod
    def make(cls, order):
        LEDGER.append(order)
        return cls.__name__

    @staticmethod
    def fee(order):
        LEDGER.append(order)
        return order

    async def ship(self, order):
        LEDGER.append(order)
        await asyncio.sleep(0)
        return order

    def stream(self, order):
        LEDGER.append(order)
        yield order


class Vip(Shop):
    def pay(self, order):
        return [super().pay(order), __class__.__name__]


def test_a_tool_is_met_however_the_agent_holds_it():
    for way, call in HELD.items():
        first, second, written, tape = both(lambda: call(7), refund)  # noqa: B023
        assert first == second == {"refunded": 5, "serial": 1}, way
        assert written == 1, way
        assert arguments(tape) == [{"order": 7, "amount": 5, "note": ""}], way


def test_a_bound_method_taken_before_is_met_and_what_it_inherits_is_its_child():
    bound, made, fee = Shop().pay, Shop.make, Shop().fee
    first, second, written, tape = both(
        lambda: (bound(7), made(8), fee(9), Vip().pay(1)), Shop.pay, Shop.make, Shop.fee, Vip.pay
    )
    assert first == second == (7, "Shop", 9, [1, "Vip"])
    assert written == 4
    assert arguments(tape) == [{"order": 7}, {"order": 8}, {"order": 9}, {"order": 1}, {"order": 1}]
    assert [x.parent for x in tape.exchanges.values()] == [None, None, None, None, 7]


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


WITHOUT_CLOSURE = {
    "plain": ("def", "return (n,)"),
    "slept": ("async def", "await asyncio.sleep(0); return (n,)"),
    "counted": ("def", "yield n,; return 'end'"),
    "streamed": ("async def", "await asyncio.sleep(0); yield n,"),
}
PLACES = {
    "function": ("", lambda f: f),
    "method": ("self, ", lambda f: f),
    "staticmethod": ("", staticmethod),
    "classmethod": ("cls, ", classmethod),
}


def tool_in(place, kind):
    """A tool of this kind in this place, as it is called."""
    if place == "closure":
        return make_tools()[[*WITHOUT_CLOSURE].index(kind)]
    first, wrap = PLACES[place]
    head, code = WITHOUT_CLOSURE[kind]
    namespace = {"LEDGER": LEDGER, "asyncio": asyncio}
    exec(f"{head} tool({first}n): LEDGER.append(n); {code}", namespace)
    tool = namespace["tool"]
    if place == "function":
        return tool
    tool.__qualname__ = "Shop.tool"
    return type("Shop", (), {"tool": wrap(tool)})().tool


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


@pytest.mark.parametrize("place", [*PLACES, "closure"])
@pytest.mark.parametrize("kind", WITHOUT_CLOSURE)
def test_each_kind_in_each_place(kind, place):
    call = tool_in(place, kind)
    function = getattr(call, "__func__", call)
    code = function.__code__
    first, second, written, tape = both(lambda: use(call(2)), call)
    assert first == second
    assert type(first) is type(second)
    assert written >= 1
    (exchange,) = tape.exchanges.values()
    assert exchange.call.arguments == {"n": 2}
    assert exchange.suspended is (kind in {"slept", "streamed"})
    assert function.__code__ is code


SAME_OF_CODE = ["co_name", "co_qualname", "co_filename", "co_firstlineno", "co_flags", "co_freevars", "co_argcount"]


def test_a_stub_shows_itself_as_the_original_and_outside_a_test_does_what_that_did():
    tests = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    for function in make_tools():
        function.__annotations__ = {"n": int}
        code, before = function.__code__, inspect.signature(function)
        source, answers = inspect.getsource(function), [test(function) for test in tests]
        result = use(function(2))
        with redirected(function):
            assert use(function(2)) == result
            assert function.__code__ is not code
            assert inspect.signature(function) == before
            assert [test(function) for test in tests] == answers
            assert inspect.getsource(function) == source
            for name in SAME_OF_CODE:
                assert getattr(function.__code__, name) == getattr(code, name)
            assert {line for _, _, line in function.__code__.co_lines()} <= {None, code.co_firstlineno}
        assert function.__code__ is code


def test_every_shape_and_name_of_parameters_passes_through():
    class Odd:
        def tool(self, __secret, match, _call_instead=1, star=2, p0=3):  # noqa: PYI063  a mangled name
            return [__secret, match, _call_instead, star, p0]

    def tool(a, b=2, /, c=3, *rest, d, e=5, **more):
        return [a, b, c, list(rest), d, e, more]

    calls = [lambda: tool(1, d=4), lambda: tool(1, 9, 8, 7, 6, d=4, e=0, z=1, a=2), lambda: tool(1, c=2, d=4)]
    expected = [call() for call in calls]
    with redirected(tool, Odd.tool), recording() as tape:
        assert Odd().tool(1, match=2, p0=9) == [1, 2, 1, 2, 9]
        assert [call() for call in calls] == expected
        for wrong in (lambda: tool(), lambda: tool(1), lambda: tool(1, d=1, c=1, e=1, b=1)["x"]):
            with pytest.raises(TypeError):
                wrong()
    assert arguments(tape)[:3] == [
        {"_Odd__secret": 1, "match": 2, "_call_instead": 1, "star": 2, "p0": 9},
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5},
        {"a": 1, "b": 9, "c": 8, "rest": [7, 6], "d": 4, "e": 0, "more": {"z": 1, "a": 2}},
    ]


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

    def listed() -> Iterator[Order]:
        yield Order(1, [])

    async def streamed() -> AsyncIterator[Order]:
        yield Order(1, [("a", 2)])

    async def made():  # and never gives way
        return Order(1, [])

    def awaitable() -> Awaitable[Order]:
        return made()

    def unknown(number) -> NotImported:  # noqa: F821
        return (number,)

    first, second, _, tape = both(lambda: (lookup(1), lookup(0), lookup(1)), lookup)
    assert first == second
    assert type(second[0]) is VipOrder
    with redirected(lookup), replaying(tape):
        one = lookup(1)
        one.lines.append("changed")
        assert lookup(1).lines == [("pen", 1)]
    for tool in (listed, streamed, awaitable, functools.partial(unknown, 1)):
        first, second, _, tape = both(lambda: use(tool()), getattr(tool, "func", tool))  # noqa: B023
        assert first == second
        assert not tape.exchanges[1].suspended


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
        with recording() as tape:
            rows(3)
        with replaying(tape):
            assert [(type(row), row.n) for row in rows(3)] == [(Row, 3)]


def test_a_result_is_frozen_before_the_agent_changes_it_and_arguments_before_the_tool_does():
    def tool(rows, lock):
        rows.append("by the tool")
        return [1]

    with redirected(tool), recording() as tape:
        tool(["given"], threading.Lock()).append("by the agent")
    (exchange,) = tape.exchanges.values()
    assert exchange.call.arguments["rows"] == ["given"]
    assert list(exchange.call.arguments["lock"]) == ["$opaque"], "compared by its type"
    assert exchange.outcome.value == [1]


def test_what_cannot_be_frozen_reaches_the_agent_and_fails_the_test_later():
    held = []

    def lookup(number):
        held.append(Order(number, []))
        return held[-1]

    with redirected(lookup), recording(problems=1) as tape:
        assert [lookup(1) is held[0], lookup(2) is held[1]] == [True, True]
    (problem,) = tape.interception.observed.problems
    assert isinstance(problem, CannotFreeze)
    assert (problem.path, problem.kind) == ("$", f"{__name__}.Order")
    assert "tool lookup returned" in str(problem)
    assert f"agentreplay.tool(lookup, returns={__name__}.Order)" in str(problem)
    with redirected(lookup), replaying(tape) as again, pytest.raises(ReplayDiverged, match="cannot be made again"):
        lookup(1)
    assert again.interception.observed.problems


class ToolError(Exception):
    def __init__(self, code, *, retry):
        super().__init__(f"failed with {code}")
        self.code = code


def caught(call):
    try:
        return use(call())
    except Exception as error:
        return type(error), str(error), vars(error)


def test_exceptions_come_back_in_every_kind():
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

    for tool in (plain, slept, counted, streamed):
        first, second, *_ = both(lambda: caught(tool), tool)  # noqa: B023
        assert first == second == (ToolError, "failed with 1", {"code": 1})

    def again():
        raise error

    error = ToolError(1, retry=False)
    with redirected(again), recording(), pytest.raises(ToolError) as raised:
        again()
    assert raised.value is error, "the very object while it is recorded"
    assert "in again" in "".join(traceback.format_exception(error))


def test_generators_are_driven_by_their_consumer_and_replayed_as_they_were_driven():
    log = []

    def tool():
        log.append((yield 1))
        try:
            yield 2
        except KeyError as error:
            log.append(error)
        yield 3

    async def streamed():
        try:
            got = yield 1
            yield got
        except KeyError:
            yield 3

    def agent():
        generator = tool()
        found = [next(generator), generator.send("hello"), generator.throw(KeyError("x"))]
        return [*found, *generator]

    async def stream_agent():
        generator = streamed()
        found = [await generator.asend(None), await generator.asend(2), await generator.athrow(KeyError("x"))]
        return [*found, *[item async for item in generator]]

    first, second, *_ = both(lambda: agent() + asyncio.run(stream_agent()), tool, streamed)
    assert first == second == [1, 2, 3, 1, 2, 3]
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

    first, second, _, tape = both(agent, tool)
    assert first == second == 1
    assert closed == [True]
    (exchange,) = tape.exchanges.values()
    assert exchange.outcome == ToolReply(items=(0, 1), closed=True)
    with redirected(tool):
        with recording() as kept:
            still_open = tool()
            next(still_open)
        still_open.close()
    assert kept.exchanges[1].outcome == ToolReply(items=(0,), closed=True), "settled at the end of the test"
    with redirected(tool), replaying(tape) as player, pytest.raises(ReplayDiverged, match="item 3 was asked for"):
        list(tool())
    assert player.latched.kind is Kind.EXTRA
    assert player.latched.origin.startswith("test_tool.py:")


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

    first, second, _, tape = both(lambda: asyncio.run(agent()), tool)
    assert first == second == (2,)
    (exchange,) = tape.exchanges.values()
    assert exchange.outcome.items == ({"$tuple": [0]}, {"$tuple": [1]}, {"$tuple": [2]})
    assert exchange.outcome.closed


def test_what_happens_between_two_items_is_no_child_of_the_generator():
    def inner(n):
        return n

    def tool():
        yield inner(1)
        yield inner(2)

    first, second, _, tape = both(lambda: [inner(item * 10) for item in tool()], tool, inner)
    assert first == second == [10, 20]
    flow, *others = tape.exchanges.values()
    assert [x.parent for x in others] == [flow.start, None, flow.start, None]


def test_a_plain_wrapper_of_another_kind_is_followed():
    def wrapped_away(fn):
        def wrapper(n):
            return fn(n)

        return wrapper

    async def failing(n):
        raise ToolError(n, retry=True)

    async def gathered():
        return [type(e).__name__ for e in await asyncio.gather(naive(1), naive(2), return_exceptions=True)]

    for inner in make_tools()[1:]:
        tool = wrapped_away(inner)
        first, second, _, tape = both(lambda: use(tool(2)), tool)  # noqa: B023
        assert first == second
        assert len(tape.exchanges) == 1
    naive = wrapped_away(failing)
    first, second, *_ = both(lambda: asyncio.run(gathered()), naive)
    assert first == second == ["ToolError", "ToolError"]


# Concurrency: what tasks and threads do side by side is tried in tests/ordering


def test_a_cancelled_call_waits_to_be_cancelled_again():
    async def slow():
        LEDGER.append("begun")
        await asyncio.sleep(60)

    async def slow_in_trio():
        LEDGER.append("begun")
        await trio.sleep_forever()

    async def agent():
        task = asyncio.create_task(slow())
        await asyncio.sleep(0.01)
        was_done = task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return was_done, task.cancelled()

    async def trio_agent():
        with trio.move_on_after(0.01) as scope:
            await slow_in_trio()
        return scope.cancelled_caught

    first, second, written, tape = both(lambda: asyncio.run(agent()), slow)
    assert first == second == (False, True)
    assert written == 1
    (exchange,) = tape.exchanges.values()
    assert exchange.outcome.cancelled
    assert exchange.suspended
    assert both(lambda: trio.run(trio_agent), slow_in_trio)[:3] == (True, True, 1)


def test_a_sync_call_that_never_ended_is_told_in_the_tests_own_thread():
    """Another thread is held until the test is over: see test_http_httpx.py."""

    def tool():
        return 1

    player = Player([Exchange(ToolCall("tool"), None, 1, None)])
    with redirected(tool), running(player), pytest.raises(ReplayDiverged, match="never ended"):
        tool()
    assert player.latched is not None


def test_a_tool_inside_a_tool_is_its_child_and_is_not_called_in_the_replay():
    def price(item):
        LEDGER.append(item)
        return 2

    async def total(items):
        await asyncio.sleep(0)
        return sum(price(item) for item in items)

    first, second, written, tape = both(lambda: asyncio.run(total(["a", "b"])), total, price)
    assert first == second == 4
    assert written == 2
    outer, *inner = tape.exchanges.values()
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
    first, second, written, tape = both(lambda: pay(7), pay)
    assert (first, second, written, len(tries)) == (3, 3, 3, 2)
    assert arguments(tape) == [{"order": 7, "amount": 3}]
    LEDGER.clear()
    with redirected(pay), replaying(tape):
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
    with redirected(lookup), recording() as tape:
        assert (lookup(1), lookup(1)) == (1, 1)
    assert (len(LEDGER), len(tape.exchanges)) == (1, 1)
    with redirected(lookup), replaying(tape) as player:
        assert (lookup(1), lookup(1)) == (1, 1)
        assert player.left == []
    lookup(1)
    assert len(LEDGER) == 2, "what the replay put there is gone"


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


def test_a_stub_holds_no_path_to_its_original():
    for function in make_tools():
        wrapped = _decorated(function)
        codes = function.__code__, wrapped.__code__
        with redirected(wrapped, function), running(Player()):
            found = list(reachable(wrapped))
            assert function in found, "the walk follows closures and __wrapped__"
            assert any(isinstance(each, types.CodeType) for each in found)
            assert not any(each is code for each in found for code in codes)
        assert (function.__code__, wrapped.__code__) == codes


def test_the_original_code_is_not_given_out_in_a_replay():
    def tool():
        LEDGER.append(1)
        return 1

    LEDGER.clear()
    with redirected(tool), recording() as tape:
        tool()
    with redirected(tool) as (redirection,), replaying(tape) as player:
        key = redirection._layer._key
        with pytest.raises(ReplayDiverged):
            patching.make_unintercepted(key)
        intercepted = player.interception.enter(RawCall(ToolCall("tool")))
        with pytest.raises(ReplayDiverged):
            patching.lend(key, intercepted)
    assert LEDGER == [1]


def stubborn_agent(shop):
    """Calls its tools in every way, three times each, whatever is raised."""
    bound = shop.pay

    async def cancelled():
        task = asyncio.create_task(shop.ship(2))
        await asyncio.sleep(0)
        task.cancel()
        return await asyncio.gather(task, shop.ship(3), asyncio.wait_for(shop.ship(4), 1), return_exceptions=True)

    for call in (
        lambda: shop.pay(1),
        functools.partial(bound, 1),
        functools.partial(Shop.pay, shop, 5),
        lambda: list(shop.stream(6)),
        lambda: next(shop.stream(7)),
        lambda: next(shop.stream(8)).throw(KeyError),
        lambda: getattr(shop.pay, "__wrapped__", shop.pay)(9),
        lambda: types.FunctionType(Shop.pay.__code__, globals(), "copy", None, Shop.pay.__closure__)(shop, 10),
        lambda: asyncio.run(cancelled()),
    ):
        for _ in range(3):
            with contextlib.suppress(BaseException):
                call()
                break


def test_nothing_fires_in_many_hostile_replays():
    LEDGER.clear()
    with redirected(Shop.pay, Shop.ship, Shop.stream, Vip.pay):
        with recording() as tape:
            stubborn_agent(Shop())
        before = len(LEDGER)
        assert before
        for left in range(40, -4, -2):
            # Less and less of the recording is there: answers first, refusals in the end.
            with running(Player([*tape.exchanges.values()][: max(0, left)])):
                stubborn_agent(Shop() if left % 4 else Vip())
        assert len(LEDGER) == before


def test_a_tool_called_after_its_test_is_refused():
    def tool():
        LEDGER.append(1)

    LEDGER.clear()
    with redirected(tool):
        with recording() as tape:
            call_context = lanes.CALL_CONTEXT.get()
        token = lanes.CALL_CONTEXT.set(call_context)
        try:
            with pytest.raises(ReplayDiverged):
                tool()
        finally:
            lanes.CALL_CONTEXT.reset(token)
    assert LEDGER == []
    assert tape.interception.ending.late[0].startswith("tool tool   called from test_tool.py:")


def test_the_agents_line_is_told_not_the_tools():
    def tool():
        return 1

    with redirected(tool), running(Player()) as player:
        line = inspect.currentframe().f_lineno + 2
        with pytest.raises(ReplayDiverged):
            tool()
    assert player.latched.origin == f"test_tool.py:{line} in test_the_agents_line_is_told_not_the_tools"


def test_a_function_redirected_twice_is_one_tool_and_what_was_said_last_counts():
    def tool():
        return 1

    code = tool.__code__
    first, second = redirect(Tool("first", tool)), redirect(Tool("second", tool))
    with recording() as tape:
        tool()
    second.restore()
    second.restore()
    with recording() as again:
        tool()
    assert tool.__code__ is not code
    first.restore()
    assert tool.__code__ is code
    assert [x.call.name for each in (tape, again) for x in each.exchanges.values()] == ["second", "first"]


def test_a_wrapped_function_can_be_named_beside_its_wrapper():
    def raw(n):
        return n

    wrapper = _decorated(raw)
    codes = raw.__code__, wrapper.__code__
    for order in ((raw, wrapper), (wrapper, raw)):
        first, second, _, tape = both(lambda: (wrapper(1), raw(2)), *order)
        assert first == second == (1, 2)
        assert [x.call.arguments for x in tape.exchanges.values() if x.parent is None] == [{"n": 1}, {"n": 2}]
        assert (raw.__code__, wrapper.__code__) == codes


def test_coverage_counts_the_body_when_it_runs_and_only_the_def_line_when_it_does_not(tmp_path):
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
            with redirected(tool, ag), run as tape:
                assert tool(1) == 2
                assert use(ag(1)) == [1, 1]
        finally:
            measured.stop()
            sys.settrace(old)
        return sorted(measured.get_data().lines(str(file))), tape

    counted, tape = lines(recording())
    assert counted == [1, 2, 3, 6, 7, 8]
    assert lines(replaying(tape))[0] == [1, 6]


class CallableInstance:
    def __call__(self, n):
        LEDGER.append(n)
        return n


def test_a_callable_instance_is_met_by_its_call():
    instance = CallableInstance()
    first, second, written, tape = both(lambda: instance(3), instance)
    assert (first, second, written) == (3, 3, 1)
    assert [x.call for x in tape.exchanges.values()] == [ToolCall("CallableInstance", {"n": 3})]


class Decorated:
    """As decorators of frameworks make them: several ways to call what was decorated, none of which is a tool."""

    def __init__(self, function, **more):
        self.tool_func = function
        vars(self).update(more)

    def __call__(self, *args, **kwargs):
        return self.tool_func(*args, **kwargs)

    def invoke(self, arguments):
        return self.tool_func(**arguments)

    async def run_async(self, arguments):
        return self.tool_func(**arguments)


def noted(order):
    LEDGER.append(order)
    return f"noted {order}"


def counted(order):
    LEDGER.append(order)
    return len(order)


SLOTTED = dataclasses.make_dataclass("Slotted", ["name", "run"], slots=True)


@pytest.mark.parametrize(
    "made",
    [
        Decorated,
        lambda function: functools.update_wrapper(Decorated(None, on_error=use), function),
        lambda function: functools.partial(Decorated(functools.partial(function))),
        lambda function: SLOTTED("noted", function),
        lambda function: types.SimpleNamespace(anything=function, name="noted"),
        lambda function: types.SimpleNamespace(schema=use, _fn=function),
    ],
)
def test_of_an_object_that_holds_a_function_the_function_is_frozen(made):
    first, second = made(noted), made(counted)

    def agent():
        return noted("A-1"), counted("A-1")

    with redirected(first) as (one,), redirected(second) as (two,):
        assert (one.get_function(), two.get_function()) == (noted, counted), "two objects of one class are two tools"
    given, again, written, _ = both(agent, first, second)
    assert (given, again, written) == (("noted A-1", 3), ("noted A-1", 3), 2)


def test_an_object_is_frozen_whichever_of_its_methods_is_called():
    tool = Decorated(noted)
    ways = [lambda: tool(order="A-1"), lambda: tool.invoke({"order": "A-1"})]
    for way in (*ways, lambda: asyncio.run(tool.run_async({"order": "A-1"}))):
        first, second, written, tape = both(way, tool)
        assert (first, second, written) == ("noted A-1", "noted A-1", 1)
        assert [x.call.arguments for x in tape.exchanges.values()] == [{"order": "A-1"}]


class Looking:
    """A tool of the agent's own, with methods that call each other."""

    def __call__(self, order):
        return self.run(order)

    def run(self, order):
        LEDGER.append(order)
        return f"looked {order}"

    async def arun(self, order):
        return self.run(order)


def test_an_own_object_is_met_by_each_method_that_calls_it():
    tool = Looking()
    for way in (lambda: tool("A-1"), lambda: tool.run(order="A-1"), lambda: asyncio.run(tool.arun("A-1"))):
        first, second, written, tape = both(way, tool)
        assert (first, second, written) == ("looked A-1", "looked A-1", 1)
        outer = [x.call.arguments for x in tape.exchanges.values() if x.parent is None]
        assert outer == [{"order": "A-1"}]


class Formatter:
    """A tool of the agent's own, which uses a function and wraps none."""

    def __init__(self, words):
        self.words = words

    def __call__(self, order):
        LEDGER.append(order)
        return self.words(order)


def test_an_own_object_that_only_uses_a_function_is_met_by_its_call():
    tool = Formatter(str.upper)
    tool.words = shout = lambda order: order.upper()
    first, second, written, _ = both(lambda: tool("a-1"), tool)
    assert (first, second, written) == ("A-1", "A-1", 1)
    assert shout.__code__.co_name == "<lambda>"


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
        (42, r"^\[AR-REDIRECT\] .* is a int, and no tool"),
        (types.SimpleNamespace(entrypoint=inspect.getdoc), r"does its work, as in shop\.thing\.entrypoint$"),
        (old_style, "old-style coroutine"),
    ],
)
def test_what_cannot_be_met_is_refused_with_what_to_do(given, says):
    with pytest.raises(CannotRedirect, match=says):
        redirect(Tool("shop.thing", given))


def test_an_object_that_holds_a_librarys_wrapper_is_the_function_that_the_wrapper_shows():
    def refund(order):
        yield order

    tool = types.SimpleNamespace(entrypoint=contextlib.contextmanager(refund))
    assert functions_behind(tool) == [tool.entrypoint, refund]


SHOP_TOOLS = """
import functools, json
from json import dumps
def refund(order): return order
def lookup_order(n): return n
@functools.lru_cache
def cached(n): return n
def _private(): pass
class Shop:
    def refund(self, order): return order
    @staticmethod
    def fee(n): return n
class Vip(Shop):
    def refund(self, order): return order
SHOP = Shop()
handler = functools.partial(refund, 1)
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    package = tmp_path / "shopfixture"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text(SHOP_TOOLS)
    (package / "broken.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "shopfixture"
    for name in [name for name in sys.modules if name.startswith("shopfixture")]:
        del sys.modules[name]


def test_paths_name_tools_that_can_be_redirected(shop):
    for path, names in {
        "refund": ["refund"],
        "Shop.refund": ["Shop.refund", "Vip.refund"],
        "Shop.fee": ["Shop.fee"],
        "SHOP.refund": ["SHOP.refund"],
        "handler": ["handler"],
        "*": ["refund", "lookup_order", "cached"],
        "Shop.*": ["Shop.refund", "Shop.fee"],
    }.items():
        tools = find(f"{shop}.tools.{path}")
        assert [name for name, _ in tools] == [f"{shop}.tools.{name}" for name in names]
        for name, function in tools:
            redirect(Tool(name, function)).restore()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("shopfixture.tools.refnd", r"shopfixture.tools has no refnd; did you mean refund\?"),
        ("shopfixture.tools.Shop.refnd", r"Shop has no refnd; did you mean refund\?"),
        ("shopfixture.tols.refund", "shopfixture has no tols"),
        ("shopfixture.tools.Shop", "is a class; name the method that reaches out, as in shopfixture.tools.Shop.refund"),
        ("shopfixture.tools.json", "is a module, and no tool"),
        ("shopfixture.broken.tool", "importing shopfixture.broken failed: No module named 'not_there_at_all'"),
        ("shopfixture.*", "defines no public function"),
        ("refund", r"module\.function"),
        ("no_such_shop.refund", "there is no module no_such_shop"),
    ],
)
@pytest.mark.usefixtures("shop")
def test_a_path_that_names_nothing_says_what_is_near(path, says):
    with pytest.raises(CannotRedirect, match=says):
        find(path)
