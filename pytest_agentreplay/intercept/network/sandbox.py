"""The kernel's part of a closed network, on Linux: from `close` on, this process and all it starts make no sockets.

A seccomp filter, inherited over fork and exec and never lifted, refuses every family of sockets but those that stay on
this machine by their nature, and io_uring, which makes sockets past the system calls. What C code, a Rust client or a
child tries fails with "Permission denied"; what Python tries is still reported by the guard, to which audit events show
sockets: whom they reach (`peer`), and which of them stay on this machine.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class SyscallNumbers(NamedTuple):
    """What the kernel calls an architecture, and the numbers that the filter needs there."""

    audit: int
    seccomp: int
    socket: int
    highest: int


MACHINES = {
    "x86_64": SyscallNumbers(0xC000003E, seccomp=317, socket=41, highest=0x3FFFFFFF),
    "aarch64": SyscallNumbers(0xC00000B7, seccomp=277, socket=198, highest=0xFFFFFFFF),
}
"""By the name of `uname`. Above `highest` are the calls of x32, which would be socket calls of another number."""

IO_URING = (425, 426, 427)
"""Setup, enter and register: the same everywhere."""

INSIDE = tuple(
    family for name in ("AF_UNIX", "AF_NETLINK", "AF_ALG") if (family := getattr(socket, name, None)) is not None
)
"""Families that reach the kernel or a file. Event loops, `multiprocessing` and name look-ups need them."""

_LOAD, _EQUAL, _GREATER, _RETURN = 0x20, 0x15, 0x25, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST = 0, 4, 16  # offsets in `struct seccomp_data`; the low half of the first argument
_NO_NEW_PRIVILEGES, _FILTER, _ALL_THREADS = 38, 1, 1

_closed = False


def is_closed() -> bool:
    """Return whether this process can make no socket any more."""
    return _closed


def missing() -> str:
    """Why this system has no such filter; "" where it should have one."""
    if sys.platform != "linux":
        return f"{sys.platform} has no such filter, the network is not closed by the kernel"
    machine = os.uname().machine
    if machine not in MACHINES or sys.maxsize < 2**32 or sys.byteorder != "little":
        return f"the filter is written for {' and '.join(MACHINES)} of 64 bits, and this is {machine}"
    return ""


def hindrances() -> Iterator[str]:
    """What of this process and system is in the way of closing the network."""
    if why := missing():
        yield why
    else:
        yield from (f"a socket is open already, to {there}" for there in ways_out())


def close() -> str:
    """Close the network for this process for good, all its threads included. Return "" or why that cannot be done."""
    global _closed  # noqa: PLW0603  a filter is for the whole process
    if _closed:
        return ""
    if sys.platform != "linux":
        return missing()
    if why := missing() or _install(MACHINES[os.uname().machine]):
        return why
    if why := _still_open():
        return why
    _closed = True
    return ""


def program(machine: SyscallNumbers) -> list[tuple[int, int, int, int]]:
    """The filter: (code, jump if true, jump if false, value) of each instruction."""
    refuse_socket = (_RETURN, 0, 0, _ERROR | errno.EACCES)
    refuse = (_RETURN, 0, 0, _ERROR | errno.EPERM)
    allow = (_RETURN, 0, 0, _ALLOW)
    families = [(_EQUAL, len(INSIDE) - number, 0, family) for number, family in enumerate(INSIDE)]
    rings = [(_EQUAL, 0, 1, number) for number in IO_URING]
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),  # a program of another architecture: its numbers mean other calls
        (_LOAD, 0, 0, _NUMBER),
        (_GREATER, 0, 1, machine.highest),
        refuse,
        *(step for ring in rings for step in (ring, refuse)),
        (_EQUAL, 1, 0, machine.socket),
        allow,
        (_LOAD, 0, 0, _FIRST),
        *families,
        refuse_socket,
        allow,
    ]


def _install(machine: SyscallNumbers) -> str:
    import ctypes

    steps = program(machine)
    packed = b"".join(struct.pack("=HBBI", *step) for step in steps)
    code = ctypes.create_string_buffer(packed, len(packed))
    filter_program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    syscall = libc.syscall
    syscall.restype = ctypes.c_long
    longs = [ctypes.c_ulong(number) for number in (_NO_NEW_PRIVILEGES, 1, 0, 0, 0)]
    if libc.prctl(*longs) != 0:
        return f"the kernel keeps the filter off: {os.strerror(ctypes.get_errno())}"
    there = ctypes.create_string_buffer(filter_program, len(filter_program))
    arguments = (ctypes.c_long(machine.seccomp), ctypes.c_ulong(_FILTER), ctypes.c_ulong(_ALL_THREADS))
    failed = syscall(*arguments, ctypes.byref(there))
    if failed > 0:
        return f"the thread {failed} has a filter of its own"
    return f"the kernel takes no filter: {os.strerror(ctypes.get_errno())}" if failed else ""


def _still_open() -> str:
    """Try it: a kernel that takes a filter and minds none would be told as a closed one."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    except PermissionError:
        return ""
    return "the kernel took the filter, and makes sockets all the same"


def ways_out() -> list[str]:
    """The sockets that are open already and lead off this machine, or could: no filter closes these."""
    return sorted({peer_name for sock in _sockets() if (peer_name := _name_peer(sock))})


def _sockets() -> Iterator[socket.socket]:
    """Each open socket of this process, for as long as it is looked at."""
    from pytest_agentreplay.intercept.network.in_process import list_sockets

    waiting = socket.getdefaulttimeout()
    socket.setdefaulttimeout(None)  # with one, a second look would change how the first one blocks
    try:
        yield from list_sockets()
    finally:
        socket.setdefaulttimeout(waiting)


def _name_peer(sock: socket.socket) -> str:
    if sock.family in INSIDE:
        return ""
    try:
        there = sock.getpeername()
    except OSError:
        there = sock.getsockname()
    host, port = there[:2] if isinstance(there, tuple) else (there, 0)
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


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

LIBRARY = "pytest_agentreplay.unintercepted"
"""Our own audit event: a library that raises none is about to reach out. Its argument is the library's name."""

MADE = "socket.__new__"
"""Audit event of a new socket: where the kernel refuses those, it is the last that Python tells of a call."""

LOADED = "ctypes.dlopen"
"""Audit event of a library in C that is loaded by hand: what it does is not heard."""

_REVERSE = frozenset({"socket.gethostbyaddr", "socket.getnameinfo"})
_KERNEL = {getattr(socket, name, None) for name in ("AF_NETLINK", "AF_ALG", "AF_SYSTEM")} - {None}


class Peer(NamedTuple):
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


def made_family(args: tuple[Any, ...], frame: FrameType | None) -> str:
    """Return the family of a new socket that leads off this machine; "" for one that wraps what is open already.

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
