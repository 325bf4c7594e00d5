"""Makes the text of a captured run that is kept: redacted as a whole, encoded, and scanned for what may not leave.

It runs in the thread that writes, never in the service's. What is raw comes in as `RawCall`, `RawOutcome` and
`RawValue`, and goes no further than the redaction.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.compare.matching.credentials import without_lone
from pytest_agentreplay.errors import AgentReplayError, Leak, visible
from pytest_agentreplay.intercept.environment.machine import find_places, read_zone
from pytest_agentreplay.model.exchanges import (
    Body,
    Exchange,
    FrameCall,
    Header,
    HttpCall,
    HttpReply,
    RawCall,
    RawOutcome,
    RawValue,
    Run,
)
from pytest_agentreplay.model.recorded_order import renumber
from pytest_agentreplay.model.turns import tool_of
from pytest_agentreplay.providers import READER, is_declared
from pytest_agentreplay.redaction.policy import Policy
from pytest_agentreplay.runs import replay_kit
from pytest_agentreplay.runs.capture.ended_capture import EndedCapture
from pytest_agentreplay.runs.redact import redaction_setup
from pytest_agentreplay.runs.redact.final_scan import rest, scan_run
from pytest_agentreplay.snapshots.kit import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Json, JsonObject
    from pytest_agentreplay.redaction.redaction import Redaction

PERSONAL = Policy(pii=True)
"""What comes from a service has people in it."""
LONG, SHORT = 96, 16
"""Bytes of each text among the facts that lists read, and so many where those would not end in the first 2 kB."""
FACTS = 1_400
"""How many bytes those facts may take: what stands before them takes up to 600."""
BARE = 65_536
"""Bytes of the input, output and annotations of a run that is too large to be kept whole."""


@dataclass(frozen=True, slots=True)
class SealedRun:
    """A run as it is written.

    Attributes:
        name: Its name, redacted.
        day: The day on which it began.
        id: Its id, redacted.
        text: The text of its file.
        refused: What the last scan refused, where this is the rest of a run; "" for a whole one.
    """

    name: str
    day: str
    id: str
    text: str
    refused: str = ""


def make_sample() -> EndedCapture:
    """Return a run with a stream, a message, a secret and a personal value: sealing it takes what sealing any does."""
    question, stream = Body(b'{"model": "m", "messages": []}'), Body(b'data: {"choices": []}\n\n')
    headers = ("content-type", "text/event-stream"), ("set-cookie", "session=5f4dcc3b5aa765d61d8327deb882cf99")
    call = HttpCall("POST", "https://api.openai.com/v1/chat/completions", (), question)
    reply, opening = HttpReply(200, headers=headers, body=stream, cuts=(len(stream),)), FrameCall("wss://example.org")
    exchanges = Exchange(call, None, 1, 2), Exchange(opening, None, 3, None)
    calls, outcomes = {1: RawCall(call), 3: RawCall(opening)}, {1: RawOutcome(reply)}
    return EndedCapture("sample", "sample", 0, 0.0, exchanges, calls, outcomes, input=RawValue("ada@example.org"))


class Sealer:
    """Seals the runs of one service."""

    def __init__(self, policy: str | Path | None = None, *, service: str = "", version: str = "") -> None:
        """Read the policy file, where one is named; else secrets and personal values go. Raises PolicyError."""
        self._policy = PERSONAL if policy is None else redaction_setup.load_policy(Path(policy))
        self._service, self._version = service, version
        self._root = Path.cwd()
        # Seal a run (40 ms), which imports what sealing needs: a fork waits for this, and for no later import.
        with suppress(AgentReplayError):  # a policy may refuse it
            self.seal(make_sample(), "")

    def seal(self, ended: EndedCapture, reason: str) -> SealedRun:
        """Return the text of a run, or of the rest of one that the last scan refused.

        Raises Leak where nothing of it may be kept, CannotWrite for what no file can hold.
        """
        redaction = redaction_setup.redaction_for(
            os.environ, find_places(self._root), policy=self._policy, is_declared=is_declared
        )
        exchanges, now = renumber(() if ended.is_bare else redact_exchanges(redaction, ended))
        exchanges = without_lone(exchanges)
        values = redact_values(redaction, ended, BARE if ended.is_bare else None)
        outcome: JsonObject = {"status": "passed"}
        if ended.failure is not None:
            failure = redaction.redact_value(ended.failure)
            outcome = {"status": "failed", **(failure if isinstance(failure, dict) else {})}
        kit: JsonObject = {"clock": {"mode": "real"}, "zone": {**read_zone(ended.began)}}
        kit |= ended.kit | replay_kit.describe_run(self._root, exchanges, redaction, self._policy, os.environ)
        if ended.lanes is not None:
            kit |= ended.lanes.describe(exchanges, now)
        kit = {key: value for key, value in kit.items() if value not in ([], {}, None)}
        recorded = datetime.fromtimestamp(ended.began / 1e9, UTC).isoformat(timespec="seconds")
        header = redaction.redact_header(Header("", recorded, ended.began, kit=kit))
        redaction.take_places({})  # a run is found by its name and id, whatever the user and the host are called
        name, identity = (shorten(redaction.redact_text(text), LONG) for text in (ended.name, ended.id))
        texts = {"service": self._service, "version": self._version, "reason": reason, "cold": ended.cold}
        facts: JsonObject = {"id": identity, "name": name}
        facts |= {key: redaction.redact_text(text) for key, text in texts.items() if text}
        facts |= {"outcome": outcome, **describe_calls(exchanges), "calls": len(ended.exchanges), "length": ended.size}
        kit = {"capture": facts, **header.kit, **values}
        header = replace(header, test=f"{name}/{identity}", outcome=outcome, kit=kit)
        run = Run(header, exchanges)
        if redaction.text.has_learnt:  # a value that became known late may stand in what was redacted before
            run = redaction.rescan(run)
        text, refused = encode(redaction, run)
        return SealedRun(name, recorded.partition("T")[0], identity, text, refused)


def redact_exchanges(redaction: Redaction, ended: EndedCapture) -> Iterator[Exchange]:
    """Yield the exchanges with their calls and outcomes, redacted."""
    for x in ended.exchanges:
        clocks.sleep(0)  # the service goes first: else it would wait for the interpreter's lock, 5 ms each time
        call = redaction.redact_call(ended.calls[x.start])
        raw, agent = ended.outcomes.get(x.start), ended.agents.get(x.agent)
        outcome = None if raw is None else redaction.redact_outcome(call, raw.native)
        yield replace(x, call=call, outcome=outcome, agent="" if agent is None else str(redaction.redact_value(agent)))


def redact_values(redaction: Redaction, ended: EndedCapture, most: int | None) -> JsonObject:
    """Return input, output and annotations, redacted; each only up to `most` bytes, where that is a number."""
    raw = {"input": ended.input, "output": ended.output, "annotations": ended.annotations}
    values = {key: redaction.redact_value(value) for key, value in raw.items() if value is not None}
    return {key: value for key, value in values.items() if most is None or len(json.dumps(value)) <= most}


def describe_calls(exchanges: tuple[Exchange, ...]) -> JsonObject:
    """Return the models that were asked, the tools in the order of their calls, and how often a model was asked."""
    models = [call.model for x in exchanges if (call := READER.read_call(x.call)).kind == "model"]
    tools = [tool.name for x in exchanges if x.parent is None and (tool := tool_of(x.call, READER)) is not None]
    return {"models": [*dict.fromkeys(models)], "tools": [*tools], "turns": len(models)}


def encode(redaction: Redaction, run: Run) -> tuple[str, str]:
    """Return the text of a run after the last scan, or of its rest and what was refused. Raises Leak without a rest."""
    facts = fit_facts(table(run.header.kit, "capture"))
    try:
        return scan_run(redaction, add_facts(run, facts), run.header.test), ""
    except Leak as leak:
        if text := rest(redaction, add_facts(run, facts | {"cold": "what the last scan refused of it was cut out"})):
            return text, str(leak)
        raise


def add_facts(run: Run, facts: JsonObject) -> Run:
    """Return a run with these facts for lists, which stand before all else of its kit."""
    return replace(run, header=replace(run.header, kit={**run.header.kit, "capture": facts}))


def fit_facts(facts: JsonObject) -> JsonObject:
    """Return facts that are short enough to be read from the head of a file."""
    for limit in (LONG, SHORT):
        short = {key: shorten_fact(value, limit) for key, value in facts.items()}
        if len(json.dumps(short, ensure_ascii=False, indent=2).encode()) <= FACTS:
            break
    return short


def shorten_fact(fact: Json, limit: int) -> Json:
    """Return a fact with each text of at most `limit` bytes, and lists of a third as many items."""
    if isinstance(fact, str):
        return shorten(fact, limit)
    if isinstance(fact, list):
        return [shorten_fact(item, limit) for item in fact[: limit // 3]]
    return {key: shorten_fact(value, limit) for key, value in fact.items()} if isinstance(fact, dict) else fact


def shorten(text: str, limit: int) -> str:
    """Return a text in one line that a terminal shows as it is, of at most `limit` bytes."""
    data = visible(" ".join(text.split())).encode(errors="replace")
    return data.decode() if len(data) <= limit else data[: limit - 3].decode(errors="ignore") + "…"
