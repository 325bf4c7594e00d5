"""Callbacks that outlive the test that registered them: of `atexit`, `weakref.finalize`, jobs and `multiprocessing`.

Nothing at the time of the call says whose they are. So they carry their test from where they are registered, and what
they call after its end is refused and reported on it, as for threads.

What the interpreter would say about refusals that nobody caught: nothing, since the report says it once and better.

A refusal ends threads, dropped tasks and finalizers, and each of these has a way of its own to print a traceback. The
backend has latched the divergence before any of them is heard.
"""

from __future__ import annotations

import atexit
import functools
import sys
import threading
import weakref
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session import lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from types import ModuleType

    Current = Callable[[], lanes.LaneOwner | None]
    Refusing = Callable[[Any], AbstractContextManager[None]]
    import logging
    from collections.abc import Callable

_owners: dict[weakref.finalize[Any, Any], lanes.CallContext] = {}
_installed: list[tuple[Current, Refusing]] = []


def install(current: Current, refusing: Refusing) -> None:
    """Note the test of each callback that is registered from now on. Doing it twice does nothing.

    `current` returns the test that runs, `refusing(test)` is a block in which the tools of an ended test are refused.
    """
    _installed[:] = [(current, refusing)]
    if getattr(atexit.register, "__agentreplay__", None) is lanes.CALL_CONTEXT:
        return
    from concurrent.futures import Future  # loads logging and queue, so only when a test needs it

    atexit.register = _carry_callback(atexit.register)
    if hasattr(threading, "_register_atexit"):  # Python 3.9 and later: https://github.com/python/cpython/pull/16866
        threading._register_atexit = _carry_callback(threading._register_atexit)
    Future.add_done_callback = _carry_done_callback(Future.add_done_callback)  # type: ignore[method-assign]
    _carry_finalizers(weakref.finalize)


def patch(module: ModuleType) -> None:
    """Note the test of each `Finalize` of `multiprocessing.util`."""
    init = module.Finalize.__init__
    if hasattr(init, "__agentreplay__"):
        return

    @functools.wraps(init)
    def run_stamped(self: Any, obj: Any, callback: Any, *args: Any, **kwargs: Any) -> None:
        owner = _find_owner()
        init(self, obj, callback if owner is None else ExitCallback(owner, callback), *args, **kwargs)

    run_stamped.__agentreplay__ = lanes.CALL_CONTEXT  # type: ignore[attr-defined]
    module.Finalize.__init__ = run_stamped


class ExitCallback:
    """A callback with the test that has registered it. Equal to the bare one, by which `atexit.unregister` finds it.

    The bare one is `__wrapped__`, as `functools.wraps` leaves it: `courses` reads from it which future it sets.
    """

    __slots__ = ("__wrapped__", "_owner")

    def __init__(self, owner: lanes.CallContext, function: Callable[..., Any]) -> None:
        self._owner = owner
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the callback, for a test that is over as what it left behind."""
        with run_after_test(self._owner):
            return self.__wrapped__(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return bool(self.__wrapped__ == (other.__wrapped__ if isinstance(other, ExitCallback) else other))

    def __hash__(self) -> int:
        return hash(self.__wrapped__)


@contextmanager
def run_after_test(owner: lanes.CallContext) -> Generator[None]:
    """A block that runs for a test that has ended. Nobody waits for it: a refusal has been reported, and ends here."""
    if not owner.interception.ending.over.is_set():
        yield
        return
    [(_, refusing)] = _installed
    token = lanes.CALL_CONTEXT.set(owner)
    try:
        with refusing(owner.interception):
            yield
    except ReplayDiverged:
        pass
    finally:
        lanes.CALL_CONTEXT.reset(token)


def _find_owner() -> lanes.CallContext | None:
    """Return the strand that registers a callback here. What a tool registers while it runs is the tool's own."""
    call_context = lanes.CALL_CONTEXT.get()
    if call_context is None and _installed and (interception := _installed[0][0]()) is not None:
        call_context = interception.main()
    return None if call_context is None or call_context.inside is not None else replace(call_context)


def _carry_callback(register: Callable[..., Any]) -> Callable[..., Any]:
    """`register`, of `atexit` or `threading`, that carries the test on."""

    @functools.wraps(register)
    def run_stamped(func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        owner = _find_owner()
        register(func if owner is None else ExitCallback(owner, func), *args, **kwargs)
        return func

    run_stamped.__agentreplay__ = lanes.CALL_CONTEXT  # type: ignore[attr-defined]
    return run_stamped


def _carry_done_callback(add: Callable[..., Any]) -> Callable[..., Any]:
    """`Future.add_done_callback`, that carries the test on: the callback runs when the job of the test is done."""

    @functools.wraps(add)
    def run_stamped(self: Any, fn: Callable[..., Any]) -> None:
        owner = _find_owner()
        add(self, fn if owner is None else ExitCallback(owner, fn))

    return run_stamped


def _carry_finalizers(finalize: Any) -> None:
    """Note the test of each `weakref.finalize`. What `peek` and `detach` return stays as it was given."""
    init, call, detach = finalize.__init__, finalize.__call__, finalize.detach

    @functools.wraps(init)
    def stamped_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if (owner := _find_owner()) is not None:
            _owners[self] = owner

    @functools.wraps(call)
    def stamped_call(self: Any, _: Any = None) -> Any:
        if (owner := _owners.pop(self, None)) is None:
            return call(self, _)
        with run_after_test(owner):
            return call(self, _)

    @functools.wraps(detach)
    def stamped_detach(self: Any) -> Any:
        _owners.pop(self, None)
        return detach(self)

    finalize.__init__, finalize.__call__, finalize.detach = stamped_init, stamped_call, stamped_detach


def install_excepthooks() -> None:
    """Quieten the hooks as they are now, and logs of threads that nobody awaits; what is not of ours passes.

    Doing it twice does nothing.
    """
    import logging

    for module, name in ((sys, "unraisablehook"), (threading, "excepthook")):
        hook = getattr(module, name)
        if not hasattr(hook, "__agentreplay__"):
            setattr(module, name, silence_refusals(hook))
    # The tracing of openai-agents logs whatever ends its exporter, with a traceback, in a thread that no test awaits.
    for name in ("asyncio", "openai.agents"):
        logging.getLogger(name).addFilter(is_worth_logging)


def silence_refusals(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`hook`, which takes something with an `exc_value`, without the consequences of a refusal."""

    @functools.wraps(hook)
    def quiet(arguments: Any) -> Any:
        return None if is_due_to_refusal(arguments.exc_value) else hook(arguments)

    quiet.__agentreplay__ = True  # type: ignore[attr-defined]
    return quiet


def is_worth_logging(record: logging.LogRecord) -> bool:
    """Whether a log record is of anything but a refusal: "Task exception was never retrieved" and its like."""
    return not (record.exc_info and is_due_to_refusal(record.exc_info[1]))


def is_due_to_refusal(error: BaseException | None) -> bool:
    """Whether `error` is a refusal, a group of nothing else, or was raised because of one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ReplayDiverged):
            return True
        if isinstance(error, BaseExceptionGroup):
            return all(map(is_due_to_refusal, error.exceptions))
        error = error.__cause__ or error.__context__
    return False
