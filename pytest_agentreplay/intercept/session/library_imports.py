"""Requests that a library makes while it is imported: a price list, a look for a newer version.

A module is imported once in a process, so such a request would belong to whichever test imports the library first, and
another order of the tests would not replay. No test records or replays it: its connection is refused with an ordinary
OSError, and the library falls back on what it was installed with. A thread that the import has started is refused for
as long as it runs: litellm 1.106 asks for its price list three times, seconds apart, so also after the test has ended.
"""

from __future__ import annotations

import errno
import functools
import importlib
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agentreplay.intercept.session.origins import is_agents

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Refuse = Callable[[str, tuple[Any, ...], FrameType | None], None]
    """Takes an audit event, its arguments and its frame; raises OSError where it is refused."""

# Every loader of importlib runs a module's code by this function; it has no public name (CPython 3.11-3.14).
_RUNS_MODULES = importlib._bootstrap._call_with_frames_removed.__code__  # type: ignore[attr-defined]
_STARTED_BY: ContextVar[str] = ContextVar("agentreplay_library_import", default="")
_REFUSAL: ContextVar[Refuse | None] = ContextVar("agentreplay_library_import_refusal", default=None)
_find_refusal: list[Callable[[], Refuse | None]] = []


def library_importing(frame: FrameType | None) -> str:
    """Return the name of the library whose import has led to `frame`, or started its thread; "" where none has.

    A module of the project that is imported by a library is the project's.
    """
    if started_by := _STARTED_BY.get():
        return started_by
    while frame is not None:
        back = frame.f_back
        if frame.f_code.co_name == "<module>" and back is not None and back.f_code is _RUNS_MODULES:
            name = str(frame.f_globals.get("__name__", ""))
            return "" if is_agents(frame.f_code) else name.partition(".")[0]
        frame = back
    return ""


def run_for_import(library: str, work: Callable[..., Any]) -> Callable[..., Any]:
    """Return `work`, which a thread is to do that the import of `library` has started.

    What refuses the requests of the import refuses those of `work`, until it returns.
    """
    refusal = _REFUSAL.get() or next((refusal for find in _find_refusal if (refusal := find()) is not None), None)

    @functools.wraps(work)
    def run(*args: Any, **kwargs: Any) -> Any:
        library_token, refusal_token = _STARTED_BY.set(library), _REFUSAL.set(refusal)
        try:
            return work(*args, **kwargs)
        finally:
            _REFUSAL.reset(refusal_token)
            _STARTED_BY.reset(library_token)

    return run


def refuse_by(find: Callable[[], Refuse | None]) -> None:
    """Ask `find`, when an import starts a thread, for what refuses requests of imports at that time."""
    _find_refusal.append(find)


def refusal_of_thread() -> Refuse | None:
    """Return what refuses the requests of this thread; None unless an import has started it."""
    return _REFUSAL.get()


def refuse_connection(kind: str, library: str, target: str) -> NoReturn:
    """Raise the error of a network that is down, which every client turns into its own connection error."""
    why = f"agentreplay refuses {target}: {library} asks for it while it is imported, which is no part of a test"
    if kind == "lookup":
        raise socket.gaierror(socket.EAI_AGAIN, why)
    raise ConnectionRefusedError(errno.ECONNREFUSED, why)
