"""`@capture.run("refund")`: each call of a function is a run, its arguments the input, what it returns the output."""

from __future__ import annotations

import functools
import inspect
from contextlib import suppress
from contextvars import Context, Token, copy_context
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT, CallContext
from pytest_agentreplay.runs.capture.fail_open import never_raising
from pytest_agentreplay.runs.capture.freezing import freeze_call, freeze_value
from pytest_agentreplay.runs.capture.runs import CapturedRun, open_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_agentreplay.model.exchanges import Json

F = TypeVar("F", bound="Callable[..., Any]")

MOST_ITEMS = 10_000
"""Items of a generator that are kept; of one that yields more, none is."""


class SteppedRun:
    """A run whose code runs in steps, each a `with` block: between two, the context is that of whoever takes them."""

    captures = False
    run: CapturedRun
    _context: Context | None = None
    _items: list[Json] | None = None
    _is_whole = True
    _lane: CallContext | None = None
    _token: Token[CallContext | None] | None = None

    @never_raising()
    def begin(self, run: CapturedRun) -> None:
        """Begin `run`."""
        context = copy_context()  # a token is reset in the context where it was made
        context.run(run.__enter__)
        if run.captures:
            lane = context.get(CALL_CONTEXT)
            self._lane = None if lane is CALL_CONTEXT.get() else lane  # None in a part of another run
            self.run, self._context, self.captures = run, context, True

    @never_raising()
    def __enter__(self) -> None:
        if self._lane is not None:
            self._token = CALL_CONTEXT.set(self._lane)

    @never_raising()
    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        token, self._token = self._token, None
        if token is not None:
            self._lane = CALL_CONTEXT.get()
            with suppress(ValueError):  # what the garbage collector closes, it closes in a context of its own
                CALL_CONTEXT.reset(token)
        if error is not None and not isinstance(error, StopIteration | StopAsyncIteration):
            self.end(error)

    @never_raising()
    def keep(self, item: object) -> None:
        """Keep an item of the output."""
        if self.captures and self._is_whole:
            self._items = items = self._items or []
            items.append(freeze_value("item", item)[0])
            self._is_whole = len(items) <= MOST_ITEMS and (items[-1] is not None or item is None)

    @never_raising()
    def finish(self, output: object) -> None:
        """Note the output, and end the run."""
        if self.captures:
            self.run.output(output)
        self.end()

    @never_raising()
    def end(self, error: BaseException | None = None) -> None:
        """End the run, by `error` if there is one. A second time nothing happens."""
        context, self._context = self._context, None
        if context is not None:
            if self._items is not None and self._is_whole:
                self.run.output(self._items)
            context.run(self.run.__exit__, type(error) if error else None, error, error and error.__traceback__)


@never_raising()
def begin_call(
    steps: SteppedRun, name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Begin the run of one call of a function."""
    steps.begin(open_run(name))
    with suppress(TypeError):  # the function itself says what is wrong with its arguments
        if steps.captures:
            steps.run.take_input(*freeze_call(signature, args, kwargs))


def decorate(name: str, function: F) -> F:
    """Return `function` with each of its calls a run. Whoever looks at it sees what it was."""
    if isinstance(function, staticmethod | classmethod):
        return cast("F", type(function)(decorate(name, function.__func__)))
    signature = inspect.signature(function)
    captured: Callable[..., Any]
    if inspect.isasyncgenfunction(function):

        async def captured(*args: Any, **kwargs: Any) -> Any:
            begin_call(steps := SteppedRun(), name, signature, args, kwargs)
            generator = function(*args, **kwargs)
            step = generator.asend(None)
            while True:
                try:
                    with steps:
                        item = await step
                except StopAsyncIteration:
                    steps.end()
                    return
                steps.keep(item)
                try:
                    step = generator.asend((yield item))
                except BaseException as error:
                    step = generator.athrow(error)

    elif inspect.isgeneratorfunction(function):

        def captured(*args: Any, **kwargs: Any) -> Any:
            begin_call(steps := SteppedRun(), name, signature, args, kwargs)
            generator = function(*args, **kwargs)
            step = functools.partial(next, generator)
            while True:
                try:
                    with steps:
                        item = step()
                except StopIteration as stop:
                    steps.end()
                    return stop.value
                steps.keep(item)
                try:
                    step = functools.partial(generator.send, (yield item))
                except BaseException as error:
                    step = functools.partial(generator.throw, error)

    elif inspect.iscoroutinefunction(function):

        async def captured(*args: Any, **kwargs: Any) -> Any:
            begin_call(steps := SteppedRun(), name, signature, args, kwargs)
            with steps:
                result = await function(*args, **kwargs)
            steps.finish(result)
            return result

    else:

        def captured(*args: Any, **kwargs: Any) -> Any:
            begin_call(steps := SteppedRun(), name, signature, args, kwargs)
            with steps:
                result = function(*args, **kwargs)
            steps.finish(result)
            return result

    return cast("F", functools.wraps(function)(captured))
