"""A reader that reads each call and each reply once: a run is looked at from many sides, its bodies are long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Call, Outcome, Run
    from pytest_agentreplay.core.reading import CallReading, Chunk, Reader, ReplyReading


class CachingReader:
    """Remembers what `reader` read, for as long as it lives itself; a `core.reading.Reader`."""

    def __init__(self, reader: Reader, *runs: Run) -> None:
        """Read all of `runs` at once: a reader that has just read a request reads its reply faster."""
        self._reader = reader
        # By identity, and the key's owner is kept beside the value, so that no other object can take its place.
        self._calls: dict[int, tuple[Call, CallReading]] = {}
        self._replies: dict[int, tuple[Call, Outcome | None, ReplyReading]] = {}
        for run in runs:
            for exchange in run.exchanges:
                self.read_call(exchange.call)
                if exchange.call.boundary != "tool":
                    self.read_reply(exchange.call, exchange.outcome)

    def read_call(self, call: Call) -> CallReading:
        """As the reader reads it."""
        entry = self._calls.get(id(call))
        if entry is None:
            entry = self._calls[id(call)] = call, self._reader.read_call(call)
        return entry[1]

    def read_reply(self, call: Call, outcome: Outcome | None) -> ReplyReading:
        """As the reader reads it."""
        entry = self._replies.get(id(call))
        if entry is None or entry[1] is not outcome:
            entry = self._replies[id(call)] = call, outcome, self._reader.read_reply(call, outcome)
        return entry[2]

    def read_chunks(self, outcome: Outcome | None) -> tuple[Chunk, ...]:
        """As the reader reads them."""
        return self._reader.read_chunks(outcome)
