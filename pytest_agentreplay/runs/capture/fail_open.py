"""What the service never notices: faults of a capture are counted and logged once; `real_calls` has its call go on."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.errors import ReplayDiverged

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = logging.getLogger("pytest_agentreplay.capture")
LOG.addHandler(logging.NullHandler())  # a service that has set up no logging is not printed to

FAULTS = (Exception, ReplayDiverged)
"""What our code may raise by mistake; cancellations, exits and interrupts are the service's own."""

_PACKAGE = str(Path(__file__).parents[2])
_lock = threading.Lock()
_counts: Counter[str] = Counter()


def count(name: str) -> int:
    """Count `name` once more; return how often it was."""
    with _lock:
        _counts[name] += 1
        return _counts[name]


def read_counts() -> dict[str, int]:
    """Return what was counted."""
    return {name: _counts[name] for name in ("captured", "faults", "late_calls")}


def reset() -> None:
    """Count from nothing: in a new capture, or in a forked process, whose lock a thread of the parent may hold."""
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _counts.clear()


def note_fault(error: BaseException) -> None:
    """Count a fault of ours, log the first one, and say of the run in which it happened that it is not whole.

    Its place alone: the text may quote what the service has sent.
    """
    from pytest_agentreplay.intercept.session.lanes import CALL_CONTEXT

    places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    file, line = next((place for place in reversed(places) if place[0].startswith(_PACKAGE)), ("", 0))
    text = f"a fault of the capture: {type(error).__name__} in {'/'.join(Path(file).parts[-2:])}, line {line}"
    if count("faults") == 1:
        LOG.warning("%s; the service goes on, and later ones are only counted", text)
    if (context := CALL_CONTEXT.get()) is not None:
        vars(context.interception)["cold"] = text


@contextmanager
def never_raising() -> Iterator[None]:
    """A block of ours whose faults are noted."""
    try:
        yield
    except FAULTS as error:
        note_fault(error)
