"""What one task, thread or job knows to be over (see `courses`)."""

from __future__ import annotations

KNOWN = 8
"""Calls beside each other that a course knows as its latest; with more of them the eldest are forgotten."""


class Course:
    """The latest calls that one task, thread or job knows to be over, by their `start`.

    `runner` is the task or the thread's ident, `runs` what the starter can wait for: a task, a future or a thread.
    """

    __slots__ = ("__weakref__", "known", "runner", "runs", "starter")

    def __init__(self, starter: Course | None = None, runner: object = None, runs: object = None) -> None:
        """Begin with what `starter` knows now."""
        self.starter = starter
        self.runner = runner
        self.runs = runs
        self.known: tuple[int, ...] = starter.known if starter is not None else ()

    def learn(self, start: int, before: tuple[int, ...]) -> None:
        """Note that the call `start` is over, which was made when those of `before` were."""
        self.known = (*(other for other in self.known if other not in before), start)[-KNOWN:]
