"""`@capture.run(name)`: what of a call becomes the run, and what of the function stays as it was."""

import asyncio
import dataclasses
import gc
import inspect

import pytest

from pytest_agentreplay import capture
from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT
from tests.support.captured_files import capturing


@dataclasses.dataclass
class Order:
    number: int


class Shop:
    @capture.run("method")
    def answer(self, question, limit=3, **more):
        return {"question": question, "limit": limit, **more}

    @staticmethod
    @capture.run("inner static")
    def inner(question):
        return question

    @capture.run("outer static")
    @staticmethod
    def outer(question):
        return question

    @capture.run("outer class")
    @classmethod
    def of_class(cls, question):
        return question


@capture.run("async")
async def answer_later(question):
    await asyncio.sleep(0)
    return [question]


@capture.run("generator")
def stream(count):
    """Stream."""
    for number in range(count):
        assert (CALL_CONTEXT.get() is not None) == (count != 99)
        sent = yield number
        if sent:
            yield sent
    return "end"


@capture.run("async generator")
async def stream_later(count):
    try:
        for number in range(count):
            await asyncio.sleep(0)
            assert CALL_CONTEXT.get() is not None
            try:
                sent = yield number
            except ValueError:
                yield "caught"
            else:
                if sent:
                    yield sent
    finally:
        await asyncio.sleep(0)


def test_arguments_by_name_are_the_input_and_the_value_is_the_output(tmp_path):
    with capturing(tmp_path) as finish:
        history = ["first"]
        assert Shop().answer(history, tenant="t1") == {"question": ["first"], "limit": 3, "tenant": "t1"}
        history.append("later")
        assert [Shop.inner("a"), Shop().outer("b"), Shop.of_class("c")] == ["a", "b", "c"]
        assert asyncio.run(answer_later("d")) == ["d"]
    method, *others = finish()
    assert method.name == "method"
    assert method.arguments == {"question": ["first"], "limit": 3, "tenant": "t1"}
    assert method.kit["output"] == {"question": ["first"], "limit": 3, "tenant": "t1"}
    assert [(run.name, run.arguments, run.kit["output"]) for run in others] == [
        ("inner static", {"question": "a"}, "a"),
        ("outer static", {"question": "b"}, "b"),
        ("outer class", {"question": "c"}, "c"),
        ("async", {"question": "d"}, ["d"]),
    ]
    assert {run.cold for run in (method, *others)} == {""}
    assert {run.outcome["status"] for run in (method, *others)} == {"passed"}


def test_what_no_annotation_can_rebuild_makes_the_run_cold_and_is_neither_consumed_nor_lost(tmp_path):
    @capture.run("any")
    def take(value, /, *rest, **more):
        return value

    numbers = iter([1, 2])
    with capturing(tmp_path) as finish:
        for value in (numbers, Order(7), (1,), "x" * 300_000, object()):
            assert Shop().answer(value)["question"] is value
        take("positional")
        Shop.inner({"fine": [None, True, 1.5]})
    *cold, positional, fine = finish()
    typed = [run.kit["input"].get("typed") for run in cold]
    assert typed == [None, {"question": "tests.capture.test_decorated.Order"}, {"question": "tuple"}, None, None]
    assert list(numbers) == [1, 2]
    assert [run.cold for run in cold] == [
        "the argument question (list_iterator) is not JSON",
        "",
        "",
        "the argument question has 300,002 bytes as JSON, and 262,144 are kept",
        "the argument question (object) is not JSON",
    ]
    assert [run.arguments["question"] for run in cold[1:3]] == [{"number": 7}, [1]]
    assert positional.cold == "the argument value is positional, and a replay calls by name"
    assert (fine.cold, fine.arguments) == ("", {"question": {"fine": [None, True, 1.5]}})


def test_an_exception_fails_the_run_and_a_cancelled_or_closed_one_only_says_so(tmp_path):
    @capture.run("wait")
    async def wait():
        await asyncio.sleep(9)

    async def cancel():
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    @capture.run("fail")
    def fail(message):
        raise KeyError(message)

    with capturing(tmp_path) as finish:
        with pytest.raises(KeyError, match="no order"):
            fail("no order")
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'message'"):
            fail()
        asyncio.run(cancel())
        closed = stream(3)
        next(closed)
        closed.close()
        thrown = stream(3)
        next(thrown)
        with pytest.raises(ValueError, match="mine"):
            thrown.throw(ValueError("mine"))
        next(stream(3))
        gc.collect()
    runs = finish()
    assert [run.outcome.get("type", "passed") for run in runs] == [
        "KeyError", "TypeError", "passed", "passed", "ValueError", "passed",
    ]  # fmt: skip
    assert [run.kit.get("annotations", {}).get("ended") for run in runs] == [
        None, None, "cancelled", "closed", None, "closed",
    ]  # fmt: skip


def test_generators_keep_their_protocol_and_the_context_of_who_iterates(tmp_path):
    def iterate():
        steps = stream(3)
        assert next(steps) == 0
        assert CALL_CONTEXT.get() is None
        assert (steps.send("sent"), list(steps)) == ("sent", [1, 2])

    def delegate():
        return (yield from stream(1))

    async def iterate_later():
        steps = stream_later(3)
        assert await anext(steps) == 0
        assert CALL_CONTEXT.get() is None
        assert await steps.asend("sent") == "sent"
        assert await anext(steps) == 1
        assert await steps.athrow(ValueError()) == "caught"
        await steps.aclose()
        assert [item async for item in stream_later(2)] == [0, 1]

    with capturing(tmp_path) as finish:
        iterate()
        outer = delegate()
        next(outer)
        with pytest.raises(StopIteration) as stop:
            next(outer)
        assert stop.value.value == "end"
        asyncio.run(iterate_later())
    assert [run.kit["output"] for run in finish()] == [[0, "sent", 1, 2], [0], [0, "sent", 1, "caught"], [0, 1]]


def test_an_output_that_is_too_large_is_left_out_and_not_another_one(tmp_path):
    @capture.run("large")
    def answer(size):
        return "x" * size

    @capture.run("large items")
    def answer_in_parts(*sizes):
        yield from ("x" * size for size in sizes)

    with capturing(tmp_path) as finish:
        answer(300_000)
        for sizes in ((1, 300_000), (200_000, 200_000), [1] * 10_001):
            assert len(list(answer_in_parts(*sizes))) == len(sizes)
        answer(1)
    *large, small = finish()
    assert [run.kit.get("output", "none") for run in large] == ["none"] * 4
    assert small.kit["output"] == "x"


def test_a_decorated_function_looks_and_works_as_before_where_nothing_is_captured():
    assert (stream.__name__, stream.__doc__, str(inspect.signature(stream))) == ("stream", "Stream.", "(count)")
    assert inspect.isgeneratorfunction(stream)
    assert inspect.isasyncgenfunction(stream_later)
    assert inspect.iscoroutinefunction(answer_later)
    assert not inspect.iscoroutinefunction(Shop.answer)
    assert (list(stream(99))[-1], asyncio.run(answer_later("q"))) == (98, ["q"])


def test_a_recursive_function_is_one_run_and_concurrent_calls_are_many(tmp_path):
    @capture.run("recursive")
    def factorial(number):
        return 1 if number == 0 else number * factorial(number - 1)

    async def ask_all():
        return await asyncio.gather(*(answer_later(number) for number in range(20)))

    with capturing(tmp_path) as finish:
        assert factorial(5) == 120
        asyncio.run(ask_all())
    recursive, *others = finish()
    assert (recursive.arguments, recursive.kit["output"]) == ({"number": 5}, 120)
    assert sorted(run.arguments["question"] for run in others) == [*range(20)]
