"""Libraries that reach out in C or Rust, where no boundary stands and no audit event is raised: they are told of.

A row says where such a library's own calls begin. There we raise the event that it does not, so that the guard hears of
it: a recording lists the gap by the library's name, a replay refuses the call before anything is sent. Within an
exchange of another boundary (a transport of httpx made of curl) nothing is told: that call is recorded already.
"""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.boundaries import crossing as doorstep
from pytest_agentreplay.boundaries.peers import LIBRARY
from pytest_agentreplay.boundaries.wrapping import wrap

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_agentreplay.boundaries.wrapping import Seam

_VERBS = "delete get head options patch post put request"

UNMET: dict[str, tuple[str, tuple[str, ...]]] = {
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
    "pycurl": ("pycurl", ("Curl.perform", "CurlMulti.perform", "CurlMulti.socket_action")),
    "pyreqwest._pyreqwest": (
        "pyreqwest",
        (
            "request.ConsumedRequest.send",
            "request.StreamRequest.__aenter__",
            "request.SyncConsumedRequest.send",
            "request.SyncStreamRequest.__enter__",
        ),
    ),
}
"""Module -> the library as people know it, and where its calls begin."""


def meet(module: ModuleType) -> None:
    """Tell of every call that begins in `module`. Doing it twice does nothing."""
    library, names = UNMET[module.__name__]
    for path in names:
        outer, _, name = path.rpartition(".")
        owner: Any = attrgetter(outer)(module) if outer else module
        owner = next((kind for kind in getattr(owner, "__mro__", ()) if name in vars(kind)), owner)
        try:
            wrap(owner, name, telling(library))
        except TypeError:  # a class of C that nobody may change: a class of its kind takes its name
            setattr(module, outer, type(outer, (owner,), {name: telling(library)(getattr(owner, name))}))


def telling(library: str) -> Any:
    """A wrapper that tells of the library before each call."""

    def make(original: Seam) -> Seam:
        asked = doorstep.for_http

        def told(*args: Any, **more: Any) -> Any:
            if asked() is not None:
                sys.audit(LIBRARY, library)
            return original(*args, **more)

        return told

    return make
