"""Which requests stay inside the process: to an application behind a test client, to a mock, to a server of the test.

The boundary is the call to a model, a tool or a remote service. What stays inside is passed through, recording and
replaying, so that the code behind it runs and its own calls are what is recorded.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
import weakref
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.patching import Seam
    from pytest_agentreplay.model.exchanges import FrameCall, HttpCall

NETWORK = frozenset(
    {"_socket", "curl_cffi", "httpcore", "httpcore2", "primp", "pycurl", "pyreqwest", "rnet", "socket", "ssl"}
)
"""Packages by which a transport of httpx reaches the network past the boundaries of the other HTTP libraries."""

MOCKS = frozenset({"respx", "unittest"})
"""Packages whose functions stand in for the methods of httpcore's connection pools."""


def reaches_out(transport: Any, methods: tuple[str, ...]) -> bool:
    """Whether a transport of the user's brings a network client of its own: it holds one, or a method names one."""
    values = [*getattr(transport, "__dict__", {}).values()]
    for name in methods:
        method = getattr(type(transport), name, None)
        if isinstance(method, FunctionType):
            values += [method.__globals__[used] for used in method.__code__.co_names if used in method.__globals__]
    return any(_package(value) in NETWORK for value in values)


def is_mocked(pool: Any, method: str) -> bool:
    """Whether a mock answers in the place of `pool`, a connection pool of httpcore."""
    function = getattr(type(pool), method, None)
    return _package(function) in MOCKS


def _package(value: Any) -> str:
    """The top-level package that a module, class, function or object comes from."""
    if isinstance(value, ModuleType):
        name = value.__name__
    elif isinstance(value, FunctionType):  # not its `__module__`: `functools.wraps` copies that
        name = value.__globals__.get("__name__", "")
    else:
        name = value.__module__ if isinstance(value, type) else type(value).__module__
    return str(name).partition(".")[0]


def patch(library: ModuleType) -> None:
    """Know the servers that `library` (`aiohttp.test_utils`) runs for tests. Doing it twice does nothing."""
    wrap(library.BaseTestServer, "start_server", _starting)


def _starting(original: Seam) -> Seam:
    async def start_server(server: Any, *args: Any, **more: Any) -> Any:
        _test_servers.add(server)
        return await original(server, *args, **more)

    return start_server


def stays(interception: Interception, call: HttpCall) -> bool:
    """Whether a request goes to a server that the test itself runs in this process, as the application under test.

    A call that is not the test's own is passed through as well.
    """
    if interception.scope.takes is not None and not interception.scope.takes(call):
        return True
    return _is_served_here(interception, call, lambda: _asks_model(call))


def _asks_model(call: HttpCall) -> bool:
    # Loaded here, as below: a child process loads the guard, and most children ask no server.
    from pytest_agentreplay.model.turns import is_model
    from pytest_agentreplay.providers import READER

    return is_model(call, READER)


def connection_stays(interception: Interception, opening: FrameCall) -> bool:
    """The same of a WebSocket: whether it leads to a server of this process. What it carries is then not recorded."""
    from pytest_agentreplay.providers.frames import opens_model

    return _is_served_here(interception, opening, lambda: opens_model(opening.url))


def _is_served_here(interception: Interception, call: HttpCall | FrameCall, is_model: Callable[[], bool]) -> bool:
    """Whether a server of the application under test gets `call`: aiohttp's test server, or any on an allowed host.

    On an allowed host a call that reads as one of a model is recorded, since a fake of the model may listen there,
    unless the rule names this port. A test server of aiohttp is known to be the application.
    """
    from pytest_agentreplay.compare.matching.address import split

    if interception.is_capture:  # a service knows no server of a test, and each call would parse its URL for it
        return False
    url = split(call.url)
    if not url.loopback:
        return False
    port = url.port or (443 if url.scheme in {"https", "wss"} else 80)
    if not is_test_server(port):
        if not (interception.scope.hosts.may_reach_url(url.host, port) and listens(port)):
            return False
        if is_model() and not interception.scope.hosts.name_port(port):
            return False
    return True


def is_test_server(port: int) -> bool:
    """Whether a test server of aiohttp listens at `port`."""
    return any(server.port == port and not server.closed for server in _test_servers)


def listens(port: int) -> bool:
    """Whether a socket of this process listens at `port`.

    Asked of the descriptors, since uvloop binds in C, where there is no socket object and no audit event.
    """
    return any(_port_of(sock) == port for sock in list_sockets())


def ports() -> set[int]:
    """The ports at which sockets of this process listen."""
    return {port for sock in list_sockets() if (port := _port_of(sock))}


def list_sockets() -> Iterator[socket.socket]:
    """The sockets of this process. On POSIX they are copies, closed when the next one is asked for."""
    try:
        names = os.listdir("/dev/fd")  # noqa: PTH208  numbers, no paths
    except OSError:  # Windows, where every server has socket objects
        yield from [value for value in gc.get_objects() if issubclass(type(value), socket.socket)]
        return
    for descriptor in map(int, names):
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            copy = socket.socket(fileno=os.dup(descriptor))
        except OSError:  # closed meanwhile
            continue
        with copy:
            yield copy


def _port_of(sock: socket.socket) -> int | None:
    """The port that a TCP socket listens at; None for a closed one, a connected one and any other family."""
    if sock.family not in {socket.AF_INET, socket.AF_INET6} or sock.type != socket.SOCK_STREAM:
        return None
    try:
        here = sock.getsockname()
    except OSError:
        return None
    try:
        sock.getpeername()
    except OSError:
        return int(here[1])
    return None


_test_servers: weakref.WeakSet[Any] = weakref.WeakSet()
