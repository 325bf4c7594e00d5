"""The backend of a fork: the recorded replies before a turn, the real model from there on, all of it recorded anew.

A call of a model is aligned with a recorded one as `AdoptBackend` does, whatever it asks: by the same request, else by
its lane, and by its words where several lanes begin. It takes the reply where that one is before the turn. Any other
call takes the recorded reply to the same call, before the turn and after it. What has none is made for real where it
asks a model, or only reads while tools are live; what writes never is. Nor is a lasting connection opened or continued.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_agentreplay.core.backends.adopt import AdoptBackend
from pytest_agentreplay.core.backends.backend import Moment, RecordBackend, Refused, Replayed, Verdict
from pytest_agentreplay.core.backends.replay import ReplayPolicy, only_reads
from pytest_agentreplay.core.model import Call, Exchange, FrameCall, Run, Timing, ToolCall
from pytest_agentreplay.core.turns import Turn, function_of, is_model, turns
from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.reading import Reader

CAUSE = "the run took another way than when recorded, and a fork runs no tool whose result is not there"
LET_READ = "let tools that only read run where nothing is recorded: add --replay-tools=live"
RUN_ALL = "or run all of it for real: pytest --snapshot-record without --replay-until"


def turns_from(run: Run, reader: Reader, until: int) -> list[Turn]:
    """Return the turns that are asked anew: those from number `until` on, and what follows from them.

    Each lane has its own turn of that number; what comes after it in the lanes above and below may follow from it. A
    negative number counts the turns of all lanes from the end. Raises SettingsError for a turn that is not there, and
    for one that goes over a connection which would have to be open.
    """
    ordered = sorted((turn for turn in turns(run, reader) if turn.number), key=lambda turn: turn.exchanges[0].start)
    later: list[Turn] = ordered[until:] if -len(ordered) <= until < 0 else []
    for turn in ordered if until > 0 else ():
        lanes = [(f"{turn.lane}.", f"{other.lane}.") for other in later]
        if turn.number >= until or any(mine.startswith(other) or other.startswith(mine) for mine, other in lanes):
            later.append(turn)
    last, problem = max((turn.number for turn in ordered), default=0), ""
    if not later:
        there = f"it has {last}, so give 1 to {last}, or -1 to -{len(ordered)}" if last else "it has none"
        problem = f"has no such turn in its recording: {there}"
    elif any(turn.model is not None and isinstance(turn.model.call, FrameCall) for turn in later):
        problem = "asks its model over a lasting connection, which cannot be opened in its middle: record it anew"
    if problem:
        raise SettingsError(f"--replay-until={until}: {run.header.test} {problem}")
    return later


class RecordedAnswers(AdoptBackend):
    """The recorded calls, of which those of models alone may be asked otherwise, in any order."""

    def _fallback(self, call: Call, moment: Moment) -> Exchange | Divergence:
        return super()._fallback(call, moment) if is_model(call, self._reader) else self._miss(call, moment)


class ForkBackend(RecordBackend):
    """Records every call, and serves what `answers` has but for the exchanges `anew`."""

    def serve(self, answers: RecordedAnswers, anew: set[int], reader: Reader, *, live: bool) -> None:
        """Begin. `live` lets tools that only read run where nothing is recorded."""
        self.divergence: Divergence | None = None
        self.served: dict[int, int] = {}  # by `start` in the recording, that of now
        self.answers, self._anew, self._reader, self._live = answers, anew, reader, live
        answers.policy = ReplayPolicy(any_order=True)
        # No number of now is one of the recording: a message says by it over which connection it goes.
        self._count = max((reading for x in answers.run.exchanges for reading in (x.start, x.finish or 0)), default=0)

    at_once = False

    def recognise(self, call: Call) -> bool:
        """Return False: each call has to be scanned for secrets before it is kept."""
        del call
        return False

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """Return what is recorded of the connection that was served for `opening`."""
        return self.answers.connection(opening)

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Answer from the recording, else forward what may be made for real, and refuse the rest."""
        if self.divergence is not None:
            return Refused(self.divergence)
        connection = call.connection if isinstance(call, FrameCall) else None
        if connection in self._exchanges or (moment.parent is not None and function_of(call, self._reader) is None):
            return super().decide(call, moment)  # of a connection, or inside a call, that is made for real
        verdict = self.answers.decide(call, moment)
        if isinstance(verdict, Replayed):
            if verdict.handed is not None:
                verdict.handed()  # the answers wait for nobody: the order is that of this run
            if verdict.exchange.start not in self._anew:
                return self._serve(verdict.exchange, call, moment)
        if isinstance(verdict, Refused) and (connection is not None or not self._may_be_made(call, moment)):
            return Refused(replace(verdict.divergence, cause=CAUSE, hints=(LET_READ, RUN_ALL)))
        return super().decide(call, moment)

    def hand_over(self, recorded: int) -> None:
        """Note that the answer recorded as `recorded` has come, as far as it has."""
        with self._lock:
            self._count += 1
            start = self.served[recorded]
            parts = tuple(self._parts.get(start, ()))
            self._exchanges[start] = replace(self._exchanges[start], finish=self._count, parts=parts)

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first refusal, with the agent's line that led to it."""
        with self._lock:
            self.divergence = self.divergence or replace(divergence, origin=origin)
            return self.divergence

    def _may_be_made(self, call: Call, moment: Moment) -> bool:
        """Whether a provider of models answers a call, or it only reads and tools are live."""
        provider = not isinstance(call, ToolCall) and self._reader.read_call(call).kind not in {"http", "tool", "mcp"}
        return provider or is_model(call, self._reader) or (self._live and only_reads(call, moment))

    def _serve(self, source: Exchange, call: Call, moment: Moment) -> Replayed:
        """Record `call` with the recorded outcome of `source`, in its place and at its time in this run."""
        if isinstance(call, FrameCall) and isinstance(source.call, FrameCall):  # with the ids of its answer
            call = replace(source.call, connection=self.served.get(call.connection or 0))
        now = replace(source, timing=Timing(moment.at, moment.at, moment.at))
        made = replace(now, call=call, lane=moment.lane, attempt=moment.attempt, parent=moment.parent, parts=())
        with self._lock:
            self._count += 1
            start = self.served[source.start] = self._count
            self._exchanges[start] = replace(made, start=start, agent=moment.agent)
        self.hand_over(source.start)
        if self._note is not None:
            self._note(self._exchanges[start])
        return Replayed(now, start, handed=partial(self.hand_over, source.start))
