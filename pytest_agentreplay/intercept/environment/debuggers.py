"""Debuggers at work in a run: how long somebody thought at a prompt, and which frames nobody means to step through.

Met in the classes that every debugger of Python shares: `pdb.Pdb` (`breakpoint()`, pytest's `--pdb` and `--trace`,
ipdb) and pydevd's `PyDB` (debugpy, VS Code, PyCharm). Only what is loaded is intercepted.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.backend import RecordBackend
from pytest_agentreplay.intercept.session import patching
from pytest_agentreplay.intercept.session.interceptions import find_interception
from pytest_agentreplay.intercept.session.patching import is_trampoline, wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

_TOOLS = __name__.replace("environment.debuggers", "tools.")


class Prompt:
    """How long the process has waited for somebody to type. A command that runs is not waiting."""

    def __init__(self) -> None:
        """Nobody has waited yet."""
        self._waited = 0
        self._since: int | None = None

    def time_waited(self) -> int:
        """Nanoseconds up to now."""
        since = self._since
        return self._waited + (clocks.monotonic_ns() - since if since is not None else 0)

    def during(self, work: Callable[..., Any], *, waits: bool) -> Callable[..., Any]:
        """`work`, a method of a debugger, which waits for somebody, or runs what they have typed."""

        def prompt(*args: Any, **kwargs: Any) -> Any:
            before = self._since is not None
            self._turn(waits=waits)
            try:
                return work(*args, **kwargs)
            finally:
                self._turn(waits=before)

        return prompt

    def _turn(self, *, waits: bool) -> None:
        self._waited, self._since = self.time_waited(), clocks.monotonic_ns() if waits else None


PROMPT = Prompt()
STOPS: set[CodeType] = set()
"""Our own functions in which a debugger is to stop."""


def is_attached() -> bool:
    """Whether somebody debugs this process: has stood at a prompt of it, or has an editor attached."""
    pydevd = sys.modules.get("pydevd")
    return PROMPT.time_waited() > 0 or (pydevd is not None and pydevd.get_global_debugger() is not None)


def install() -> None:
    """Patch the debuggers that are loaded, once and for good. A run without one pays for two look-ups."""
    if (pdb := getattr(sys.modules.get("pdb"), "Pdb", None)) is not None:
        wrap(pdb, "interaction", functools.partial(PROMPT.during, waits=True))
        wrap(pdb, "onecmd", functools.partial(PROMPT.during, waits=False))
        wrap(pdb, "stop_here", step_past_us)
        wrap(pdb, "break_here", break_in_body)
    if (pydevd := getattr(sys.modules.get("pydevd"), "PyDB", None)) is not None:
        wrap(pydevd, "do_wait_suspend", functools.partial(PROMPT.during, waits=True))


def step_past_us(stop_here: Callable[[Any, FrameType], bool]) -> Callable[[Any, FrameType], bool]:
    """`Bdb.stop_here`, which steps from the line that calls a tool to the tool's first line, and back at its end."""

    def stops(self: Any, frame: FrameType) -> bool:
        return stop_here(self, frame) and (frame.f_code in STOPS or not is_ours(frame))

    return stops


def break_in_body(break_here: Callable[[Any, FrameType], bool]) -> Callable[[Any, FrameType], bool]:
    """`Bdb.break_here`: "b shop.refund" stops in a tool's body where that runs, else at its `def`."""

    def breaks(self: Any, frame: FrameType) -> bool:
        return not (is_trampoline(frame.f_code) and is_running_tools()) and break_here(self, frame)

    return breaks


def is_running_tools() -> bool:
    """Whether the test that runs here is recorded: then the body of a tool follows its stub."""
    interception = find_interception()
    return interception is None or isinstance(interception.backend, RecordBackend)


def is_ours(frame: FrameType) -> bool:
    """Whether `frame` is on the way to a tool or back: a stub, our code, or what that calls; never the tool's body."""
    at: FrameType | None = frame
    while at is not None and not patching.is_kept(at.f_code):
        if is_trampoline(at.f_code) or str(at.f_globals.get("__name__")).startswith(_TOOLS):
            return True
        at = at.f_back
    return False
