"""Sockets as audit events show them: whom they reach, and which of them stay on this machine by their nature."""

from __future__ import annotations

import re
import socket
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.intercept.network.sandbox import INSIDE

if TYPE_CHECKING:
    from types import FrameType

Act: TypeAlias = Literal["bind", "connect", "lookup", "send"]

SOCKET_EVENTS: dict[str, Act] = {
    "socket.bind": "bind",
    "socket.connect": "connect",
    "socket.getaddrinfo": "lookup",
    "socket.gethostbyaddr": "lookup",
    "socket.gethostbyname": "lookup",
    "socket.getnameinfo": "lookup",
    "socket.sendmsg": "send",
    "socket.sendto": "send",
}
"""Audit events of sockets; `connect_ex` raises "socket.connect" too."""

LIBRARY = "pytest_agentreplay.unmet"
"""Our own audit event: a library that raises none is about to reach out. Its argument is the library's name."""

MADE = "socket.__new__"
"""Audit event of a new socket: where the kernel refuses those, it is the last that Python tells of a call."""

LOADED = "ctypes.dlopen"
"""Audit event of a library in C that is loaded by hand: what it does is not heard."""

_REVERSE = frozenset({"socket.gethostbyaddr", "socket.getnameinfo"})
_KERNEL = {getattr(socket, name, None) for name in ("AF_NETLINK", "AF_ALG", "AF_SYSTEM")} - {None}


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom a socket reaches: a `host` with its `port` (None where none was named), or the `path` of a socket file.

    `device` is the address of any other family (a network card, a virtual machine). `reverse` is a look-up of the name
    of an address; the address of an address needs no name server.
    """

    act: Act
    host: str = ""
    port: int | None = None
    path: str = ""
    device: str = ""
    reverse: bool = False

    def __str__(self) -> str:
        if self.path or self.device:
            return self.path or self.device
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def peer(event: str, args: tuple[Any, ...]) -> Peer | None:
    """Whom the socket event reaches; None where it reaches nobody: a connected socket, the kernel, no host."""
    act = SOCKET_EVENTS[event]
    if act == "lookup":
        host, port = (*args, None)[:2]
        if isinstance(host, tuple):
            host, port = host[:2]
        number = int(_text(port)) if _text(port).isdecimal() else 0
        return Peer(act, _text(host), number or None, reverse=event in _REVERSE) if host else None
    sock, there = args[:2]
    if there is None or sock.family in _KERNEL:
        return None
    if isinstance(there, tuple) and sock.family in {socket.AF_INET, socket.AF_INET6}:
        anyone = "0.0.0.0" if sock.family == socket.AF_INET else "::"  # noqa: S104  what an empty host means
        return Peer(act, _text(there[0]) or anyone, there[1])
    if isinstance(there, str | bytes):
        return Peer(act, path=_text(there))
    return Peer(act, device=f"{getattr(sock.family, 'name', sock.family)} {there}")


def made(args: tuple[Any, ...], frame: FrameType | None) -> str:
    """The family of a socket that is made anew and leads off this machine; "" for one that wraps what is open already.

    Also "" for the question whether there is IPv6, which urllib3 asks when it is imported and takes no for an answer.
    """
    family = args[1]
    if family in INSIDE or family < 0 or (frame is not None and frame.f_locals.get("fileno") is not None):
        return ""
    by = frame.f_back if frame is not None else None
    if by is not None and by.f_code.co_name in {"_has_ipv6", "has_dualstack_ipv6"}:
        return ""
    return socket.AddressFamily(family).name if family in {*socket.AddressFamily} else str(family)


def is_socketpair(frame: FrameType | None) -> bool:
    """Whether `socket.socketpair` connects its two halves, as it does by loopback where the system has no pairs."""
    return (
        frame is not None
        and frame.f_globals is vars(sys.modules["socket"])
        and frame.f_code.co_name in {"socketpair", "_fallback_socketpair"}
    )


def _text(host: Any) -> str:
    return bytes(host).decode(errors="surrogateescape") if isinstance(host, bytes | bytearray) else str(host)


OF_MULTIPROCESSING = re.compile(r".*/pymp-[^/]+/listener-[^/]+")


def is_of_multiprocessing(path: str) -> bool:
    """Whether a socket file is one by which processes of `multiprocessing` reach each other: its fork server, managers.

    Such a process is a child of the test and has joined the run itself.
    """
    return OF_MULTIPROCESSING.fullmatch(path) is not None
