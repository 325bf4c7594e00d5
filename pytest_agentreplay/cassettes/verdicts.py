"""Compares the request that a test makes with the recorded one that vcrpy answers it with, by the rules of replays.

A cassette may lack headers that its serializer, or an older vcrpy, left out. So only headers are compared that some
request of the cassette has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_agentreplay.cassettes.vcrpy_values import read_reply, read_request, to_text
from pytest_agentreplay.core.canonical_json import NotJson, canonical, parse
from pytest_agentreplay.core.diagnose import describe_change
from pytest_agentreplay.core.diagnose.progress import ReplayProgress
from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.matching.address import split
from pytest_agentreplay.core.model import Exchange, Header, RawCall, Run
from pytest_agentreplay.core.rules import MATCHED_HEADERS
from pytest_agentreplay.dialects import READER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.redaction import Redaction

Verdict: TypeAlias = Literal["equal", "noise", "stale", "wrong interaction"]
Cause: TypeAlias = Literal["", "prompt or history", "parameter", "tool schema", "model", "other", "wrong interaction"]

CAUSES: dict[Kind, Cause] = {Kind.NOISE: "", Kind.ORDER: "wrong interaction", Kind.SCHEMA: "tool schema"}
CAUSES |= {Kind.MODEL: "parameter", Kind.SDK: "parameter"}
CAUSES |= {Kind.PROMPT: "prompt or history", Kind.HISTORY: "prompt or history", Kind.RESULT: "prompt or history"}
WRONG_CAUSE = "vcrpy plays the first interaction that its match_on accepts and that was not played yet"


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
    def call(self) -> Any:
        """The request as it may be shown, with the headers that are compared: an `HttpCall`."""
        call, names = read_request(self.request), self._cassette.header_names
        call = replace(call, headers=tuple(pair for pair in call.headers if pair[0].lower() in names))
        return self._cassette.redaction.redact_call(RawCall(call))

    @cached_property
    def key(self) -> str:
        """The key of the request, by which its secrets match up to renaming."""
        return self._cassette.matching.key_alone(self.call)

    def is_plainly_equal(self, other: ComparedRequest) -> bool:
        """Return whether both are the same but for the form of JSON and headers that only one has, as most are."""
        now, recorded = self.request, other.request
        shared = [name for name in now.headers if name.lower() in MATCHED_HEADERS and name in recorded.headers]
        if (now.method, now.uri) != (recorded.method, recorded.uri) or any(
            to_text(now.headers[name]) != to_text(recorded.headers[name]) for name in shared
        ):
            return False
        if now.body == recorded.body:
            return True
        trees = [parse(body, exact=True) for body in (now.body, recorded.body) if isinstance(body, bytes)]
        forms = [canonical(tree) for tree in trees if not isinstance(tree, NotJson)]
        return len(forms) == 2 and forms[0] == forms[1]

    def is_equal(self, other: ComparedRequest) -> bool:
        """Return whether both are the same request by our rules."""
        return self.is_plainly_equal(other) or self.key == other.key


class LoadedCassette:
    """The interactions of a cassette as they were loaded, and which of them were played."""

    def __init__(self, path: str, data: Iterable[tuple[Any, Any]], matching: Matching, redaction: Redaction) -> None:
        self.path, self.matching, self.redaction = path, matching, redaction
        self._data, self._served = list(data), set[int]()
        self.header_names = {name.lower() for request, _ in self._data for name in request.headers}
        self.requests = [ComparedRequest(request, self) for request, _ in self._data]

    @cached_property
    def progress(self) -> ReplayProgress:
        """The cassette as a recorded run, redacted."""
        exchanges = []
        for start, (request, (_, response)) in enumerate(zip(self.requests, self._data, strict=True)):
            reply = self.redaction.redact_outcome(request.call, read_reply(response))
            exchanges.append(Exchange(request.call, reply, 2 * start, 2 * start + 1))
        return ReplayProgress(Run(Header(""), tuple(exchanges)), READER, self._served, self.matching)

    def compare(self, now: ComparedRequest, index: int) -> tuple[Play, Divergence | None]:
        """Return the verdict on a request that was answered with an interaction; and why, where it is not equal."""
        divergence, play = None, Play(self.path, index, "equal")
        if not now.is_equal(self.requests[index]):
            divergence = self._explain(now, index)
            name, cause = self.progress.name(self.requests[index].call), CAUSES.get(divergence.kind, "other")
            if cause == "parameter" and name != self.progress.name(now.call):
                cause = "model" if self.progress.is_model_call(now.call) else "other"
            address, what = (
                describe_address(now.call.method, now.call.url),
                divergence.summary.removeprefix(f"{name}: "),
            )
            summary = self.redaction.hide(f"{address}: {what}")
            verdict: Verdict = "wrong interaction" if cause == "wrong interaction" else "stale" if cause else "noise"
            play = Play(self.path, index, verdict, cause, summary)
        self._served.add(2 * index)
        return play, divergence

    def _explain(self, now: ComparedRequest, index: int) -> Divergence:
        progress, call = self.progress, now.call
        recorded = progress.run.exchanges[index]
        own = next((number for number, other in enumerate(self.requests, 1) if now.is_equal(other)), None)
        change = progress.explain_change(recorded, call)
        if own is None:
            change = replace(change, cause=change.cause.partition(". Compare the versions")[0])  # which no cassette has
        else:
            what = f"{progress.name(call)}: this is interaction {own}, and interaction {index + 1} was played"
            change = replace(change, kind=Kind.ORDER, what=what, cause=WRONG_CAUSE)
        return describe_change(progress, change, recorded, call)

    def list_unplayed(self) -> dict[int, str]:
        """Return the interactions that were not played, as "POST HOST/PATH" by their numbers."""
        rows = {at: request for at, (request, _) in enumerate(self._data) if 2 * at not in self._served}
        return {at: self.redaction.hide(describe_address(row.method, row.uri)) for at, row in rows.items()}


def describe_address(method: str, url: str) -> str:
    """Return method, host and path, without the query."""
    return f"{method} {split(url).host}{split(url).path}"
