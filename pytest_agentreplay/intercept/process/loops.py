"""Event loops in C (uvloop, winloop): whom they reach is told as asyncio tells it.

asyncio's own loops go through `socket` and `subprocess`, which raise audit events. These loops call the system
themselves, and no event is raised. So their methods raise the same events here, before anything is sent, and the guard
hears them; what is allowed goes on as before. The loop's class is changed in place: who holds a loop has it, too.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.session import courses
from pytest_agentreplay.intercept.session.hosts import parse_address
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

LOOPS = {"uvloop": "Loop", "winloop": "Loop"}
"""Module -> its class of loops, a Python class. rloop, in Rust, opens its sockets by `socket`: it is heard anyway."""


class Unopened:
    """Stands in an event for the socket that the loop has not opened yet."""

    def __init__(self, family: int) -> None:
        """`family` is that of its address."""
        self.family = family

    def close(self) -> None:
        """There is nothing to close."""


def patch(module: ModuleType) -> None:
    """Raise events for the loops of `module`, and label their tasks. Doing it twice does nothing."""
    courses.patch(module)
    loop = getattr(module, LOOPS[module.__name__])
    for name, announce in METHODS.items():
        wrap(loop, name, functools.partial(_starting if name.startswith("subprocess") else _announcing, announce))


def _announcing(announce: Callable[..., None], method: Callable[..., Any]) -> Callable[..., Any]:
    async def announce_and_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        announce(*args, **kwargs)
        return await method(self, *args, **kwargs)

    return announce_and_call


def _starting(announce: Callable[..., None], method: Callable[..., Any]) -> Callable[..., Any]:
    async def announce_and_start(
        self: Any, protocol: Any, program: Any, *args: Any, env: Any = None, **kwargs: Any
    ) -> Any:
        name = "/bin/sh" if announce is subprocess_shell else os.fsdecode(program)
        env = child_start.invite_program(name, env)
        announce(protocol, program, *args, env=env, **kwargs)
        with child_start.executing():
            return await method(self, protocol, program, *args, env=env, **kwargs)

    return announce_and_start


def create_connection(
    _protocol: object, host: Any = None, port: Any = None, *, sock: object = None, local_addr: Any = None, **_: object
) -> None:
    """TCP to a host; a socket that is given was connected by Python."""
    if local_addr is not None:
        _bind(*local_addr[:2])
    if sock is None and host is not None:
        reach(host, port)


def create_datagram_endpoint(
    _protocol: object, local_addr: Any = None, remote_addr: Any = None, *, sock: object = None, **_: object
) -> None:
    """UDP to one peer, else to whom its address lets it send: the transport itself, in C, cannot be asked later."""
    if sock is not None:
        return
    for there, act in ((local_addr, _bind), (remote_addr, reach)):
        if isinstance(there, str):
            sys.audit("socket.connect", Unopened(getattr(socket, "AF_UNIX", -1)), there)
        elif there is not None:
            act(*there[:2])
    if local_addr is None and remote_addr is None:
        _bind("0.0.0.0", None)  # noqa: S104  what an unbound socket is


def create_unix_connection(_protocol: object, path: Any = None, *, sock: object = None, **_: object) -> None:
    """A socket file."""
    if sock is None and path is not None:
        sys.audit("socket.connect", Unopened(getattr(socket, "AF_UNIX", -1)), path)


def create_server(_protocol: object, host: Any = None, port: Any = None, *, sock: object = None, **_: object) -> None:
    """A listening socket; of several hosts, or of all."""
    if sock is None:
        for each in host if isinstance(host, list | tuple | set) else [host]:
            _bind(each or "0.0.0.0", port or 0)  # noqa: S104  what no host means


def getaddrinfo(host: Any, port: Any = None, *, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> None:  # noqa: A002
    """The address of a name."""
    del flags
    sys.audit("socket.getaddrinfo", host, port, family, type, proto)


def getnameinfo(sockaddr: Any, _flags: int = 0) -> None:
    """The name of an address."""
    sys.audit("socket.getnameinfo", sockaddr)


def subprocess_exec(_protocol: object, program: Any, *args: Any, env: Any = None, cwd: Any = None, **_: object) -> None:
    """A child process."""
    sys.audit("subprocess.Popen", program, [program, *args], cwd, env)


def subprocess_shell(_protocol: object, command: Any, *, env: Any = None, cwd: Any = None, **_: object) -> None:
    """A line for the shell."""
    sys.audit("subprocess.Popen", "/bin/sh", ["/bin/sh", "-c", command], cwd, env)


METHODS: dict[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        create_connection,
        create_datagram_endpoint,
        create_unix_connection,
        create_server,
        getaddrinfo,
        getnameinfo,
        subprocess_exec,
        subprocess_shell,
    )
}
"""Methods of a loop that reach out, each with what tells whom; `sock_connect` and its like go through `socket`."""


def reach(host: Any, port: Any) -> None:
    """Announce a look-up and a connection, as asyncio would make them."""
    name = host.decode() if isinstance(host, bytes) else str(host)
    if parse_address(name) is None:
        sys.audit("socket.getaddrinfo", name, port, 0, 0, 0)
    there = "127.0.0.1" if name.casefold() == "localhost" else name
    sys.audit("socket.connect", Unopened(_family(there)), (there, _number(port)))


def _bind(host: Any, port: Any) -> None:
    number = None if port is None else _number(port)
    sys.audit("socket.bind", Unopened(_family(str(host))), (str(host), number))


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _number(port: Any) -> int:
    """A port; services are named as well."""
    return int(port) if str(port).isdecimal() else socket.getservbyname(str(port)) if port else 0
