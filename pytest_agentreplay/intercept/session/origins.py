"""The agent's own lines on a stack: where a call was made, where a body waits, where an error stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

_SCRIPTS = str(Path(sys.prefix) / ("Scripts" if os.name == "nt" else "bin")) + os.sep
"""Where the command `pytest` is a file of Python, which stands below every stack."""

_NOT_THE_AGENT = ("<", str(Path(__file__).parents[2]) + os.sep, str(Path(os.__file__).parent) + os.sep, _SCRIPTS)


def origin(root: str) -> str:
    """The innermost line of the agent on the stack, "shop/agent.py:88 in find_orders"; "" when there is none.

    Ours, installed packages and the standard library are nobody's agent. A file outside `root` is a second best.
    """
    return where(_outwards(sys._getframe(1)), root)


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def where(frames: Iterable[FrameType], root: str) -> str:
    """The first line of the agent among `frames`, as `origin` tells it."""
    fallback = ""
    for frame in frames:
        name = frame.f_code.co_filename
        if is_agents(frame.f_code):
            inner = name.removeprefix(root).lstrip("/\\").replace("\\", "/")
            line = f"{inner}:{frame.f_lineno} in {frame.f_code.co_name}"
            if name.startswith(root):
                return line
            fallback = fallback or line
    return fallback


def is_agents(code: CodeType) -> bool:
    """Whether `code` is the agent's: not ours, no installed package, not the standard library."""
    # A redirected tool's stub has the tool's file, but no line of the agent's; it is marked as tracebacks know it.
    hidden = "__tracebackhide__" in code.co_varnames
    return not hidden and "site-packages" not in code.co_filename and not code.co_filename.startswith(_NOT_THE_AGENT)


def where_it_stopped(error: BaseException, root: str) -> TracebackType | None:
    """The traceback of `error` down to the agent's innermost line: below it are libraries and our brake.

    The innermost one under `root`, else of any agent; None when there is none.
    """
    entries: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        entries.append(at)
        at = at.tb_next
    agents = [number for number, entry in enumerate(entries) if is_agents(entry.tb_frame.f_code)]
    inner = [number for number in agents if entries[number].tb_frame.f_code.co_filename.startswith(root)]
    found: TracebackType | None = None
    for entry in reversed(entries[: (inner or agents or [-1])[-1] + 1]):
        found = TracebackType(found, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return found
