"""Lanes of threads, jobs and tasks, known by what was started: a replay finds them whichever of them calls first.

A label is the name of the function that runs, and how many its starter had begun of it before. Threads of libraries
that only one of two runs needs (a resolver, a reader) have names of their own and move nobody else's number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pytest_agentreplay.core.model import JsonObject


class Label(NamedTuple):
    """The `nth` start of the function `name` in one lane, counted from 1."""

    name: str
    nth: int


class Started:
    """The labels of the lanes of a run, and the recorded lanes by label. Not safe from several threads by itself."""

    def __init__(self, recorded: object = None) -> None:
        """Take what `kept` returned of the recorded run; it comes from a file, so only the expected form is used."""
        self._labels: dict[str, Label] = {}
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

    def lane(self, above: str, label: Label | None, starts: Mapping[str, int]) -> str | None:
        """Return the recorded lane of what the lane `above` has started as `label`; None where there is none.

        A function that the recording does not know may have been renamed. It then stands for the first one that is
        not started any more. `starts` are the functions that were started so far.
        """
        if label is None or not self._lanes:
            return None
        names = self._recorded.get(above, {})
        if label.name not in names and (above, label.name) not in self._instead:
            known = {name for (lane, _), name in self._instead.items() if lane == above}
            gone = (name for name in names if not starts.get(name) and name not in known)
            self._instead[above, label.name] = next(gone, "")
        name = self._instead.get((above, label.name), label.name)
        return self._lanes.get((above, Label(name, label.nth)))

    def taken(self, path: str) -> bool:
        """Return whether `path` is the recorded lane of a thread, job or task."""
        return path in self._taken

    def note(self, path: str, label: Label) -> None:
        """Keep that the lane `path` was started as `label`."""
        self._labels[path] = label

    def kept(self, lanes: Collection[str]) -> JsonObject:
        """Return the labels of those of `lanes` that a thread, job or task has, as a snapshot keeps them."""
        return {path: [*self._labels[path]] for path in sorted(lanes) if path in self._labels}
