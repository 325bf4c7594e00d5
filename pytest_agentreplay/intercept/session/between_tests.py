"""The time between two tests: garbage of the ended one may still call its tools, which are refused.

pytest holds the values of a test's fixtures until the teardown has been reported, so a `__del__` runs that late.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from pytest_agentreplay.intercept.session.interceptions import Interception

_ended: tuple[Interception, int] | None = None
"""The test that has ended last and the ident of its thread; None from when the next one begins."""


def begin(interception: Interception) -> None:
    """Refuse the tools of a test that ends, where this thread calls them after it, until `end`."""
    global _ended  # noqa: PLW0603  one process runs one test at a time
    _ended = interception, threading.get_ident()


def end() -> None:
    """Refuse no tool any more: the next test begins, and its fixtures may call them."""
    global _ended  # noqa: PLW0603  as above
    _ended = None


def follows(interception: Interception) -> bool:
    """Return whether `interception` is the one of the test that has ended last, and no other test has begun."""
    return _ended is not None and _ended[0] is interception


def crossing_of_garbage() -> Interception | None:
    """Return the interception of the ended test for a tool that its garbage calls here; None where anything else does.

    Hooks of a conftest or plugin and threads of the suite's own may call tools between tests: they belong to no test.
    """
    ended = _ended
    if ended is None or ended[1] != threading.get_ident() or _called_by_hook(sys._getframe(1)):
        return None
    return ended[0]


def _called_by_hook(frame: FrameType | None) -> bool:
    """Return whether pluggy has called what runs here, and no finalizer is on the way."""
    while frame is not None and frame.f_code.co_name != "__del__":
        library = str(frame.f_globals.get("__name__")).partition(".")[0]
        if library in {"pluggy", "_pytest"}:
            return library == "pluggy"
        frame = frame.f_back
    return False
