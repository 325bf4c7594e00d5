"""The guard around everything of ours that stands in the place of a function (`replacing.shield`).

It knows whether the real function was called, and what came of it. Where our code raises what the real function did
not, the caller gets what that gave, and if it was not called, it is called now. Generators and coroutines go on from
where they are.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import AsyncGeneratorType, CoroutineType
from typing import Any

from pytest_agentreplay.intercept.session import interceptions, lanes
from pytest_agentreplay.runs.capture.fail_open import FAULTS, note_fault


def choose(make: Callable[..., Any], real: Callable[..., Any], always: bool) -> Callable[..., Any]:
    """Return what is called here: `make(real)` so that what it raises by itself never reaches the caller, or `real`."""
    context = lanes.CALL_CONTEXT.get()
    if context is None:
        if interceptions._running is None:
            return functools.partial(RealCall(real).run, make) if always else real
    elif getattr(context.interception, "is_capture", False):
        return functools.partial(RealCall(real).run, make)
    made: Callable[..., Any] = make(real)  # in a test that is recorded or replayed a refusal is no fault
    return made


class RealCall:
    """One call of a real function: whether it was made, and what came of it.

    Attributes:
        arguments: What it is called with where our code has not called it.
        error: What it raised, and so may be raised.
    """

    __slots__ = ("_called", "_ended", "_fault", "_real", "_resumed", "_source", "_value", "arguments", "error")

    def __init__(self, real: Callable[..., Any]) -> None:
        self._real = real
        self._called = self._ended = self._resumed = False
        self._value: Any = None
        self._source: Any = None
        self._fault: BaseException | None = None
        self.error: BaseException | None = None
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] = (), {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the real function, and note what comes of it."""
        return self.note(self._real, *args, **kwargs)

    def note(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call `function`, which does the work of the real one, and note what comes of it."""
        self._called = True
        try:
            value = function(*args, **kwargs)
        except BaseException as error:
            self.error = error
            raise
        name = getattr(function, "__name__", "")
        if isinstance(value, Coroutine):  # that of compiled code is none of CoroutineType
            value = self._source = self._note_wait(value)
        elif type(value) is AsyncGeneratorType or name == "__aiter__":
            take = functools.partial(self._note_async_step, value)
            value = self._source = AsyncItems(take) if name == "__aiter__" else flow(take)
        elif (hasattr(value, "__next__") and hasattr(value, "throw")) or name == "__iter__":
            value = self._source = self._note_steps(value)
        self._value = value
        return value

    def run(self, make: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run our code around the real function."""
        self.arguments = args, kwargs
        try:
            ours = make(self)(*args, **kwargs)
        except FAULTS as error:
            fault = error
        else:
            if ours is self._source:
                return ours
            if type(ours) is CoroutineType:
                return self._wait(ours)
            if type(ours) is AsyncGeneratorType:
                take = functools.partial(self._async_step, ours)
                return AsyncItems(take) if getattr(self._real, "__name__", "") == "__aiter__" else flow(take)
            if hasattr(ours, "__next__") and hasattr(ours, "throw"):
                return self._steps(ours)
            return ours
        return self._go_on(fault)

    def _go_on(self, fault: BaseException) -> Any:
        """Note a fault; return what the real function gave, or gives now. Raises what that raised."""
        if fault is self.error:
            raise fault
        note_fault(fault)
        if not self._called:
            args, kwargs = self.arguments
            return self(*args, **kwargs)
        if self.error is not None:
            raise self.error
        return self._value

    async def _note_wait(self, coroutine: Any) -> Any:
        try:
            self._value = await coroutine
        except BaseException as error:
            self.error = error
            raise
        self._ended = True
        return self._value

    async def _wait(self, ours: Any) -> Any:
        try:
            return await ours
        except FAULTS as error:
            fault = error
        value = self._go_on(fault)
        return await value if value is self._source and not self._ended else value

    def _note_steps(self, real: Any) -> Generator[Any, Any, Any]:
        step, sent = "send" if hasattr(real, "send") else "__next__", None
        while True:
            self._resumed = True
            try:
                self._value = real.__next__() if step == "__next__" else getattr(real, step)(sent)
            except StopIteration as end:
                self._value, self._ended = end.value, True
                return end.value
            except BaseException as error:
                self.error = error
                raise
            try:
                step, sent = "send", (yield self._value)
            except BaseException as error:
                step, sent = "throw", error

    def _steps(self, ours: Any) -> Generator[Any, Any, Any]:
        fault: BaseException | None
        source, step, sent = ours, "send", None
        while True:
            self._resumed, fault = False, None
            try:
                item = getattr(source, step)(sent)
            except StopIteration as end:
                return end.value
            except FAULTS as error:
                if source is not ours or error is self.error:
                    raise
                fault = error
            if fault is not None:
                item = self._go_on(fault)
                if self._ended:
                    return item
                source = self._source
                if not self._resumed:
                    continue
            try:
                step, sent = "send", (yield item)
            except BaseException as error:
                step, sent = "throw", error

    async def _note_async_step(self, real: Any, step: str, sent: Any) -> Any:
        self._resumed = True
        try:
            self._value = await (getattr(real, step)(sent) if hasattr(real, step) else real.__anext__())
        except StopAsyncIteration:
            self._ended = True
            raise
        except BaseException as error:
            self.error = error
            raise
        return self._value

    async def _async_step(self, ours: Any, step: str, sent: Any) -> Any:
        self._resumed, source = False, ours if self._fault is None else self._source
        try:
            return await (getattr(source, step)(sent) if hasattr(source, step) else source.__anext__())
        except FAULTS as error:
            if self._fault is not None or error is self.error or isinstance(error, StopAsyncIteration):
                raise
            self._fault = error
        item = self._go_on(self._fault)
        if self._ended:
            raise StopAsyncIteration
        return item if self._resumed else await self._async_step(ours, step, sent)


class AsyncItems:
    """What an async generator yields, for who only iterates: to drop it leaves the real one to be closed as ever."""

    def __init__(self, take: Callable[[str, Any], Coroutine[Any, Any, Any]]) -> None:
        self._take = take

    def __aiter__(self) -> AsyncItems:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Any]:
        return self._take("asend", None)


async def flow(take: Callable[[str, Any], Coroutine[Any, Any, Any]]) -> AsyncGenerator[Any, Any]:
    """Yield what `take` gives for what the consumer sends and throws."""
    step, sent = "asend", None
    while True:
        try:
            item = await take(step, sent)
        except StopAsyncIteration:
            return
        try:
            step, sent = "asend", (yield item)
        except BaseException as error:
            step, sent = "athrow", error
