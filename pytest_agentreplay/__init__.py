"""Frozen agent runs as tests: record every model and tool call, replay them offline, name the first divergent turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.cases.assertions import assert_same_run, first_divergence
    from pytest_agentreplay.cases.view import RunView
    from pytest_agentreplay.errors import (
        AgentReplayError,
        CannotFreeze,
        CannotRedirect,
        CannotSign,
        CannotWrite,
        CaseError,
        Leak,
        LiveRefused,
        PolicyError,
        ReplayDiverged,
        RunnerError,
        SettingsError,
        SnapshotEdited,
        SnapshotError,
        SnapshotMisplaced,
        SnapshotMissing,
        SnapshotTooNew,
        SnapshotUnreadable,
        TraceError,
        TraceIncomplete,
        TraceUnknown,
    )
    from pytest_agentreplay.intercept.environment.machine import secret
    from pytest_agentreplay.intercept.session.agents import agent
    from pytest_agentreplay.model.divergence import Difference, Divergence, Kind
    from pytest_agentreplay.model.exchanges import (
        Closed,
        Exchange,
        Failure,
        Frame,
        FrameCall,
        FramesReply,
        HttpCall,
        HttpReply,
        Run,
        ToolCall,
        ToolReply,
    )
    from pytest_agentreplay.snapshots.codec import Snapshot
    from pytest_agentreplay.snapshots.store.reading import load
    from pytest_agentreplay.values import Codec

    __version__: str

__all__ = [
    "AgentReplayError",
    "CannotFreeze",
    "CannotRedirect",
    "CannotSign",
    "CannotWrite",
    "CaseError",
    "Closed",
    "Codec",
    "Difference",
    "Divergence",
    "Exchange",
    "Failure",
    "Frame",
    "FrameCall",
    "FramesReply",
    "HttpCall",
    "HttpReply",
    "Kind",
    "Leak",
    "LiveRefused",
    "PolicyError",
    "ReplayDiverged",
    "Run",
    "RunView",
    "RunnerError",
    "SettingsError",
    "Snapshot",
    "SnapshotEdited",
    "SnapshotError",
    "SnapshotMisplaced",
    "SnapshotMissing",
    "SnapshotTooNew",
    "SnapshotUnreadable",
    "ToolCall",
    "ToolReply",
    "TraceError",
    "TraceIncomplete",
    "TraceUnknown",
    "__version__",
    "agent",
    "assert_same_run",
    "first_divergence",
    "load",
    "secret",
]

_PACKAGES = {
    "intercept.session.agents": ("agent",),
    "intercept.environment.machine": ("secret",),
    "cases.assertions": ("assert_same_run", "first_divergence"),
    "cases.view": ("RunView",),
    "snapshots.codec": ("Snapshot",),
    "model.divergence": ("Difference", "Divergence", "Kind"),
    "values": ("Codec",),
    "model.exchanges": (
        *("Closed", "Exchange", "Failure", "Frame", "FrameCall", "FramesReply"),
        *("HttpCall", "HttpReply", "Run", "ToolCall", "ToolReply"),
    ),
    "snapshots.store.reading": ("load",),
}
"""Where the names live; errors, the rest, live in `errors`. Nothing is loaded before it is asked for."""


def __getattr__(name: str) -> object:
    """Load a public name (PEP 562)."""
    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    if name == "__version__":
        from importlib.metadata import version

        found: object = version("frozen-agentreplay")
    else:
        from importlib import import_module

        package = next((package for package, names in _PACKAGES.items() if name in names), "errors")
        found = getattr(import_module(f"{__name__}.{package}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
