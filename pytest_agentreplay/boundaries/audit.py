"""The one audit hook of this process. It cannot be removed, so it looks an event up in a set, and no more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Listener = Callable[[str, tuple[Any, ...], FrameType | None], None]

_listening = False


def listen(events: frozenset[str], meet: Listener) -> None:
    """From now on `meet` gets each of `events`, with its arguments and the frame that raised it. Once per process.

    "fork_exec" is an event of ours: `multiprocessing` starts children by a C function that raises none.
    """
    global _listening  # noqa: PLW0603  a hook is for the whole process
    if _listening:
        return
    _listening = True

    def hook(event: str, args: tuple[Any, ...]) -> None:
        # Only names of this function: the interpreter clears modules before it lets go of the hook.
        if event in events:
            meet(event, args, frame_of(1))

    frame_of = sys._getframe
    sys.addaudithook(hook)
    _tell_of_fork_exec(meet)


def _tell_of_fork_exec(meet: Listener) -> None:
    if sys.platform == "win32":  # which raises "_winapi.CreateProcess"
        return
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def told(*args: Any) -> int:
        meet("fork_exec", args, sys._getframe(1))
        return fork_exec(*args)

    _posixsubprocess.fork_exec = told
