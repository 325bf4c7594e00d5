"""Capture the runs of a service, outside pytest: `capture.start("runs/", keep="failed")`.

Nothing here imports pytest or an HTTP library, and nothing is loaded before `start`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_agentreplay.capture.middleware import Middleware
    from pytest_agentreplay.capture.runs import CapturedRun

__all__ = ["CapturedRun", "Middleware", "keep", "run", "start", "stats", "stop"]


def start(
    store: str,
    *,
    keep: str | float | Callable[[Any], bool] = "failed",
    tools: Iterable[str] = (),
    service: str = "",
    version: str = "",
    **options: Any,
) -> None:
    """Capture runs from now on. Where one is started already, it is stopped first.

    Args:
        store: The folder or URL of fsspec that kept runs are written to.
        keep: Which runs are kept: "failed", "all", a rate from 0 to 1, or a function of the run.
        tools: Tools as the setting `agentreplay_tools` declares them.
        service: The name of the service, for the header of each run.
        version: Its version.
        options: Further options of `capture.keeping.Keeper`.

    Raises:
        SettingsError: A declaration of a tool, or an option, is invalid.
        CannotRedirect: A tool is no function whose calls can be intercepted.
    """
    from pytest_agentreplay.capture import runs

    runs.start(store, keep=keep, tools=tools, service=service, version=version, **options)


def stop(timeout: float = 5.0) -> None:
    """Write what is due within `timeout` seconds, and leave every patched function as it was."""
    from pytest_agentreplay.capture import runs

    runs.stop(timeout)


def run(name: str, *, id: str | None = None, input: Any = None) -> CapturedRun:  # noqa: A002  the words of the header
    """Return a run: a context manager, sync and async, and a decorator.

    Inside another run it is part of that one. Where nothing is captured, or a test is recorded or replayed, it does
    nothing.

    Args:
        name: The name under which a project declares the runner.
        id: The run's id; a random one where none is given.
        input: The arguments of the run by name, or any JSON.
    """
    from pytest_agentreplay.capture import runs

    return runs.open_run(name, id=id, input=input)


def keep(run_id: str, reason: str = "") -> bool:
    """Keep a run that has ended, while it is in the ring; return whether it was there."""
    from pytest_agentreplay.capture import runs

    return runs.keep(run_id, reason)


def stats() -> dict[str, int]:
    """Return what was counted: captured, kept, dropped, late_calls, faults and more."""
    from pytest_agentreplay.capture import runs

    return runs.stats()


def __getattr__(name: str) -> Any:
    if name == "Middleware":
        from pytest_agentreplay.capture.middleware import Middleware

        return Middleware
    if name == "CapturedRun":
        from pytest_agentreplay.capture.runs import CapturedRun

        return CapturedRun
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
