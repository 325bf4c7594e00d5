"""The HTTP boundary of urllib3, and so of requests, botocore and google-auth: one exchange per wire call.

Intercepted below `HTTPConnectionPool.urlopen`, at the one wire call that each round of it makes: retries and redirects
go round once more, so urllib3's own rules for them run in both modes. `http.client` below steps aside; bodies are teed
and played at its files, so that urllib3 decodes, cuts and pools as ever.
"""

from __future__ import annotations

import functools
import io
import ssl
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.http.files import Playing, listening
from pytest_agentreplay.intercept.http.http_wire import Wire, revive_exception
from pytest_agentreplay.intercept.http.stdlib import origin, raise_recorded
from pytest_agentreplay.intercept.network.in_process import stays
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap
from pytest_agentreplay.intercept.session.replacing import blame, pass_on
from pytest_agentreplay.model.exchanges import EMPTY, Body, HttpCall, HttpReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from pytest_agentreplay.intercept.session.patching import Seam
    from pytest_agentreplay.model.exchanges import Failure, Headers

_TUNNEL = "_agentreplay_tunnel"


def patch(library: ModuleType) -> None:
    """Wrap the wire call of the pools, and their way through a proxy. Doing it twice does nothing."""
    wrap(library.HTTPConnectionPool, "_make_request", make_request)
    wrap(library.HTTPSConnectionPool, "_prepare_proxy", prepare_proxy)


def make_request(original: Seam) -> Seam:
    """The wire call, which asks the interception first."""
    find_interception = interceptions.find_for_http

    def _make_request(pool: Any, connection: Any, method: str, url: str, *args: Any, **more: Any) -> Any:
        interception = find_interception()
        if interception is None:
            return original(pool, connection, method, url, *args, **more)
        try:
            sent, more["body"] = read_body(more.get("body"))
        except BaseException as error:
            blame(original, error)  # that of a generator of the agent's
            raise
        pass_on(original, pool, connection, method, url, *args, **more)
        call = HttpCall(method, url_of(pool, url), pairs(more.get("headers") or {}), Body(sent) if sent else EMPTY)
        if stays(interception, call):
            return original(pool, connection, method, url, *args, **more)
        if interception.scope.changes and (new := interception.change_request(call)) is not call:
            url = new.url if "://" in url else new.url.removeprefix(origin(pool.scheme, pool.host, pool.port))
            call, more["body"] = new, new.body.data
            headers = more.get("headers") or {}
            more["headers"] = {name: headers[name] for name in headers if text(name).lower() != "content-length"}
        attributes = {"pool": pool, "conn": connection, "url": url}
        wire = Wire.enter(interception, call, functools.partial(native, attributes))
        ask = functools.partial(original, pool, connection, method, url, *args, **more)
        if wire.intercepted.forward:
            return record_response(wire, pool, connection, ask)
        return replay_response(wire, connection, ask)

    return _make_request


def prepare_proxy(original: Seam) -> Seam:
    """The tunnel through a proxy: it is dug when the wire call is made for real, and only then."""

    def _prepare_proxy(pool: Any, connection: Any) -> None:
        interception = interceptions.find_for_http()
        # Which calls are taken only shows at the wire call.
        if interception is None or interception.scope.takes is not None:
            original(pool, connection)
        else:
            setattr(connection, _TUNNEL, functools.partial(original, pool, connection))

    return _prepare_proxy


def record_response(wire: Wire, pool: Any, connection: Any, ask: Callable[..., Any]) -> Any:
    """Make the real call; its response is teed where it begins."""
    try:
        with listening(wire.intercepted):
            dig(pool, connection)
            return ask()
    except BaseException as error:
        wire.fail(error)
        raise


def dig(pool: Any, connection: Any) -> None:
    """Make the tunnel that was put off; its errors are told as urllib3 tells them."""
    tunnel = vars(connection).pop(_TUNNEL, None)
    if tunnel is None:
        return
    try:
        tunnel()
    except OSError as error:
        pool._raise_timeout(err=error, url=pool.proxy.url, timeout_value=connection.timeout)
        raise


def replay_response(wire: Wire, connection: Any, ask: functools.partial[Any]) -> Any:
    """Return the recorded response: urllib3's own, over a played socket. A recorded failure is raised."""
    vars(connection).pop(_TUNNEL, None)
    raise_recorded(wire)
    reply = wire.intercepted.outcome
    assert isinstance(reply, HttpReply)
    with over_played_socket(connection, Playing(wire, reply)):
        return ask(headers=unexpecting(ask.keywords.get("headers")))


@contextmanager
def over_played_socket(connection: Any, socket: Playing) -> Iterator[None]:
    """A block in which the connection sends to nobody and hears the recorded reply; its real socket rests."""
    real, connection.sock = connection.sock, socket
    if hasattr(connection, "cert_reqs"):
        # As it would be had it connected: urllib3 warns of a connection that nobody has verified.
        unverified = connection.cert_reqs in {ssl.CERT_NONE, "CERT_NONE", "NONE"}
        connection.is_verified = not unverified or bool(connection.assert_fingerprint)
    try:
        yield
    finally:
        connection.sock = real


def native(attributes: dict[str, Any], failure: Failure) -> BaseException:
    """The recorded failure as an exception of urllib3, told of the pool that it belongs to."""
    urllib3 = sys.modules["urllib3"]
    error = revive_exception(failure, urllib3)
    if isinstance(error, urllib3.exceptions.HTTPError):
        vars(error).update(attributes)
    return error


def url_of(pool: Any, url: str) -> str:
    """The absolute URL; a pool that leads to a proxy is given one."""
    return (url if "://" in url.partition("?")[0] else origin(pool.scheme, pool.host, pool.port) + url).partition("#")[
        0
    ]


def pairs(headers: Any) -> Headers:
    """The headers that the caller gave, as text; urllib3 adds no other that could match."""
    return tuple([(text(name), text(value)) for name, value in headers.items() if text(value) != "@@@SKIP_HEADER@@@"])


def text(value: Any) -> str:
    """A header's name or value, byte for character."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def unexpecting(headers: Any) -> Any:
    """The headers without "Expect": nobody is there who would say to go on."""
    names = [name for name in headers or () if text(name).lower() == "expect"]
    if names:
        headers = headers.copy()
        for name in names:
            del headers[name]
    return headers


def read_body(body: Any) -> tuple[bytes, Any]:
    """Return the bytes of a request's body, and the body to send in its stead: what can be read once was read."""
    if body is None:
        return b"", None
    if isinstance(body, str):
        return body.encode(), body
    if hasattr(body, "read"):
        data = body.read()
        data = data.encode() if isinstance(data, str) else bytes(data)
        return data, io.BytesIO(data)
    try:
        return bytes(memoryview(body)), body
    except TypeError:
        parts = [part.encode() if isinstance(part, str) else bytes(part) for part in body]
        return b"".join(parts), parts
