"""A tool's call let through: the original runs, its outcome is frozen and settled, the agent gets the real thing.

A result is frozen before the agent has it, because the agent may change it; items of generators as they flow.

A coroutine runs step by step (`stepped`), so that the calls that it makes are known to happen inside its own
exchange. The mark "inside" is set and taken off within each step. Set once for the whole of it, it would leak to
whoever runs between two steps (the consumer of a generator), and could not be taken off by another context (a dropped
coroutine).
"""

from __future__ import annotations

import types
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Protocol

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.model.release_order import END

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractContextManager

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.tools.results import ToolResults
    from pytest_agentreplay.model.exchanges import Json


class StepWatch:
    """Whether what was run gave way to others at least once."""

    __slots__ = ("suspended",)

    def __init__(self) -> None:
        """It has not begun."""
        self.suspended = False


class Surrounding(Protocol):
    """A call, or what stands for one, around the code that runs for it."""

    def inside(self) -> AbstractContextManager[None]:
        """A block whose calls are children of this call."""


@types.coroutine
def run_stepwise(intercepted: Surrounding, coroutine: Any, watch: StepWatch | None = None) -> Generator[Any, Any, Any]:
    """Await `coroutine` (or one step of an async generator) as if inside `intercepted`.

    What it marks itself meanwhile, an exchange inside this one, it finds again in its next step.
    """
    watch = watch or StepWatch()
    step, sent = coroutine.send, None
    mark: lanes.CallContext | None = None
    while True:
        try:
            with intercepted.inside():
                if mark is not None:
                    lanes.CALL_CONTEXT.set(mark)
                beat = step(sent)
                mark = lanes.CALL_CONTEXT.get()
        except StopIteration as stop:
            return stop.value
        watch.suspended = True
        try:
            sent = yield beat
        except GeneratorExit:
            with intercepted.inside():
                lanes.CALL_CONTEXT.set(mark)
                coroutine.close()
            raise
        except BaseException as error:  # thrown in by the event loop: a cancellation mostly
            step, sent = coroutine.throw, error
        else:
            step = coroutine.send


AWAITED = "$awaited"
"""Key of the value of a plain function that gave a coroutine or an async generator: {"$awaited": value}."""


class DecidedCall:
    """One call of one tool, after the decision of the backend: forwarded, answered, or left `unfinished`."""

    __slots__ = ("intercepted", "interception", "results")

    def __init__(self, interception: Interception, intercepted: PendingCall, results: ToolResults) -> None:
        self.interception = interception
        self.intercepted = intercepted
        self.results = results


class ToolRecording(DecidedCall):
    """One forwarded call of one tool, settled by whichever method runs the original."""

    __slots__ = ()

    def call(self, run: Callable[[], Any]) -> Any:
        """Run a plain function. A coroutine or generator that it gives is followed to its end."""
        __tracebackhide__ = True
        try:
            with self.intercepted.inside():
                result = run()
        except ReplayDiverged:
            raise
        except BaseException as error:
            self.intercepted.hold_in_thread()
            self.intercepted.settle(self.results.freeze_error(error))
            raise
        kind = type(result)
        if kind is CoroutineType:
            return self.wait(result, awaited=True)
        if kind is GeneratorType:
            return self.flow(result)
        if kind is AsyncGeneratorType:
            return self.async_flow(result, awaited=True)
        with self.intercepted.inside():  # expired columns of a row are loaded
            value = self.results.freeze_result(self.interception, result)
        self.intercepted.hold_in_thread()
        self.intercepted.settle(ToolReply(value))
        return result

    async def wait(self, coroutine: Any, *, awaited: bool = False) -> Any:
        """Run a coroutine. `awaited` says that a plain function gave it."""
        __tracebackhide__ = True
        watch = StepWatch()
        try:
            result = await _in_turn(self.intercepted, coroutine, watch)
        except ReplayDiverged:
            raise
        except BaseException as error:
            failure = self.results.freeze_error(error)
            # Who gave up is a matter of the exchange, whatever kind of function it was.
            outcome = ToolReply({AWAITED: None}, failure=failure) if awaited and not failure.cancelled else failure
            self.intercepted.settle(outcome, suspended=watch.suspended)
            raise
        value = self.results.freeze_result(self.interception, result)
        self.intercepted.settle(ToolReply({AWAITED: value} if awaited else value), suspended=watch.suspended)
        return result

    def flow(self, generator: Any) -> Generator[Any, Any, Any]:
        """Run a generator between its consumer and us."""
        __tracebackhide__ = True
        items: list[Json] = []
        inputs: list[Json] = []
        intercepted = self.intercepted

        def so_far(value: Json = None, *, failure: Failure | None = None, closed: bool = False) -> ToolReply:
            return ToolReply(value, tuple(items), failure, closed, tuple(inputs))

        intercepted.partial = lambda: so_far(closed=True)
        step, sent = generator.send, None
        while True:
            try:
                with intercepted.inside():
                    item = step(sent)
            except StopIteration as stop:
                intercepted.settle(so_far(self.results.freeze_end(self.interception, stop.value)))
                return stop.value
            except ReplayDiverged:
                raise
            except BaseException as error:
                intercepted.settle(so_far(failure=self.results.freeze_error(error)))
                raise
            items.append(self.results.freeze_item(self.interception, item))
            intercepted.note_first_byte()
            intercepted.wait_in_thread(len(items))
            try:
                sent = yield item
            except GeneratorExit:
                with intercepted.inside():
                    generator.close()
                intercepted.settle(intercepted.partial())
                raise
            except BaseException as error:  # thrown in by the consumer
                step, sent = generator.throw, error
                inputs.append(self.results.freeze_thrown(len(items), error))
            else:
                step = generator.send
                inputs += self.results.freeze_sent(len(items), sent)

    async def async_flow(self, generator: Any, *, awaited: bool = False) -> AsyncGenerator[Any, Any]:
        """Run an async generator between its consumer and us. `awaited` says that a plain function gave it."""
        __tracebackhide__ = True
        items: list[Json] = []
        inputs: list[Json] = []
        intercepted, watch = self.intercepted, StepWatch()

        def so_far(*, failure: Failure | None = None, closed: bool = False) -> ToolReply:
            return ToolReply({AWAITED: None} if awaited else None, tuple(items), failure, closed, tuple(inputs))

        waiting = True
        intercepted.partial = lambda: (
            so_far(failure=Failure("builtins.GeneratorExit")) if waiting else so_far(closed=True)
        )
        thrown: BaseException | None = None
        step = generator.asend(None)
        while True:
            try:
                try:
                    item = await _in_turn(intercepted, step, watch, len(items) + 1)
                except StopAsyncIteration:
                    intercepted.settle(so_far(), suspended=watch.suspended)
                    return
                items.append(self.results.freeze_item(self.interception, item))
                intercepted.note_first_byte()
                waiting = False
            except ReplayDiverged:
                raise
            except BaseException as error:
                failure = self.results.freeze_error(error)
                # An event loop that shuts down cancels generators that were left by `break`, instead of closing them.
                left = error is thrown and failure.cancelled
                intercepted.settle(so_far(closed=True) if left else so_far(failure=failure), suspended=watch.suspended)
                if failure.cancelled:
                    await generator.aclose()  # given up while an item of it waited for its turn
                raise
            try:
                sent = yield item
            except GeneratorExit:
                await run_stepwise(intercepted, generator.aclose(), watch)
                intercepted.settle(so_far(closed=True), suspended=watch.suspended)
                raise
            except BaseException as error:  # thrown in by the consumer
                thrown, step = error, generator.athrow(error)
                if isinstance(error, Exception):
                    inputs.append(self.results.freeze_thrown(len(items), error))
            else:
                step = generator.asend(sent)
                inputs += self.results.freeze_sent(len(items), sent)
            waiting = True


async def _in_turn(intercepted: PendingCall, coroutine: Any, watch: StepWatch, chunks: int = END) -> Any:
    """Await `coroutine`; what comes of it, a failure too, comes in its turn. Who gives up waits no more."""
    __tracebackhide__ = True
    try:
        result = await run_stepwise(intercepted, coroutine, watch)
    except Exception:
        if watch.suspended:
            await intercepted.wait()
        raise
    if watch.suspended:
        await intercepted.wait(chunks)
    else:
        intercepted.wait_in_thread(chunks, at_once=True)
    return result
