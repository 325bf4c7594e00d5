"""Libraries that reach out in C or Rust, where no boundary stands and no audit event is raised: they are told of.

A row says where such a library's own calls begin. There we raise the event that it does not, so that the guard hears of
it: a recording lists the gap by the library's name, a replay refuses the call before anything is sent. Within an
exchange of another boundary (a transport of httpx made of curl) nothing is told: that call is recorded already.
"""

from __future__ import annotations

import functools
import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.sandbox import LIBRARY
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.patching import wrap

if TYPE_CHECKING:
    from types import ModuleType

_VERBS = "delete get head options patch post put request"

UNINTERCEPTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "curl_cffi.aio": ("curl_cffi", ("AsyncCurl.add_handle",)),
    "curl_cffi.curl": ("curl_cffi", ("Curl.perform",)),
    "grpc._channel": (
        "grpc",
        (
            "_SingleThreadedUnaryStreamMultiCallable.__call__",
            "_StreamStreamMultiCallable.__call__",
            "_StreamUnaryMultiCallable._blocking",
            "_StreamUnaryMultiCallable.future",
            "_UnaryStreamMultiCallable.__call__",
            "_UnaryUnaryMultiCallable._blocking",
            "_UnaryUnaryMultiCallable.future",
        ),
    ),
    "grpc.aio._channel": (
        "grpc",
        tuple(f"{kind}MultiCallable.__call__" for kind in ("StreamStream", "StreamUnary", "UnaryStream", "UnaryUnary")),
    ),
    "primp": ("primp", tuple(f"{owner}{verb}" for owner in ("Client.", "AsyncClient.", "") for verb in _VERBS.split())),
    "confluent_kafka.cimpl": (
        "confluent_kafka",
        ("Consumer.__init__", "Producer.__init__", "_AdminClientImpl.__init__"),
    ),
    "psycopg._connection_base": ("psycopg", ("BaseConnection._connect_gen",)),
    "psycopg2": ("psycopg2", ("connect",)),
    "pycares": (
        "pycares",
        ("Channel.getaddrinfo", "Channel.gethostbyaddr", "Channel.getnameinfo", "Channel.query", "Channel.search"),
    ),
    "pycurl": (
        "pycurl",
        (
            "Curl.perform",
            "Curl.perform_rb",
            "Curl.perform_rs",
            "CurlMulti.add_handle",
            "CurlMulti.perform",
            "CurlMulti.socket_action",
            "CurlMulti.socket_all",
        ),
    ),
    "pynng.nng": ("pynng", ("Socket.dial",)),
    "pyreqwest._pyreqwest": (
        "pyreqwest",
        (
            "request.ConsumedRequest.send",
            "request.StreamRequest.__aenter__",
            "request.SyncConsumedRequest.send",
            "request.SyncStreamRequest.__enter__",
        ),
    ),
    "tls_client.sessions": ("tls_client", ("Session.execute_request",)),
    "zmq.sugar.socket": ("zmq", ("Socket.connect",)),
}
"""Module -> the library as people know it, and where its calls begin."""


INSIDE = ("inproc://",)
"""What addresses begin with that lead nowhere outside of the process."""


def patch(module: ModuleType) -> None:
    """Tell of every call that begins in `module`. Doing it twice does nothing."""
    library, names = UNINTERCEPTED[module.__name__]
    sealed: dict[str, list[str]] = {}
    for path in names:
        outer, _, name = path.rpartition(".")
        owner: Any = attrgetter(outer)(module) if outer else module
        owner = next((kind for kind in getattr(owner, "__mro__", ()) if name in vars(kind)), owner)
        before = vars(owner).get(name)
        if isinstance(before, classmethod):
            if not hasattr(before.__func__, "__wrapped__"):
                setattr(owner, name, classmethod(telling(library)(before.__func__)))
            continue
        try:
            wrap(owner, name, telling(library))
        except TypeError:  # a class of C that nobody may change
            sealed.setdefault(outer, []).append(name)
        else:
            if not outer and before is not None:
                hold_instead(before, vars(module)[name])
    for outer, methods in sealed.items():
        replace_class(module, outer, methods, telling(library))


def replace_class(module: ModuleType, name: str, methods: list[str], make: Any) -> None:
    """Have a class of its kind, whose `methods` tell, take the name of a class in C, wherever that is held."""
    owner = getattr(module, name)
    made = type(name, (owner,), {method: make(getattr(owner, method)) for method in methods})
    made.__module__ = module.__name__
    setattr(module, name, made)
    hold_instead(owner, made)


def hold_instead(before: object, after: object) -> None:
    """Have modules that hold `before` (`from library import it`, before we were asked) hold `after`."""
    for module in [*sys.modules.values()]:
        for name, value in [*getattr(module, "__dict__", {}).items()]:
            if value is before and module is not sys.modules[__name__]:
                setattr(module, name, after)


def telling(library: str) -> Any:
    """A wrapper that tells of the library before each call."""

    def make(original: Any) -> Any:
        find_interception = interceptions.find_for_http

        @functools.wraps(original)
        def report_and_call(*args: Any, **more: Any) -> Any:
            leaves = not (len(args) > 1 and isinstance(args[1], str) and args[1].startswith(INSIDE))
            if leaves and find_interception() is not None:
                sys.audit(LIBRARY, library)
            return original(*args, **more)

        return report_and_call

    return make
