"""The one audit hook of this process. It cannot be removed, so it looks an event up in a set, and no more."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Listener = Callable[[str, tuple[Any, ...], FrameType | None], None]

_listening = False


def listen(events: frozenset[str], listener: Listener) -> None:
    """From now on `listener` gets each of `events`, with its arguments and the frame that raised it. Once per process.

    Where a C function raises none, the event is ours: "fork_exec", by which `multiprocessing` starts children, and the
    "socket.connect" and "socket.sendto" of asyncio on Windows.
    """
    global _listening  # noqa: PLW0603  a hook is for the whole process
    if _listening:
        return
    _listening = True

    def hook(event: str, args: tuple[Any, ...]) -> None:
        # Only names of this function: the interpreter clears modules before it lets go of the hook.
        if event in events:
            listener(event, args, frame_of(1))

    frame_of = sys._getframe
    sys.addaudithook(hook)
    _tell_of_fork_exec(listener)
    if sys.platform == "win32":
        from asyncio.windows_events import IocpProactor

        tell_of_proactor(IocpProactor, listener)


def _tell_of_fork_exec(listener: Listener) -> None:
    if sys.platform == "win32":  # which raises "_winapi.CreateProcess"
        return
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def told(*args: Any) -> int:
        listener("fork_exec", args, sys._getframe(1))
        return fork_exec(*args)

    _posixsubprocess.fork_exec = told


def tell_of_proactor(proactor: Any, listener: Listener) -> None:
    """Make the class `proactor` tell whom its sockets reach: its `connect` and `sendto` are overlapped calls in C."""
    connect, sendto = proactor.connect, proactor.sendto

    @functools.wraps(connect)
    def told_connect(self: Any, conn: Any, address: Any) -> Any:
        listener("socket.connect", (conn, address), sys._getframe(1))
        return connect(self, conn, address)

    @functools.wraps(sendto)
    def told_sendto(self: Any, conn: Any, buf: Any, flags: int = 0, addr: Any = None) -> Any:
        listener("socket.sendto", (conn, addr), sys._getframe(1))
        return sendto(self, conn, buf, flags, addr)

    proactor.connect, proactor.sendto = told_connect, told_sendto
