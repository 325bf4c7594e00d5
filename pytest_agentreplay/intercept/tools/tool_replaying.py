"""A tool's call answered from the recording: values made anew, exceptions raised again, generators item by item.

Nothing here can reach an original. A call that never ended, or that its caller gave up, waits to be given up again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.errors import CannotFreeze, ReplayDiverged
from pytest_agentreplay.intercept.session.callers import find_agents_line
from pytest_agentreplay.intercept.tools.results import GeneratorInput
from pytest_agentreplay.intercept.tools.tool_recording import AWAITED, DecidedCall
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Failure, ToolReply
from pytest_agentreplay.model.release_order import END

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from pytest_agentreplay.model.exchanges import JsonObject


class ToolReplaying(DecidedCall):
    """One answered call of one tool."""

    __slots__ = ()

    def call(self, *, awaitable: bool) -> Any:
        """What a plain function gives; `awaitable` says that a call of it has to be awaited."""
        __tracebackhide__ = True
        if self.intercepted.unfinished:
            return self.wait() if awaitable else self._block()
        outcome = self.intercepted.outcome
        if isinstance(outcome, ToolReply):
            awaited = isinstance(outcome.value, dict) and outcome.value.keys() == {AWAITED}
            if outcome.items is not None:
                return self.async_flow() if awaited else self.flow()
            if awaited:
                return self.wait()
        self.intercepted.wait_in_thread()
        return self._value(self._reply())

    async def wait(self) -> Any:
        """What a coroutine function gives when it is awaited."""
        __tracebackhide__ = True
        if self.intercepted.unfinished:
            await self._for_ever()
        await self.intercepted.wait()
        reply = self._reply()
        if reply.items is not None:
            self._report_change("a generator", "a coroutine function")
        return self._value(reply)

    def flow(self) -> Generator[Any, Any, Any]:
        """The items of a generator, as far as they were asked for."""
        __tracebackhide__ = True
        if self.intercepted.unfinished:
            self._block()
        if not isinstance(self.intercepted.outcome, ToolReply):
            self.intercepted.wait_in_thread()
        reply = self._reply()
        if reply.items is None:
            self._report_change("a function", "a generator")
        sent = GeneratorInput(self.intercepted, self.interception.redactor)
        try:
            for number, data in enumerate(reply.items, 1):
                self.intercepted.wait_in_thread(number)
                item = self.results.load_item(self.interception, data)
                try:
                    received = yield item
                except GeneratorExit:
                    self._report_early_close(number, reply)
                    raise
                except Exception as error:
                    # The recorded generator either went on after it, or its failure is what comes next.
                    self._compare(sent, number, self.results.freeze_thrown(number, error))
                    if number == len(reply.items) and reply.failure is None:
                        raise
                else:
                    self._compare(sent, number, *self.results.freeze_sent(number, received))
            self.intercepted.wait_in_thread(_count_items(reply))
            self._end(reply)
            return self.results.load_end(self.interception, reply.value)
        finally:
            self.intercepted.finish()

    async def async_flow(self) -> AsyncGenerator[Any, Any]:
        """The items of an async generator, as far as they were asked for."""
        __tracebackhide__ = True
        if self.intercepted.unfinished:
            await self._for_ever()
        if not isinstance(self.intercepted.outcome, ToolReply):
            await self.intercepted.wait()
        reply = self._reply()
        if reply.items is None:
            self._report_change("a function", "an async generator")
        sent = GeneratorInput(self.intercepted, self.interception.redactor)
        try:
            for number, data in enumerate(reply.items, 1):
                await self.intercepted.wait(number)
                item = self.results.load_item(self.interception, data)
                try:
                    received = yield item
                except Exception as error:
                    self._compare(sent, number, self.results.freeze_thrown(number, error))
                    if number == len(reply.items) and reply.failure is None:
                        raise
                except BaseException as error:
                    # An event loop that shuts down cancels the `aclose` of a generator that was left by `break`.
                    if self.results.freeze_error(error).cancelled:
                        self._report_early_close(number, reply)
                    raise
                else:
                    self._compare(sent, number, *self.results.freeze_sent(number, received))
            if reply.failure is not None and reply.failure.cancelled:
                await self.intercepted.abandon()
            await self.intercepted.wait(_count_items(reply))
            self._end(reply)
        finally:
            self.intercepted.finish()

    def _reply(self) -> ToolReply:
        """The recorded reply; raises the recorded failure of a call that had none."""
        outcome = self.intercepted.outcome
        if isinstance(outcome, ToolReply):
            return outcome
        self.intercepted.finish()
        if isinstance(outcome, Failure):
            self._fail(outcome)
        raise ReplayDiverged(f"what is recorded for {self.results.name} is no reply of a function")

    def _value(self, reply: ToolReply) -> Any:
        self.intercepted.finish()
        if reply.failure is not None:
            self._fail(reply.failure)
        awaited = isinstance(reply.value, dict) and reply.value.keys() == {AWAITED}
        return self.results.load_result(self.interception, reply.value[AWAITED] if awaited else reply.value)  # type: ignore[call-overload,index]

    def _end(self, reply: ToolReply) -> None:
        """What came after the last item, unless it was the end."""
        if reply.failure is not None:
            self._fail(reply.failure)
        if reply.closed:
            assert reply.items is not None
            self._part(
                f"item {len(reply.items) + 1} was asked for; in the recording nobody went beyond {len(reply.items)}"
            )

    def _compare(self, sent: GeneratorInput, number: int, now: JsonObject | None = None) -> None:
        """Compare what the consumer gave back for an item."""
        if difference := sent.difference(number, now):
            self._part(difference, Kind.ARGS)

    def _report_early_close(self, number: int, reply: ToolReply) -> None:
        """Report a consumer that closes the generator early. Latched only, since nobody catches it here."""
        assert reply.items is not None
        given_up = reply.failure is not None and reply.failure.cancelled  # while the next item was waited for
        if reply.sent is None or self.interception.is_over():
            return
        if number == len(reply.items) and (reply.closed or given_up):
            return
        end = f"{len(reply.items)} items" if reply.closed else "its end"
        divergence = Divergence(
            Kind.ARGS, f"{self.results.name}: closed after item {number}; in the recording after {end}"
        )
        self.interception.latch(divergence, find_agents_line(self.interception.root))

    def _fail(self, failure: Failure) -> NoReturn:
        __tracebackhide__ = True
        try:
            error = self.results.make_error(failure)
        except CannotFreeze as misfit:
            name = self.results.name
            text = f"the recorded failure of {name} cannot be made again: {misfit}; record the test again"
            self.interception.observed.problems.append(CannotFreeze(text, path=misfit.path, kind=misfit.kind))
            raise ReplayDiverged(text) from misfit
        raise error

    def _report_change(self, was: str, now: str) -> NoReturn:
        self._part(f"it is {now} now, and was {was} when it was recorded: record the test again")

    def _block(self) -> NoReturn:
        """Hold a thread until the test ends, as the recorded call did; the test's own thread cannot wait for that."""
        if self.intercepted.can_wait():
            self.intercepted.abandon_in_thread()
        self._part("it never ended when it was recorded, so there is nothing to give back")

    async def _for_ever(self) -> None:
        """Wait to be given up again."""
        try:
            await self.intercepted.abandon()
        finally:
            self.intercepted.finish()

    def _part(self, summary: str, kind: Kind = Kind.EXTRA) -> NoReturn:
        self.interception.refuse(Divergence(kind, f"{self.results.name}: {summary}"))


def _count_items(reply: ToolReply) -> int:
    """Return how far a generator came: to its end, or as far as its consumer took it."""
    return len(reply.items or ()) if reply.closed else END
