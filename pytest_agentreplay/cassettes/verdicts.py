"""Compares the request that a test makes with the recorded one that vcrpy answers it with, by the rules of replays.

A cassette may lack headers that its serializer, or an older vcrpy, left out. So a header is compared only where some
request of the cassette has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.cassettes.vcrpy_values import read_reply, read_request, to_text
from pytest_agentreplay.core.diagnose.progress import ReplayProgress
from pytest_agentreplay.core.divergence import ABSENT, Divergence, Kind
from pytest_agentreplay.core.matching.address import split
from pytest_agentreplay.core.model import Exchange, Header, HttpCall, RawCall, Run
from pytest_agentreplay.core.rules import MATCHED_HEADERS
from pytest_agentreplay.dialects import READER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.redaction import Redaction

Verdict: TypeAlias = Literal["equal", "noise", "stale", "wrong interaction"]
Cause: TypeAlias = Literal["", "prompt or history", "parameter", "tool schema", "model", "other"]

CAUSES: dict[Kind, Cause] = {
    **dict.fromkeys((Kind.PROMPT, Kind.HISTORY, Kind.RESULT), "prompt or history"),  # type: ignore[dict-item]
    **dict.fromkeys((Kind.MODEL, Kind.SDK), "parameter"),  # type: ignore[dict-item]
    Kind.SCHEMA: "tool schema",
}
WRONG_CAUSE = "vcrpy takes the first interaction that its match_on accepts and that was not played yet"


@dataclass(frozen=True, slots=True)
class Play:
    """One played request, as plain data that crosses xdist.

    Attributes:
        cassette: The path of the cassette, from the root of the project where it lies below.
        index: The number of the interaction that was played, from 0, as it was loaded.
        verdict: "noise" is a request that differs only in a clock, a random id or a place.
        cause: What changed, of a stale request.
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
        self.request = request
        self._cassette = cassette

    @cached_property
    def call(self) -> HttpCall:
        """The request as it was made, with the headers that are compared. It may hold secrets."""
        call, names = read_request(self.request), self._cassette.header_names
        return replace(call, headers=tuple(pair for pair in call.headers if pair[0].lower() in names))

    @cached_property
    def redacted(self) -> Any:
        """The request as it may be shown: an `HttpCall`."""
        return self._cassette.redaction.redact_call(RawCall(self.call))

    @cached_property
    def key(self) -> str:
        """The key of the request as it was made, which costs no redaction."""
        return self._cassette.matching.key_alone(self.call)

    @cached_property
    def redacted_key(self) -> str:
        """The key by which credentials match up to renaming."""
        return self._cassette.matching.key_alone(self.redacted)

    def is_equal(self, other: ComparedRequest) -> bool:
        """Return whether both are the same request; most are byte for byte."""
        return (
            is_plainly_equal(self.request, other.request)
            or self.key == other.key
            or self.redacted_key == other.redacted_key
        )


class LoadedCassette:
    """The interactions of a cassette as they were loaded, and which of them were played."""

    def __init__(self, path: str, data: Iterable[tuple[Any, Any]], matching: Matching, redaction: Redaction) -> None:
        self.path, self.matching, self.redaction = path, matching, redaction
        self._interactions = list(data)
        self.requests = [ComparedRequest(request, self) for request, _ in self._interactions]
        self._served: set[int] = set()

    @cached_property
    def header_names(self) -> frozenset[str]:
        """The names, in lower case, of the headers that the recorded requests have."""
        return frozenset(name.lower() for request, _ in self._interactions for name in request.headers)

    @cached_property
    def progress(self) -> ReplayProgress:
        """The cassette as a recorded run, redacted."""
        exchanges = []
        for start, (compared, (_, response)) in enumerate(zip(self.requests, self._interactions, strict=True)):
            reply = self.redaction.redact_outcome(compared.redacted, read_reply(response))
            exchanges.append(Exchange(compared.redacted, reply, 2 * start, 2 * start + 1))
        return ReplayProgress(Run(Header(""), tuple(exchanges)), READER, self._served, self.matching)

    def compare(self, request: Any, index: int) -> tuple[Play, Divergence | None]:
        """Return the verdict on a `request` that was answered with an interaction; with why, where it is not equal."""
        now = ComparedRequest(request, self)
        play, divergence = Play(self.path, index, "equal"), None
        if not now.is_equal(self.requests[index]):
            own = next((number for number, other in enumerate(self.requests) if now.is_equal(other)), None)
            divergence = self._explain(now, index, own)
            verdict: Verdict = "wrong interaction" if own is not None else "stale"
            is_noise = divergence.kind is Kind.NOISE
            cause = CAUSES.get(divergence.kind, "other") if own is None and not is_noise else ""
            if cause == "parameter" and self._name(now) != self._name(self.requests[index]):
                cause = "model"
            what = divergence.summary.removeprefix(f"{self._name(self.requests[index])}: ")
            summary = f"{format_address(now.redacted.method, now.redacted.url)}: {what}"
            play = Play(self.path, index, "noise" if is_noise else verdict, cause, self.redaction.hide(summary))
        self._served.add(2 * index)
        return play, divergence

    def _name(self, compared: ComparedRequest) -> str:
        return self.progress.name(compared.redacted)

    def _explain(self, now: ComparedRequest, index: int, own: int | None) -> Divergence:
        progress, call = self.progress, now.redacted
        recorded = progress.run.exchanges[index]
        # A header on one side alone is one that the cassette does not keep for each request.
        differences = tuple(
            difference
            for difference in progress.compare(recorded.call, call)
            if not (difference.path.startswith("headers.") and ABSENT in difference[1:3])
        )
        if own is not None:
            summary = f"{progress.name(call)} is answered with interaction {index + 1}, but is interaction {own + 1}"
            kind, cause, detail = Kind.ORDER, WRONG_CAUSE, ""
        else:
            change = progress.explain_change(recorded, call, differences)
            kind, summary, differences = change.kind, change.what, change.differences
            cause, detail = change.cause.partition(". Compare the versions")[0], progress.find_source(change, recorded)
        return progress.make_divergence(
            kind,
            summary,
            recorded,
            recorded=recorded,
            now=call,
            differences=differences,
            cause=cause,
            detail=(detail,) if detail else (),
        )

    def list_unplayed(self) -> dict[int, str]:
        """Return the interactions that were not played, as "POST HOST/PATH" by their numbers."""
        return {
            index: self.redaction.hide(format_address(request.method, request.uri))
            for index, (request, _) in enumerate(self._interactions)
            if 2 * index not in self._served
        }


def is_plainly_equal(now: Any, recorded: Any) -> bool:
    """Return whether two requests of vcrpy are the same without a look at any rule."""
    return (
        now.method == recorded.method
        and now.uri == recorded.uri
        and now.body == recorded.body
        and not any(
            name.lower() in MATCHED_HEADERS
            and name in recorded.headers
            and to_text(value) != to_text(recorded.headers[name])
            for name, value in now.headers.items()
        )
    )


def format_address(method: str, url: str) -> str:
    """Return method, host and path, without the query."""
    parts = split(url)
    return f"{method} {parts.host}{parts.path}"
