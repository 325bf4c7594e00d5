"""The gate that gives old replies to changed requests, because somebody says that every reply still holds."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.core import explain
from pytest_agentreplay.core.frames import connections
from pytest_agentreplay.core.gate import Answer, Moment, Refuse
from pytest_agentreplay.core.model import FrameCall, ToolCall

if TYPE_CHECKING:
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Call, Exchange, Outcome, Run
    from pytest_agentreplay.core.reading import Reader


class Adopter:
    """Serves by position: the next exchange of the lane at the same endpoint or tool, and keeps the new call.

    A call more or a call less than recorded is refused: there is no old reply for it, or one would be lost.
    """

    def __init__(self, run: Run, reader: Reader, matching: Matching) -> None:
        """`run` is the recorded one; `matching` says which of the new calls are the old ones."""
        self.run = run
        self._matching = matching
        self.divergence: Divergence | None = None
        self._reader = reader
        self._lock = threading.Lock()
        self._calls: dict[int, Call] = {}
        self._connections: dict[int, tuple[Exchange, ...]] | None = None
        self._queues: dict[tuple[str, str], deque[Exchange]] = defaultdict(deque)
        for x in run.exchanges:
            if x.parent is None:
                self._queues[x.lane, endpoint(x.call)].append(x)

    def recognise(self, call: Call) -> bool:
        """Never: each new call has to be scanned for secrets before it is kept."""
        del call
        return False

    def connection(self, opening: int) -> tuple[Exchange, ...]:
        """The exchanges of the connection that `opening` opened."""
        if self._connections is None:
            self._connections = connections(self.run)
        return self._connections.get(opening, ())

    def ask(self, call: Call, moment: Moment) -> Answer | Refuse:
        """The old reply at this position, or a refusal."""
        with self._lock:
            if self.divergence is not None:
                return Refuse(self.divergence)
            queue = self._queues[moment.lane, endpoint(call)]
            if not queue:
                served, lane, agent = self._calls.keys(), moment.lane, moment.agent
                missed = explain.miss(self.run, self._reader, served, call, lane, agent=agent, matching=self._matching)
                return Refuse(missed)
            x = queue.popleft()
            self._calls[x.start] = call
            return Answer(x, len(self._calls))

    def stalled(self, call: Call, found: Exchange, expected: Exchange | None) -> Divergence:
        """Why `call` is not answered: it never was when recorded, and nothing is left that could give it up."""
        if expected is None:
            return explain.unanswered(self.run, self._reader, self._calls.keys(), call, found)
        return explain.stalled(self.run, self._reader, self._calls.keys(), call, found=found, expected=expected)

    def part(self, ticket: int, chunks: int, *, at_once: bool = False) -> None:
        """Never called: nothing is forwarded."""
        del ticket, chunks, at_once

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Never called: nothing is forwarded."""
        del ticket, outcome, at, first, suspended

    def latch(self, divergence: Divergence, origin: str) -> Divergence:
        """Keep the first refusal."""
        with self._lock:
            if self.divergence is None:
                self.divergence = replace(divergence, origin=origin)
            return self.divergence

    def finish(self) -> Divergence | None:
        """The refusal, counting recorded calls that were not made."""
        with self._lock:
            if self.divergence is None:
                self.divergence = explain.unused(self.run, self._reader, self._calls.keys())
            return self.divergence

    def adopted(self) -> tuple[Run, int]:
        """The run with the new calls under the old outcomes, and how many of them are new."""
        with self._lock:
            calls = dict(self._calls)
        changed = {x.start for x in self.run.exchanges if x.start in calls and not self._same(x.call, calls[x.start])}
        exchanges = tuple(replace(x, call=calls[x.start]) if x.start in changed else x for x in self.run.exchanges)
        return replace(self.run, exchanges=exchanges), len(changed)

    def _same(self, recorded: Call, now: Call) -> bool:
        """Whether a replay would take one for the other: another port or a watched field is no change."""
        if self._matching.fingerprint(recorded) == self._matching.fingerprint(now):
            return True
        return self._matching.key(recorded, self._matching.ids()) == self._matching.key(now, self._matching.ids())


def endpoint(call: Call) -> str:
    """What a call is put to, whatever it says: method, host and path without a port; a connection; a function."""
    if isinstance(call, ToolCall):
        return call.name if call.boundary == "tool" else f"{call.boundary} {call.name}"
    if isinstance(call, FrameCall) and call.connection is not None:
        return f"{call.method} {call.connection}"
    scheme, _, rest = call.url.partition("://")
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{call.method} {scheme}://{host.rpartition('@')[2].partition(':')[0]}{slash}{path}"
