"""A read tool's call made for real beside its recorded answer: the original runs, the agent gets what was recorded.

What the original returns is compared, and goes nowhere else. Generators run in step: each item that is asked for is
asked of both.
"""

from __future__ import annotations

import contextlib
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, cast

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session.session_parts import Observations
from pytest_agentreplay.intercept.tools.tool_recording import ToolRecording
from pytest_agentreplay.intercept.tools.tool_replaying import ToolReplaying
from pytest_agentreplay.model.exchanges import ToolReply
from pytest_agentreplay.values.failure import failure_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterator

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.intercept.tools.results import ToolResults
    from pytest_agentreplay.model.exchanges import Outcome


class VerifiedCall:
    """The interception and the intercepted call around the real one, whose outcome is compared and need not be kept."""

    def __init__(self, intercepted: PendingCall) -> None:
        """`intercepted` is the one that was answered."""
        self._intercepted = intercepted
        self.partial: Callable[[], Outcome] | None = None
        self.observed = Observations()  # what cannot be kept is compared by its class, and then differs

    def inside(self) -> contextlib.AbstractContextManager[None]:
        """A block whose calls are children of this call."""
        return self._intercepted.inside()

    def note_first_byte(self) -> None:
        """Nobody times it."""

    async def wait(self, chunks: int = 0) -> None:
        """It comes when it comes."""

    def wait_in_thread(self, chunks: int = 0, *, at_once: bool = False) -> None:
        """It comes when it comes."""

    def hold_in_thread(self) -> None:
        """Nobody waits for it."""

    def settle(self, outcome: Outcome, *, suspended: bool = False) -> None:
        """Compare what came."""
        del suspended
        self._intercepted.compare_outcome(outcome)


class ToolVerifying:
    """One answered call of one read tool, with the real one beside it; used like a Recording."""

    __slots__ = ("_intercepted", "_live", "_recorded", "awaitable")

    def __init__(
        self, interception: Interception, intercepted: PendingCall, results: ToolResults, *, awaitable: bool
    ) -> None:
        """`awaitable` says that a call of the plain function has to be awaited."""
        trial = VerifiedCall(intercepted)
        self._intercepted = intercepted
        self._live = ToolRecording(cast("Interception", trial), cast("PendingCall", trial), results)
        self._recorded = ToolReplaying(interception, intercepted, results)
        self.awaitable = awaitable

    def call(self, run: Callable[[], Any]) -> Any:
        """Run a plain function. What it gives to be awaited or consumed goes in step with what was recorded."""
        __tracebackhide__ = True
        live: Any = None
        with _unseen():
            live = self._live.call(run)
        try:
            recorded = self._recorded.call(awaitable=self.awaitable)
        except BaseException:
            self._leave(live)
            raise
        if type(recorded) is CoroutineType and type(live) is CoroutineType:
            return self._await_both(live, recorded)
        if type(recorded) is GeneratorType and type(live) is GeneratorType:
            return self._flow(live, recorded)
        if type(recorded) is AsyncGeneratorType and type(live) is AsyncGeneratorType:
            return self._async_flow(live, recorded)
        self._leave(live)
        return recorded

    async def wait(self, coroutine: Any) -> Any:
        """Run a coroutine."""
        __tracebackhide__ = True
        return await self._await_both(self._live.wait(coroutine), self._recorded.wait())

    def flow(self, generator: Any) -> Generator[Any, Any, Any]:
        """Run a generator."""
        __tracebackhide__ = True
        return self._flow(self._live.flow(generator), self._recorded.flow())

    def async_flow(self, generator: Any) -> AsyncGenerator[Any, Any]:
        """Run an async generator."""
        __tracebackhide__ = True
        return self._async_flow(self._live.async_flow(generator), self._recorded.async_flow())

    @staticmethod
    async def _await_both(live: Any, recorded: Any) -> Any:
        __tracebackhide__ = True
        try:
            with _unseen():
                await live
        except BaseException:
            recorded.close()
            raise
        return await recorded

    @staticmethod
    def _flow(live: Any, recorded: Any) -> Generator[Any, Any, Any]:
        __tracebackhide__ = True
        way, value = "send", None
        try:
            while True:
                with _unseen():
                    getattr(live, way)(value)
                try:
                    item = getattr(recorded, way)(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    way, value = "send", (yield item)
                except GeneratorExit:
                    raise
                except BaseException as error:  # thrown in by the consumer
                    way, value = "throw", error
        finally:
            with _unseen():
                live.close()
            recorded.close()

    @staticmethod
    async def _async_flow(live: Any, recorded: Any) -> AsyncGenerator[Any, Any]:
        __tracebackhide__ = True
        way, value = "asend", None
        try:
            while True:
                with _unseen():
                    await getattr(live, way)(value)
                try:
                    item = await getattr(recorded, way)(value)
                except StopAsyncIteration:
                    return
                try:
                    way, value = "asend", (yield item)
                except GeneratorExit:
                    raise
                except BaseException as error:  # thrown in by the consumer
                    way, value = "athrow", error
        finally:
            with _unseen():
                await live.aclose()
            await recorded.aclose()

    def _leave(self, live: Any) -> None:
        """Drop what the original gave to be awaited or consumed, where the recorded one gave a value, or raised."""
        if type(live) in {CoroutineType, GeneratorType, AsyncGeneratorType}:
            self._intercepted.compare_outcome(ToolReply({"$opaque": type(live).__name__}))
            if not isinstance(live, AsyncGeneratorType):
                live.close()


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """What the original raises was compared already, and the agent gets the recorded outcome; a refusal goes on."""
    try:
        yield
    except ReplayDiverged:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or failure_of(error).cancelled:
            raise
