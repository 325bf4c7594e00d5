"""One wire call under way: its bodies as HTTP/1.1 frames them, and the ends of it that are no answer.

Those are a failure, a refusal, or that nothing ever comes. Exceptions of HTTP libraries become values, and values
exceptions of today's classes. A class is looked up among the loaded modules only; data never imports. It never raises
what is no Exception, nor a signal of a test runner: a file must not be able to skip a test or end the session. httpx
and httpx2 are two names of one family, so a failure recorded through one comes back through the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from pytest_agentreplay.intercept.session import pending_call
from pytest_agentreplay.intercept.session.other_plugins import describe_closed
from pytest_agentreplay.intercept.session.patching import find_exception
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Failure, RawCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from pytest_agentreplay.intercept.session.interceptions import Interception
    from pytest_agentreplay.intercept.session.pending_call import PendingCall
    from pytest_agentreplay.model.exchanges import Headers, HttpCall, HttpReply

FAMILY = frozenset({"httpx", "httpx2"})
STAND_IN = "__agentreplay_stand_in__"
_ROOTS = frozenset({"builtins.Exception", "builtins.BaseException"})
_SCALARS = (str, int, float, bool, type(None))


def freeze_exception(error: BaseException) -> Failure:
    """Return `error` as a value; its arguments are kept when all of them are plain."""
    kind = type(error)
    try:
        message = str(error)
    except Exception:
        message = ""  # its own broken __str__ must not cost the exchange
    args = error.args if all(type(value) in _SCALARS for value in error.args) else ()
    return Failure(dotted_path(kind), message, args, tuple(map(dotted_path, kind.__mro__[1:-1])))


def dotted_path(kind: type) -> str:
    """Return the dotted path of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def revive_exception(failure: Failure, library: ModuleType) -> BaseException:
    """Return the exception to raise in `library`, httpx or httpx2: of the same class, else a stand-in of its name."""
    kind: type[BaseException] = find_loaded_class(failure.type, library) or stand_in(failure, library)
    args = failure.args or (failure.message,)
    if kind.__module__.partition(".")[0] in FAMILY:
        try:
            return kind(*args)  # sets what the library reads later, such as `.request`
        except Exception:  # noqa: S110  then it is built without its constructor, below
            pass
    # No constructor of a class that a file names is ever run; OSError takes its errno in __new__.
    builtin: Any = next(base for base in kind.__mro__ if base.__module__ == "builtins")
    error: BaseException = builtin.__new__(kind, *args)
    error.args = args
    return error


def stand_in(failure: Failure, library: ModuleType) -> type[BaseException]:
    """A class of the same name under the nearest base that is at hand.

    What was no Exception gets one that `except Exception` does not catch either.
    """
    ordinary = not failure.bases or "builtins.Exception" in failure.bases
    near = (find_loaded_class(base, library) for base in failure.bases if base not in _ROOTS)
    base = next((kind for kind in near if kind is not None), RuntimeError if ordinary else BaseException)
    module, _, name = failure.type.rpartition(".")
    return type(name, (base,), {"__module__": module, STAND_IN: True})


def find_loaded_class(path: str, library: ModuleType) -> type[Exception] | None:
    """Return the loaded Exception class at the dotted `path`, httpx's and httpx2's being those of `library`."""
    name, _, kind = path.rpartition(".")
    value = find_exception(f"{library.__name__ if name in FAMILY else name}.{kind}")
    return value if value is not None and issubclass(value, Exception) and not hasattr(value, STAND_IN) else None


SHORT = "http.client.IncompleteRead"
_BASES = ("http.client.HTTPException", "builtins.Exception")


class Incoming:
    """A body that comes in as it stands on the wire: `chunked`, of a known `length`, or up to the end of file."""

    def __init__(self, *, chunked: bool, length: int | None) -> None:
        """Nothing has come yet; a body of length 0 is `whole` already."""
        self.is_complete = not chunked and length == 0
        self._chunked = chunked
        self._missing = None if chunked else length
        self._wire = bytearray()
        self.malformed = b""  # what came in the place of a chunk's size

    def feed(self, data: bytes) -> list[bytes]:
        """Take what came; returns the chunks that it completes, without their framing."""
        if not data or self.is_complete or self.malformed:
            return []
        if self._chunked:
            self._wire += data
            return self._remove_framing()
        if self._missing is not None:
            self._missing -= len(data)
            self.is_complete = self._missing <= 0
        return [data]

    def rest(self) -> bytes:
        """What has come of a chunk that is not complete."""
        return bytes(self._wire[: self._missing]) if self._chunked and self._missing else b""

    def at_end_of_file(self) -> Failure | None:
        """Why the body is not whole though nothing more comes; None when it is.

        Its arguments are how many bytes of the last chunk or of the length are missing, and what came instead.
        """
        if self.is_complete or (not self._chunked and self._missing is None):
            return None
        rest = len(self.rest())
        missing = (self._missing or 0) - rest if rest or not self._chunked else 0
        instead = (self.malformed.decode("latin-1"),) if self.malformed else ()
        return Failure(SHORT, f"IncompleteRead({missing} more expected)", (missing, *instead), _BASES)

    def _remove_framing(self) -> list[bytes]:
        wire, chunks = self._wire, []
        while not self.is_complete:
            if self._missing:
                if len(wire) < self._missing + 2:
                    break
                chunks.append(bytes(wire[: self._missing]))
                del wire[: self._missing + 2]
                self._missing = None
            line, newline, _ = bytes(wire[:_LONGEST]).partition(b"\n")
            if not newline:
                break
            del wire[: len(line) + 1]
            if self._missing == 0:  # the last chunk has come: what follows are trailers, up to an empty line
                self.is_complete = not line.strip()
                continue
            try:
                self._missing = int(line.partition(b";")[0], 16)
            except ValueError:
                self.malformed = line + newline + bytes(wire)
                break
        return chunks


_LONGEST = 65537


def is_chunked(headers: Headers) -> bool:
    """Whether a body with these headers is framed in chunks."""
    return any(name.lower() == "transfer-encoding" and value.strip().lower() == "chunked" for name, value in headers)


def head_of(reply: HttpReply) -> bytes:
    """The status line and the headers as they go on an HTTP/1.1 wire; the length says what will be sent."""
    version = reply.version if reply.version in {"HTTP/1.0", "HTTP/1.1"} else "HTTP/1.1"
    is_complete = reply.body.data and reply.failure is None and not reply.closed
    lines = [f"{version} {reply.status} {reply.reason}"]
    for name, value in reply.headers:
        sent = str(len(reply.body)) if is_complete and name.lower() == "content-length" else value
        lines.append(f"{name}: {sent}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def add_framing(chunk: bytes, *, missing: int = 0) -> bytes:
    """Return a chunk with its framing; of one that was broken off, `missing` bytes never come."""
    return b"%x\r\n%b%b" % (len(chunk) + missing, chunk, b"" if missing else b"\r\n")


LAST = b"0\r\n\r\n"


@dataclass(slots=True)
class Wire:
    """One wire call under way: who asks, what was answered, and how a recorded failure is `revived` for the library."""

    interception: Interception
    intercepted: PendingCall
    call: HttpCall
    revive: Callable[[Failure], BaseException]

    @classmethod
    def enter(cls, interception: Interception, call: HttpCall, revive: Callable[[Failure], BaseException]) -> Self:
        """Ask the interception about `call`. Raises ReplayDiverged when it refuses."""
        return cls(interception, interception.enter(RawCall(call), attempt=attempt_of(call.headers)), call, revive)

    def fail(self, error: BaseException, *, suspended: bool = False) -> None:
        """Record that the real call has raised `error`, or report a plugin of the tests that has refused it."""
        self.interception.observed.note_problem(describe_closed(error))
        self.intercepted.settle(freeze_exception(error), suspended=suspended)


def attempt_of(headers: Headers) -> int:
    """Which attempt an SDK says that this is, from 1."""
    for name, value in headers:
        match name.lower():
            case "x-stainless-retry-count" if value.isdecimal():
                return 1 + int(value)
            case "amz-sdk-request" if (match := _ATTEMPT.match(value)) is not None:
                return int(match[1])
    return 1


_ATTEMPT = re.compile(r"attempt=([0-9]{1,9})")


def refuse(wire: Wire, what: str) -> NoReturn:
    """Latch that the agent wants more of a call than was recorded. Always raises ReplayDiverged."""
    interception, call = wire.interception, wire.call
    summary = f"{what}: {pending_call.describe(call)}"
    interception.refuse(Divergence(Kind.EXTRA, summary, lane=interception.call_context().path, now=call))


def never(wire: Wire) -> NoReturn:
    """Block a thread whose call never ended in the recording until the test is over. Always raises ReplayDiverged."""
    if not wire.intercepted.can_wait():
        refuse(wire, "no answer had come when the recorded run ended")
    wire.intercepted.abandon_in_thread()


async def forever(wire: Wire) -> None:
    """Wait until cancelled, as the recorded call was."""
    try:
        await wire.intercepted.abandon()
    finally:
        wire.intercepted.finish()
