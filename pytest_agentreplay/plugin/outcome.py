"""A refusal as an outcome that pytest knows, so that it ends a test and leaves nothing of it behind.

pytest, and runners like anyio's, clean up after `Exception` and their own outcomes. After any other BaseException a
fixture that was refused in its set-up breaks the next test that uses it, finalizers are skipped, anyio's runner ends.
"""

from __future__ import annotations

import bdb
import functools
import inspect
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

# What pytest takes for the outcome of a test: no public name (https://github.com/pytest-dev/pytest/issues/7469), and
# the one that anyio's runner asks for as well.
from _pytest.outcomes import OutcomeException

from pytest_agentreplay import errors
from pytest_agentreplay.plugin.report_redaction import chain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    import pytest

PASSES = (Exception, OutcomeException, KeyboardInterrupt, GeneratorExit, bdb.BdbQuit)
"""What pytest handles, and what ends more than a test."""


class ReplayDiverged(errors.ReplayDiverged, OutcomeException):
    """A refusal while pytest runs. Still no `Exception`: agents do not catch it by mistake."""


def install() -> None:
    """Have refusals be outcomes from now on."""
    errors.ReplayDiverged.outcome = ReplayDiverged


@contextmanager
def unwrapped() -> Generator[None]:
    """Raise a refusal as itself where a group (task groups, nurseries) or `SystemExit` stands around it."""
    try:
        yield
    except PASSES:
        raise
    except BaseException as raised:
        refusal = next((error for error in chain(raised, set()) if isinstance(error, ReplayDiverged)), None)
        if refusal is None:
            raise
        raise refusal from None


@contextmanager
def refusals_unwrapped(fixturedef: pytest.FixtureDef[Any]) -> Generator[None]:
    """Have the fixture raise a refusal as itself, in its set-up and in its teardown; the set-up is this block."""
    install()
    function = fixturedef.func
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        yield
        return
    around = wrap(plain)
    fixturedef.func = MethodType(around, function.__self__) if isinstance(function, MethodType) else around  # type: ignore[misc]
    try:
        yield
    finally:
        fixturedef.func = function  # type: ignore[misc]


def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, of whatever kind, with `unwrapped` around its body. Async runners look at the kind."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def of_async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any]:
            values = function(*args, **kwargs)
            with unwrapped():
                try:
                    async for value in values:
                        yield value
                finally:
                    await values.aclose()

        return of_async_generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def of_coroutine(*args: Any, **kwargs: Any) -> Any:
            with unwrapped():
                return await function(*args, **kwargs)

        return of_coroutine
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def of_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            with unwrapped():
                yield from function(*args, **kwargs)

        return of_generator

    @functools.wraps(function)
    def of_function(*args: Any, **kwargs: Any) -> Any:
        with unwrapped():
            return function(*args, **kwargs)

    return of_function
