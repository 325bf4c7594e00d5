"""Tools stay patched after their test for as long as something that it started may still call them, and is refused.

Given back at once, a tool would run for real in the thread, executor job or task that outlives its test. For a callback
that the test has registered (`exits`) they are patched again while it runs, and for good when the process exits. For
garbage of the test they stay patched until the next test begins (`interceptions.refuse_garbage`).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pytest_agentreplay.intercept.session import interceptions

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FunctionType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.tools.tool import Redirection, Tool

_waiting: dict[Interception, list[Redirection]] = {}
_tools: WeakKeyDictionary[Interception, list[Tool]] = WeakKeyDictionary()
_frozen: WeakKeyDictionary[FunctionType, str] = WeakKeyDictionary()
"""Every function that a test of this process has frozen, with its name as a tool."""


def release(interception: Interception, tools: list[Redirection]) -> None:
    """Take the tools of a test off, now or when nothing of it is left; that is asked again whenever a test ends."""
    _waiting[interception] = tools
    # Asked for once: `refusing` comes back here with these tools and its own, and would double them each time.
    _tools.setdefault(interception, [redirection.tool for redirection in tools])
    _frozen.update((redirection.held(), redirection.tool.name) for redirection in tools)
    _restore()


def next_begins() -> None:
    """Take the tools of the test that has ended last off: the set-up of the next one may call them."""
    interceptions.allow_tools()
    _restore()


def _restore() -> None:
    for ended in [*_waiting]:
        if not interceptions.has_ended_last(ended) and not ended.is_straggling():
            for tool in reversed(_waiting.pop(ended)):
                tool.restore()


@contextmanager
def refusing(interception: Interception) -> Generator[None]:
    """A block, run for a test that has ended, in which the tools of that test are refused."""
    tools = [redirected(tool) for tool in _tools.get(interception, ())]
    try:
        yield
    finally:
        release(interception, [*tools, *_waiting.pop(interception, ())])


def refuse_for_good() -> list[Redirection]:
    """Patch every tool of this process again, whoever calls it from now on."""
    if not _frozen:
        return []
    from pytest_agentreplay.intercept.tools.tool import Tool

    return [redirected(Tool(name, function)) for function, name in [*_frozen.items()]]


def redirected(tool: Tool) -> Redirection:
    """Meet `tool`; what meets tools is loaded when there is one."""
    from pytest_agentreplay.intercept.tools.tool import redirect

    return redirect(tool)
