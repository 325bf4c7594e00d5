"""Lanes of threads and jobs, known by what was started: a replay finds the recorded lane whichever thread calls first.

A label is the name of the function that runs, and how many its starter had begun of it before. Threads of libraries
that only one of two runs needs (a resolver, a reader) have names of their own and move nobody else's number.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from pytest_agentreplay.core.model import JsonObject


class Label(NamedTuple):
    """The `nth` start of the function `name` in one lane, counted from 1."""

    name: str
    nth: int


class Started:
    """What was started so far in each lane. Not safe from several threads by itself."""

    def __init__(self, recorded: object = None) -> None:
        """Take what `kept` returned of the recorded run; None while recording.

        Args:
            recorded: From a file, so that only what has the expected form is used.
        """
        self.recording = recorded is None
        self._counts: Counter[tuple[str, str]] = Counter()
        self._notes: dict[str, Label] = {}
        self._lanes: dict[tuple[str, Label], str] = {}
        self._recorded: dict[str, dict[str, None]] = {}
        self._instead: dict[tuple[str, str], str] = {}
        for path, label in recorded.items() if isinstance(recorded, dict) else ():
            match label:
                case [str(name), int(nth)]:
                    above = path.rpartition(".")[0]
                    self._lanes[above, Label(name, nth)] = path
                    self._recorded.setdefault(above, {})[name] = None
        self._taken = frozenset(self._lanes.values())
        self.counts = self.recording or bool(self._lanes)
        """Whether labels are of use: a recording without them is replayed by the order of first calls."""

    def label(self, above: str, name: str) -> Label:
        """Return the label of the function `name`, which the lane `above` starts now."""
        self._counts[above, name] += 1
        return Label(name, self._counts[above, name])

    def lane(self, above: str, label: Label | None) -> str | None:
        """Return the recorded lane of what `above` has started as `label`; None where there is none."""
        if label is None or not self._lanes:
            return None
        names = self._recorded.get(above, {})
        if label.name not in names and (above, label.name) not in self._instead:
            # The function has another name now: it stands for the first one that is not started any more.
            known = set(self._instead.values())
            gone = (name for name in names if not self._counts[above, name] and name not in known)
            self._instead[above, label.name] = next(gone, "")
        name = self._instead.get((above, label.name), label.name)
        return self._lanes.get((above, Label(name, label.nth)))

    def taken(self, path: str) -> bool:
        """Return whether `path` is the recorded lane of a thread or job."""
        return path in self._taken

    def note(self, path: str, label: Label) -> None:
        """Keep that the lane `path` was started as `label`."""
        self._notes[path] = label

    def kept(self, lanes: Collection[str]) -> JsonObject:
        """Return the labels of those of `lanes` that a thread or job has, as a snapshot keeps them."""
        return {path: [*self._notes[path]] for path in sorted(lanes) if path in self._notes}
