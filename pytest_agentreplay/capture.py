"""Capture the runs of a service, outside pytest: `capture.start("runs/", keep="failed")`.

Nothing here imports pytest or an HTTP library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pytest_agentreplay.runs.capture.runs import CapturedRun, keep, start, stats, stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.runs.capture.middleware import Middleware

__all__ = ["CapturedRun", "Middleware", "keep", "run", "start", "stats", "stop"]

F = TypeVar("F", bound="Callable[..., Any]")


class DecoratingRun(CapturedRun):
    """A run as `run` gives it: a context manager, sync and async, and a decorator. Nothing of it raises."""

    def __call__(self, function: F) -> F:
        """Return `function` so that each call is a run with its arguments as the input."""
        from pytest_agentreplay.runs.capture.decorated import decorate

        return decorate(self.name, function)


def run(name: str, *, id: str | None = None, input: Any = None) -> DecoratingRun:  # noqa: A002  the words of the header
    """Return a run.

    Inside another run it is part of that one. Where nothing is captured, or a test is recorded or replayed, it does
    nothing.

    Args:
        name: The name under which a project declares the runner.
        id: The run's id; a random one where none is given.
        input: The arguments of the run by name, or any JSON.
    """
    return DecoratingRun(name, id, input)


def __getattr__(name: str) -> Any:
    if name == "Middleware":
        from pytest_agentreplay.runs.capture.middleware import Middleware

        return Middleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
