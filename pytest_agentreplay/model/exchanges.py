"""The nouns: Call, Outcome, Exchange, Run. Frozen values; time and ids come in as arguments.

Rules of this file: data only. What a value means (turns, keys, differences) is said elsewhere.
Everything behind the backend has been redacted already. Before that a call still holds what the agent sent, and
anybody's traceback may show it: no `repr` here tells what a value holds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = "dict[str, Json]"
Headers: TypeAlias = tuple[tuple[str, str], ...]


class JoinedTexts(NamedTuple):
    """Texts that stand one after the other in a body, with a separator between them."""

    texts: Sequence[str]
    separator: str


class SharedBody(Protocol):
    """A JSON body whose parts are shared with other bodies: an agent sends its whole history with each request.

    Restoring and parsing each of a thousand such bodies would take time that grows with the square of the turns.
    """

    def tree(self) -> JsonObject:
        """Return the JSON value; equal parts of two bodies are one object. Do not change it."""

    def pieces(self) -> Sequence[str | JoinedTexts]:
        """Return the text in pieces; a text that two bodies share is one object."""


# Digits of the digest of a body: 128 bits, which two bodies share neither by chance nor by damage.
DIGITS = 32


class Body:
    """The exact bytes of one body. Restored when first read, hashed when first asked; equal when the bytes are."""

    __slots__ = ("_data", "_digest", "_restore", "shared")

    def __init__(
        self,
        data: bytes | None = None,
        *,
        digest: str | None = None,
        restore: Callable[[], bytes] | None = None,
        shared: SharedBody | None = None,
    ) -> None:
        """Take the bytes, or a `restore` function that gives them later; with the `digest` they must have, if known.

        `shared` is the quick way to the value of a JSON object, where its parts are at hand.
        """
        if data is None and restore is None:
            raise TypeError("a Body needs its bytes, or restore=")
        self._data = data
        self._digest = digest
        self._restore = restore
        self.shared = shared

    @property
    def data(self) -> bytes:
        """The bytes. Whatever `restore` raises (a damaged file) comes out here."""
        data = self._data
        if data is None:
            # Another thread may be restoring too: both get the same bytes, and neither takes the way from the other.
            assert self._restore is not None
            data = self._data = self._restore()
        return data

    @property
    def digest(self) -> str:
        """The first `DIGITS` hex digits of the SHA-256 of the bytes, known without restoring them."""
        if self._digest is None:
            self._digest = hashlib.sha256(self.data).hexdigest()[:DIGITS]
        return self._digest

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Body) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __len__(self) -> int:
        return len(self.data)

    def __reduce__(self) -> tuple[type[Body], tuple[bytes]]:
        return Body, (self.data,)  # a `restore` function stays where its file is

    def __repr__(self) -> str:
        return "Body(asleep)" if self._data is None else f"Body({len(self._data)} bytes)"


EMPTY = Body(b"")


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request as it goes on the wire.

    Attributes:
        method: The method, such as "POST".
        url: The absolute URL.
        headers: The headers that are compared and kept, in order.
        body: The exact bytes.
        boundary: Always "http".
    """

    method: str
    url: str
    headers: Headers = ()
    body: Body = EMPTY
    boundary: str = field(default="http", init=False)

    def __repr__(self) -> str:
        return f"HttpCall({self.method}, {self.body})"


SELF = "self"
"""The name, among the facts of a call, of the object or class that a method was called on."""

BY_CONTENT = "content"
"""The entry "arguments" of the kit of a recording, whose calls are compared by content; a run of a trace has none."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a Python function: a tool, a model of this process, or a retrieval.

    Attributes:
        name: The shown name of the function.
        arguments: Serialized values by parameter name.
        boundary: "tool", "model" or "retrieval".
        facts: What the test or the settings say of a model or retrieval and no argument shows ("version", "provider",
            "parameters", "embedding_model"), and as "self" the object that a method was called on. Compared with the
            call.
        defaults: The names of arguments that have their default value because the caller gave none. Not compared.
    """

    name: str
    arguments: JsonObject = field(default_factory=dict)
    boundary: Literal["tool", "model", "retrieval"] = "tool"
    facts: JsonObject = field(default_factory=dict)
    defaults: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def tree(self) -> JsonObject:
        """The arguments and, as "self", what the method was called on: what rules and reports give paths into."""
        return {SELF: self.facts[SELF], **self.arguments} if SELF in self.facts else self.arguments

    def __repr__(self) -> str:
        return f"ToolCall({self.boundary}, {len(self.arguments)} arguments)"


@dataclass(frozen=True, slots=True)
class FrameCall:
    """A message that the agent sends over a lasting connection. The first of each opens it and has no message.

    Attributes:
        url: The other end: the URL of a WebSocket, or `stdio:` and the command line of a process.
        connection: The `start` of the exchange that opened the connection; None for the opening itself.
        headers: Those of the opening.
        body: The bytes of the message.
        binary: Whether the message went as bytes and not as text.
        boundary: "websocket", "mcp" or "process".
    """

    url: str
    connection: int | None = None
    headers: Headers = ()
    body: Body = EMPTY
    binary: bool = False
    boundary: str = "websocket"

    def __repr__(self) -> str:
        return f"FrameCall({self.boundary} {self.method}, {self.body})"

    @property
    def method(self) -> str:
        """What is done, as reports show it."""
        return "OPEN" if self.connection is None else "SEND"


WireCall: TypeAlias = HttpCall | FrameCall
"""A call that is bytes on a wire: it has `method`, `url`, `headers` and `body`."""

Call: TypeAlias = HttpCall | ToolCall | FrameCall


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as the agent made it, secrets included: it never leaves the session.

    `Redactor.redact_call` alone makes a `Call` of it. A backend takes a `Call`, so that mypy refuses to hand it this.
    """

    native: Call


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception instead of an answer, or after the part of an answer that came.

    A class is looked up among loaded modules only: data never imports.

    Attributes:
        type: The dotted path of the class.
        message: The text of the exception.
        args: Its serialized arguments.
        bases: The dotted paths of the class's ancestors, nearest first, without `object`.
    """

    type: str
    message: str = ""
    args: tuple[Json, ...] = ()
    bases: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Failure({self.type})"

    @property
    def cancelled(self) -> bool:
        """Whether the caller gave up rather than the world."""
        return self.type.rpartition(".")[2] in {"CancelledError", "Cancelled", "GeneratorExit"}


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response, byte for byte.

    Attributes:
        status: The status code.
        reason: The reason phrase.
        version: The version of HTTP.
        headers: All headers, in order and in their own case.
        body: The bytes as they came, undecoded.
        cuts: The size of each chunk; their sum is the length of the body.
        failure: What broke the body off after the last chunk.
        closed: Whether the consumer stopped reading there by its own choice; more may have been on its way.
    """

    status: int
    reason: str = ""
    version: str = "HTTP/1.1"
    headers: Headers = ()
    body: Body = EMPTY
    cuts: tuple[int, ...] = ()
    failure: Failure | None = None
    closed: bool = False

    def __repr__(self) -> str:
        return f"HttpReply({self.status}, {self.body})"

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrived, one item a chunk."""
        at = 0
        data = self.body.data
        for size in self.cuts:
            yield data[at : at + size]
            at += size


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool returned: a value, or the items of a generator.

    Attributes:
        value: The serialized value; for a generator, what it returned at its end.
        items: The serialized items of a generator; None for other functions.
        failure: What a generator raised after the last item.
        closed: Whether the consumer stopped at the last item.
        sent: What the consumer sent or threw into a generator, each with the number of items before it; None where that
            was not recorded.
    """

    value: Json = None
    items: tuple[Json, ...] | None = None
    failure: Failure | None = None
    closed: bool = False
    sent: tuple[Json, ...] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return f"ToolReply({'one value' if self.items is None else f'{len(self.items)} items'})"


@dataclass(frozen=True, slots=True)
class Frame:
    """One message over a lasting connection.

    Attributes:
        data: Its bytes.
        binary: Whether it went as bytes and not as text.
        inner: Whether it was taken inside another exchange, such as a tool's. A replay has nobody there to take it.
    """

    data: bytes
    binary: bool = False
    inner: bool = False

    def __repr__(self) -> str:
        return f"Frame({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class Closed:
    """The end of a lasting connection.

    Attributes:
        code: The code of the WebSocket protocol (1006: it broke off without a word) or the exit code of a process; None
            where none is known.
        reason: The reason that was sent along.
        by_agent: Whether the agent ended it, and not the other side.
    """

    code: int | None = None
    reason: str = ""
    by_agent: bool = False

    def __repr__(self) -> str:
        return f"Closed({self.code})"


@dataclass(frozen=True, slots=True)
class FramesReply:
    """What came over a lasting connection between a message of the agent and its next one, as the agent took it.

    Attributes:
        body: The frames in order, a newline after each.
        cuts: The sizes of the frames, newlines included; None where each line is a frame.
        binary: The indexes of frames that are no text.
        headers: Those of the handshake.
        closed: How the connection ended after the frames.
        failure: What broke it off instead.
        waited: Whether the agent still waited for more when the recording, or its patience, ended.
        inner: The indexes of frames that were taken inside another exchange.
    """

    body: Body = EMPTY
    cuts: tuple[int, ...] | None = None
    binary: tuple[int, ...] = ()
    headers: Headers = ()
    closed: Closed | None = None
    failure: Failure | None = None
    waited: bool = False
    inner: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"FramesReply({self.body})"

    @classmethod
    def from_frames(
        cls,
        frames: Iterable[Frame],
        *,
        headers: Headers = (),
        closed: Closed | None = None,
        failure: Failure | None = None,
        waited: bool = False,
    ) -> FramesReply:
        """Return the reply that consists of `frames`."""
        frames = tuple(frames)
        data = b"".join([b"%b\n" % frame.data for frame in frames])
        lines = data.count(b"\n") == len(frames)
        return cls(
            Body(data) if data else EMPTY,
            None if lines else tuple(len(frame.data) + 1 for frame in frames),
            tuple(at for at, frame in enumerate(frames) if frame.binary),
            headers,
            closed,
            failure,
            waited,
            tuple(at for at, frame in enumerate(frames) if frame.inner),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """How long each frame is, its newline included."""
        if self.cuts is not None:
            return self.cuts
        return tuple(len(line) + 1 for line in self.body.data.split(b"\n")[:-1])

    def frames(self) -> Iterator[Frame]:
        """The frames in order."""
        at, data, binary, inner = 0, self.body.data, frozenset(self.binary), frozenset(self.inner)
        for nth, size in enumerate(self.sizes):
            yield Frame(data[at : at + size].removesuffix(b"\n"), nth in binary, nth in inner)
            at += size


Outcome: TypeAlias = HttpReply | ToolReply | FramesReply | Failure


@dataclass(frozen=True, slots=True)
class RawOutcome:
    """What came back, secrets included, of a call that a capture keeps in memory until its run has ended.

    `Redactor.redact_outcome` makes an `Outcome` of `native`; an `Exchange` takes nothing else, so that mypy refuses to
    store this.
    """

    native: Outcome = field(repr=False)


@dataclass(frozen=True, slots=True)
class RawValue:
    """Any other value of a captured run that is not redacted yet: its input, its output, the text of its failure."""

    native: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class Timing:
    """Nanoseconds since the run began: when the call was made, when its answer began, when it was complete."""

    start: int = 0
    first: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """The recorded unit: a call, its outcome and its place in the order.

    `start` and `finish` are readings of one counter that the whole run shares: where `a.finish < b.start`, a happened
    before b. `release_order` says what of that a replay keeps.

    Attributes:
        call: What the agent asked.
        outcome: What came back; None for a call that never ended.
        start: The reading when the call was made.
        finish: The reading when it ended; None for a call that never ended.
        lane: One line of a concurrent run: "main", "main.1" and so on.
        attempt: The number of the attempt where an SDK tries again.
        suspended: Whether the caller let others run meanwhile.
        parent: The `start` of the exchange inside which this one happened.
        timing: When it began, when its answer began, when it was complete.
        parts: Pairs of a reading and how many chunks or items had come by then, 0 for the beginning of the answer. Only
            where something else happened before the end of the answer.
        at_once: How much of the answer to a suspended call came before its caller first let others run; -1 where not
            even the beginning did.
        agent: The name of the agent that made the call, where it has one.
    """

    call: Call
    outcome: Outcome | None
    start: int
    finish: int | None
    lane: str = "main"
    attempt: int = 1
    suspended: bool = False
    parent: int | None = None
    timing: Timing = Timing()
    parts: tuple[tuple[int, int], ...] = ()
    at_once: int = -1
    agent: str = ""

    @property
    def made(self) -> int | None:
        """The reading from which on this call is done, for calls that must come after it; None: never.

        A message over a lasting connection is done once it is sent, whenever what comes back comes.
        """
        return self.start if isinstance(self.call, FrameCall) else self.finish

    @property
    def abandoned(self) -> bool:
        """Whether the caller gave up, or the run ended before the answer; never served as a value."""
        return self.outcome is None or (isinstance(self.outcome, Failure) and self.outcome.cancelled)


@dataclass(frozen=True, slots=True)
class Header:
    """The replay kit: what was around the run.

    `test` is the exact node id, `recorded` an ISO 8601 time in UTC, `clock` the wall time at the start of the run in
    nanoseconds since the epoch, `seed` that of `random` and `uuid`. `outcome` is the test's end: `{"status":
    "passed"}` or `{"status": "failed", "type": ..., "message": ...}`. `kit` holds the rest by name (versions,
    platform, git, models, annotations, redactions, gaps, environment by allow-list ...); all of it plain JSON.
    """

    test: str
    recorded: str = ""
    clock: int = 0
    seed: int = 0
    outcome: JsonObject = field(default_factory=dict)
    kit: JsonObject = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Header({self.recorded})"


@dataclass(frozen=True, slots=True)
class Run:
    """One execution of the agent under one test.

    Attributes:
        header: What was around the run: the test, time, seed, versions, outcome.
        exchanges: The exchanges, in order of `start`.
    """

    header: Header
    exchanges: tuple[Exchange, ...] = ()

    def __repr__(self) -> str:
        return f"Run({len(self.exchanges)} exchanges)"
