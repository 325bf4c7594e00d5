"""The backend of a fork: the recorded replies before a turn, the real model from there on, all of it recorded anew.

A call of a model takes the recorded reply to the very same request, else the next one of its lane. A tool takes the
recorded result of the same arguments, before the turn and after it; any other call the reply to the same request.
What has no recorded reply is made for real where it asks a model, or where it only reads and tools are live; what
writes is never made. A lasting connection is never opened anew, nor is one continued beyond its recording.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_agentreplay.core.align.evidence import compare, features
from pytest_agentreplay.core.backends.backend import RecordBackend, Refused, Replayed
from pytest_agentreplay.core.case_backend import AnswerPolicy, CaseBackend
from pytest_agentreplay.core.model import Exchange, FrameCall, Header, HttpCall, Run, Timing
from pytest_agentreplay.core.turns import function_of, has_effects, is_model, label, turns
from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.core.backends.backend import Moment, Verdict
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Call
    from pytest_agentreplay.core.reading import Reader
    from pytest_agentreplay.core.turns import Turn

HINTS = (
    "let tools that only read run where nothing is recorded: add --replay-tools=live",
    "or run all of it for real: pytest --snapshot-record without --replay-until",
)
"""What helps a fork that needs what nobody has recorded."""


def before_turn(run: Run, reader: Reader, until: int) -> tuple[Run, int]:
    """Return `run` without the model calls from turn `until` on, and that turn's number.

    Of several lanes each has its own turn of that number, and what comes after it in the lanes above and below goes
    too, since it may follow from it. A negative number counts the turns of all lanes from the end. Raises SettingsError
    for a turn that is not there, and for one that goes over a connection which would have to be open already.
    """
    ordered = sorted((turn for turn in turns(run, reader) if turn.number), key=lambda turn: turn.exchanges[0].start)
    later: list[Turn] = ordered[until:] if -len(ordered) <= until < 0 else []
    for turn in ordered if until > 0 else ():
        follows = any(is_below(turn.lane, other.lane) or is_below(other.lane, turn.lane) for other in later)
        if turn.number >= until or follows:
            later.append(turn)
    if not later:
        last = max((turn.number for turn in ordered), default=0)
        there = f"{last} turn{'s' if last > 1 else ''}: give 1 to {last}, or -1 to -{len(ordered)}" if last else "none"
        raise SettingsError(f"--replay-until={until}: there is no such turn in the recording of {run.header.test}, "
                            f"which has {there}")  # fmt: skip
    models = [x for turn in later for x in turn.exchanges if is_model(x.call, reader)]
    if any(isinstance(x.call, FrameCall) and x.call.connection is not None for x in models):
        raise SettingsError(f"--replay-until={until}: {run.header.test} asks its model over a lasting connection, "
                            "which cannot be opened in the middle: record it anew")  # fmt: skip
    left_out = {x.start for x in models}
    return replace(run, exchanges=tuple(x for x in run.exchanges if x.start not in left_out)), later[0].number


def is_below(lane: str, other: str) -> bool:
    """Return whether `lane` is `other`, or was begun below it."""
    return f"{lane}.".startswith(f"{other}.")


class RecordedAnswers(CaseBackend):
    """What is recorded before the turn of a fork, each reply to be given once."""

    def __init__(self, run: Run, matching: Matching, reader: Reader) -> None:
        """Index `run`, of which the model calls to be made for real are left out."""
        super().__init__(run, matching, reader, AnswerPolicy(model="position", tools="arguments"))
        self._lanes: dict[str, str] = {}  # by lane now, the recorded one whose replies it takes
        self._waiting: dict[str, deque[Exchange]] = defaultdict(deque)

    def _by_position(self, call: Call, moment: Moment) -> tuple[Exchange | Divergence, str]:
        places = self._positions
        if not self._waiting:
            for x in self._top:
                if is_model(x.call, self._reader) and not x.abandoned:
                    self._waiting[places.told[x.lane]].append(x)
        here = places.lane(moment, places.part(call))
        found = self._find(call, moment)
        if found is None or found.abandoned:
            found = self._due(call, here)
        if found is None:
            return self._exhausted(call, moment), ""
        self._lanes.setdefault(here, places.told[found.lane])
        return found, "position"

    def _due(self, call: Call, here: str) -> Exchange | None:
        """The next reply of the recorded lane that is `here` now; one that begins is known by what it asks."""
        for queue in self._waiting.values():
            while queue and queue[0].start in self.served:
                queue.popleft()
        if (lane := self._lanes.get(here)) is not None:
            return next(iter(self._waiting[lane]), None)
        taken = {*self._lanes.values()}
        free = [queue[0] for lane, queue in self._waiting.items() if queue and lane not in taken]
        due = sorted(free, key=lambda x: self._positions.told[x.lane] != here)
        best, now = next(iter(due), None), features(call)
        for x in due[1:]:
            if best is not None and compare(now, features(x.call), features(best.call)).favours == 1:
                best = x
        return best


class ForkBackend(RecordBackend):
    """Records every call, and answers those that `answers` has a reply to. `asked` counts the model calls made."""

    def __init__(
        self, answers: RecordedAnswers, reader: Reader, note: Callable[[Exchange], None], *, live_tools: bool = False
    ) -> None:
        """`live_tools` lets tools that only read run where nothing is recorded; `note` as for any recording."""
        super().__init__(note)
        self.divergence: Divergence | None = None
        self.at_once = answers.at_once
        self.asked = 0
        self.served: dict[int, int] = {}
        """By `start` in the recording, the `start` now of each exchange that was served, or came with one."""
        self.answers = answers
        self._reader = reader
        self._live_tools = live_tools
        self._inside: dict[int | None, list[Exchange]] = defaultdict(list)
        for x in answers.run.exchanges:
            self._inside[x.parent].append(x)
            # No number of now is one of the recording: a message says by it over which connection it goes.
            self._count = max(self._count, x.start, x.finish or 0)

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """What is recorded of the connection that was served for `opening`."""
        return self.answers.connection(opening)

    def decide(self, call: Call, moment: Moment) -> Verdict:
        """Answer from the recording, else forward what may be made for real, and refuse the rest."""
        if self.divergence is not None:
            return Refused(self.divergence)
        inside = moment.parent is not None and function_of(call, self._reader) is None
        if inside or (isinstance(call, FrameCall) and call.connection in self._exchanges):
            return super().decide(call, moment)
        verdict = self.answers.decide(call, moment)
        if isinstance(verdict, Replayed):
            return self._serve(verdict.exchange, call, moment)
        assert isinstance(verdict, Refused)
        asks_model = is_model(call, self._reader)
        if not (asks_model or self._may_be_made(call, moment)) or (isinstance(call, FrameCall) and call.connection):
            return Refused(self._explain(verdict.divergence, call, moment))
        with self._lock:
            self.asked += asks_model
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
            if self.divergence is None:
                self.divergence = replace(divergence, origin=origin)
            return self.divergence

    def _may_be_made(self, call: Call, moment: Moment) -> bool:
        """Whether a call changes nothing, and a provider of models answers it, or tools that read are live."""
        if has_effects(call, self._reader, lambda _: moment.reads) or isinstance(call, FrameCall):
            return False
        provider = isinstance(call, HttpCall) and self._reader.read_call(call).kind not in {"http", "tool", "mcp"}
        return provider or self._live_tools

    def _explain(self, divergence: Divergence, call: Call, moment: Moment) -> Divergence:
        made = turns(Run(Header(""), self.exchanges()), self._reader)
        turn = max((turn.number for turn in made if is_below(moment.lane, turn.lane)), default=0)
        what = f"{label(call, self._reader)} has no recorded reply to this call, and may not be made for real"
        why = "a fork asks the real model alone: a tool gives what is recorded for its arguments, or is not run"
        return replace(divergence, turn=turn, turns=max(turn, divergence.turns), summary=what, cause=why, hints=HINTS)

    def _serve(self, source: Exchange, call: Call, moment: Moment) -> Replayed:
        """Record `call` with the recorded outcome of `source`, in its place and at its time in this run."""
        made = replace(
            source,
            call=source.call if isinstance(call, FrameCall) else call,  # a message keeps the ids of its answer
            lane=moment.lane,
            attempt=moment.attempt,
            agent=moment.agent,
            timing=Timing(moment.at, moment.at, moment.at),
        )
        with self._lock:
            start = self._keep(source, made)
        if self._note is not None:
            self._note(self._exchanges[start])
        return Replayed(replace(source, timing=made.timing), start, handed=partial(self.hand_over, source.start))

    def _keep(self, source: Exchange, made: Exchange, parent: int | None = None) -> int:
        """Give `made` its numbers in this run, and take what was recorded inside `source` along; return its start."""
        self._count += 1
        start = self.served[source.start] = self._count
        if isinstance(made.call, FrameCall) and made.call.connection is not None:
            made = replace(made, call=replace(made.call, connection=self.served.get(made.call.connection)))
        self._exchanges[start] = replace(made, start=start, parent=parent, parts=())
        for x in self._inside.get(source.start, ()):
            self._keep(x, replace(x, timing=made.timing), start)
        self._count += 1
        self._exchanges[start] = replace(self._exchanges[start], finish=self._count)
        return start
