"""Compares the request that a test makes with the recorded one that vcrpy answers it with, by the rules of replays.

A cassette may lack headers that its serializer, or an older vcrpy, left out. So only headers are compared that some
request of the cassette has; where it keeps even "user-agent", a header that it lacks was not sent.

Nothing here imports vcrpy: its objects are handed in, and read as calls and replies of ours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.compare.align.pairing import Features, compare, features
from pytest_agentreplay.compare.diagnose import describe_change
from pytest_agentreplay.compare.diagnose.progress import ReplayProgress
from pytest_agentreplay.compare.matching.address import split
from pytest_agentreplay.model.canonical_json import NOT_JSON, NotJson, canonical, parse
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.exchanges import Body, Exchange, Header, HttpCall, HttpReply, JsonObject, RawCall, Run
from pytest_agentreplay.model.rules import MATCHED_HEADERS
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.redaction.redaction import Redaction

Verdict: TypeAlias = Literal["equal", "noise", "stale", "wrong interaction"]
Cause: TypeAlias = Literal["", "prompt or history", "parameter", "tool schema", "model", "other", "wrong interaction"]

CAUSES: dict[Kind, Cause] = {Kind.NOISE: "", Kind.ORDER: "wrong interaction", Kind.SCHEMA: "tool schema"}
CAUSES |= {Kind.MODEL: "parameter", Kind.SDK: "parameter"}
CAUSES |= {Kind.PROMPT: "prompt or history", Kind.HISTORY: "prompt or history", Kind.RESULT: "prompt or history"}
WRONG_CAUSE = "the first interaction is played that match_on accepts and that was not played yet"
LONGEST_READ, LONGEST_UPLOAD = 1 << 18, 1 << 13
"""Bytes; no text of a longer reply, or of a longer body that asks no model, is read: 2 to 10 MB take a second."""


@dataclass(frozen=True)
class Play:
    """One played request, as plain data that crosses xdist.

    Attributes:
        cassette: The path of the cassette, from the root of the project where it lies below.
        index: The number of the interaction that was played, from 0, as it was loaded.
        verdict: "noise" is a request that differs only in a clock, a random id or a place.
        cause: What changed; "" of a request that is equal, or noise.
        summary: What differs, on one line, redacted.
    """

    cassette: str
    index: int
    verdict: Verdict
    cause: Cause = ""
    summary: str = ""


class ComparedRequest:
    """A request of vcrpy; what a comparison needs of it is computed when it is asked for."""

    def __init__(self, request: Any, cassette: LoadedCassette) -> None:
        self.request, self._cassette = request, cassette

    @cached_property
    def sent(self) -> HttpCall:
        """The request with the headers that are compared; it may hold secrets."""
        call, names = read_request(self.request), self._cassette.header_names
        return replace(call, headers=tuple(pair for pair in call.headers if pair[0].lower() in names))

    @cached_property
    def call(self) -> Any:
        """The request as it may be shown, an `HttpCall`; of a long body that asks no model size and digest."""
        call, body = self.sent, self.sent.body
        if len(body.data) > (LONGEST_UPLOAD if self.json is None else LONGEST_READ) and not self.is_asking_model:
            call = replace(call, body=Body(f"{len(body.data)} bytes, SHA-256 {body.digest}...".encode()))
        return self._cassette.redaction.redact_call(RawCall(call))

    @cached_property
    def is_asking_model(self) -> bool:
        """Whether a model is asked."""
        return self.request.method == "POST" and is_model(self.sent, READER)

    @cached_property
    def features(self) -> Features:
        """What tells the request from others."""
        return features(self.sent)

    @cached_property
    def sent_key(self) -> str:
        """The key of the request with its secrets, which takes no redaction."""
        return self._cassette.matching.key_alone(self.sent)

    @cached_property
    def key(self) -> str:
        """The key of the redacted request, by which secrets match up to renaming."""
        return self._cassette.matching.key_alone(self.call)

    @cached_property
    def headers(self) -> list[str]:
        """The values of the headers that are matched as they stand."""
        names = sorted(self._cassette.header_names & MATCHED_HEADERS)
        return [to_text(self.request.headers.get(name, "")) for name in names]

    @cached_property
    def json(self) -> str | None:
        """The canonical form of a body of JSON."""
        body = self.request.body
        tree = parse(body, exact=True) if isinstance(body, bytes) else NOT_JSON
        return None if isinstance(tree, NotJson) else canonical(tree)

    def is_plainly_equal(self, other: ComparedRequest) -> bool:
        """Return whether both are the same but for the form of JSON, as most are."""
        now, recorded = self.request, other.request
        return (
            (now.method, now.uri) == (recorded.method, recorded.uri)
            and (now.body == recorded.body or (self.json is not None and self.json == other.json))
            and self.headers == other.headers
        )

    def is_equal(self, other: ComparedRequest) -> bool:
        """Return whether both are the same request by our rules, secrets included."""
        return self.is_plainly_equal(other) or self.sent_key == other.sent_key


class LoadedCassette:
    """The interactions of a cassette as they were loaded, and which of them were played."""

    def __init__(self, path: str, data: Iterable[tuple[Any, Any]], matching: Matching, redaction: Redaction) -> None:
        self.path, self.matching, self.redaction = path, matching, redaction
        self._data, self._served, self._exchanges = list(data), set[int](), dict[int, Exchange]()
        self.header_names = {name.lower() for request, _ in self._data for name in request.headers}
        self.header_names |= MATCHED_HEADERS if "user-agent" in self.header_names else set()
        self.requests = [ComparedRequest(request, self) for request, _ in self._data]

    def make_progress(self, index: int) -> tuple[ReplayProgress, Exchange]:
        """Return a recorded run, redacted, of the calls of models and of the interaction `index`; and that in it."""
        numbers = [at for at, request in enumerate(self.requests) if at == index or request.is_asking_model]
        exchanges = {at: self._read_exchange(at) for at in numbers}
        run = Run(Header(""), tuple(exchanges.values()))
        return ReplayProgress(run, READER, self._served, self.matching), exchanges[index]

    def _read_exchange(self, at: int) -> Exchange:
        """Return an interaction, redacted, with a reply whose texts a later request of a model may hold."""
        if at not in self._exchanges:
            request, (_, response) = self.requests[at], self._data[at]
            reply = read_reply(response) if request.is_asking_model else HttpReply(200)
            if len(reply.body.data) > LONGEST_READ:
                reply = HttpReply(200)
            outcome = self.redaction.redact_outcome(request.call, reply)
            self._exchanges[at] = Exchange(request.call, outcome, 2 * at, 2 * at + 1)
        return self._exchanges[at]

    def compare(self, now: ComparedRequest, index: int) -> tuple[Play, Divergence | None]:
        """Return the verdict on a request that was answered with an interaction; and why, where it is not equal."""
        divergence, play = None, Play(self.path, index, "equal")
        recorded = self.requests[index]
        if not now.is_equal(recorded) and now.key != recorded.key:
            play, divergence = self._explain(now, index)
        self._served.add(2 * index)
        return play, divergence

    def _explain(self, now: ComparedRequest, index: int) -> tuple[Play, Divergence]:
        progress, recorded = self.make_progress(index)
        call, name = now.call, progress.name(recorded.call)
        change = progress.explain_change(recorded, call)
        own = next((number for number, other in enumerate(self.requests, 1) if now.is_equal(other)), None)
        if own is None:
            change = replace(change, cause=change.cause.partition(". Compare the versions")[0])  # which no cassette has
        else:
            what = f"{progress.name(call)}: this is interaction {own}, and interaction {index + 1} was played"
            change = replace(change, kind=Kind.ORDER, what=what, cause=WRONG_CAUSE)
        cause = CAUSES.get(change.kind, "other")
        if cause == "parameter" and name != progress.name(call):
            cause = "model" if progress.is_model_call(call) else "other"
        summary = f"{describe_address(call.method, call.url)}: {change.what.removeprefix(f'{name}: ')}"
        verdict: Verdict = "wrong interaction" if cause == "wrong interaction" else "stale" if cause else "noise"
        play = Play(self.path, index, verdict, cause, self.redaction.hide(summary))
        return play, describe_change(progress, change, recorded, call)

    def find_nearest(self, now: ComparedRequest, numbers: list[int]) -> int:
        """Return which of the interactions that vcrpy would take is equal, or else the nearest.

        So the owner of a reply gets it, though a changed request that runs at the same time comes first.
        """
        for at in numbers:
            if now.is_equal(self.requests[at]):
                return at
        best, *others = numbers
        for at in others:
            if compare(now.features, self.requests[at].features, self.requests[best].features).favours == 1:
                best = at
        return best

    def list_unplayed(self) -> dict[int, str]:
        """Return the interactions that were not played, as "POST HOST/PATH" by their numbers."""
        rows = {at: request for at, (request, _) in enumerate(self._data) if 2 * at not in self._served}
        return {at: self.redaction.hide(describe_address(row.method, row.uri)) for at, row in rows.items()}


def describe_address(method: str, url: str) -> str:
    """Return method, host and path, without the query."""
    return f"{method} {split(url).host}{split(url).path}"


JSON_TYPE = ("content-type", "application/json")


def read_request(request: Any) -> HttpCall:
    """Return a `vcr.request.Request`, or the stub of one, as a call.

    aiohttp's stub keeps `json=` and `data=` as the object that the caller gave; it is taken for JSON.
    """
    headers = tuple(flatten_headers(request.headers))
    # Private since vcrpy 4: `body` makes a new file or iterator of a body that was one, `_body` is what was read.
    # https://github.com/kevin1024/vcrpy/blob/v8.0.0/vcr/request.py
    body = getattr(request, "_body", None)
    if isinstance(body, list) and all(isinstance(part, bytes) for part in body):
        body = b"".join(body)
    if isinstance(body, dict | list | tuple):
        body = json.dumps(body, default=str).encode()
        headers = (JSON_TYPE, *(pair for pair in headers if pair[0].lower() != JSON_TYPE[0]))
    elif isinstance(body, str):
        body = body.encode()
    return HttpCall(request.method.upper(), request.uri.partition("#")[0], headers, Body(bytes(body or b"")))


def read_reply(response: JsonObject) -> HttpReply:
    """Return a recorded response, in today's form or in that of vcrpy's first releases for httpx, as a reply."""
    status: Any = response.get("status", {"code": response.get("status_code"), "message": ""})
    body: Any = response.get("body", {"string": response.get("content", b"")})
    text = body.get("string", b"") if isinstance(body, dict) else body
    data = text.encode() if isinstance(text, str) else bytes(text or b"")
    return HttpReply(
        status["code"], status.get("message") or "", "HTTP/1.1", tuple(flatten_headers(response["headers"])), Body(data)
    )


def flatten_headers(headers: Any) -> Iterator[tuple[str, str]]:
    """Yield the headers as pairs; a value may be a list, or one text, as bytes too."""
    for name, values in headers.items():
        for value in values if isinstance(values, list | tuple) else (values,):
            yield to_text(name), to_text(value)


def to_text(value: Any) -> str:
    """Return the name or value of a header, byte for character."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
