"""The sandbox of a session: whether it fits what was collected, and closing it before the first test.

It is for the whole process and for good: a test that needs the network would fail under it. So it is closed only where
every selected test is a replay that declares none; under xdist each worker closes its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.network import sandbox
from pytest_agentreplay.plugin.stash import BASE, is_opted_in

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN = 3  # reasons that are told one by one


class Closing:
    """Closes the sandbox once everything is collected. `why` says what was in its way, where something was."""

    def __init__(self, how: str) -> None:
        """`how` is "auto" or "require"."""
        self.how = how
        self.why = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Before any test, and before anybody is told what was collected. Raises UsageError where it must close."""
        reasons = [*hindrances(session.items, session.config.stash[BASE].replay_tools)]
        if not session.items:
            return
        if not reasons:
            reasons = [*sandbox.hindrances()]
        if not reasons and not session.config.option.collectonly and (refused := sandbox.close()):
            reasons = [refused]
        self.why = several(reasons)
        self.insist()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of xdist that could not close its own ends before it has a test; the controller says why."""
        self.why = getattr(node, "workeroutput", {}).get("agentreplay", {}).get("open", "")
        self.insist()

    def insist(self) -> None:
        """Raise UsageError where the sandbox must be closed, and cannot be."""
        if self.why and self.how == "require":
            raise pytest.UsageError(f"--agentreplay-sandbox=require: {self.why}")

    def pytest_report_collectionfinish(self) -> list[str]:
        """The level that was reached; before there was anything collected it could not be known."""
        return [f"agentreplay: {self.line()}"] if self.why or sandbox.closed() else []

    def line(self) -> str:
        """The level in words."""
        if self.why:
            return f"network closed (L1), not L3: {self.why}"
        return "network closed (L3): the kernel refuses sockets, to C code and child processes too"


def hindrances(items: list[pytest.Item], replay_tools: str) -> Iterator[str]:
    """What of the selected tests needs a network, or may need one."""
    if replay_tools != "frozen":
        yield f"--replay-tools={replay_tools} has tools run"
    for item in items:
        case = item.get_closest_marker("agentreplay_case") is not None  # it is replayed, whatever it is
        if not case and not is_opted_in(item):
            yield f"{item.nodeid} is not replayed"
            continue
        with suppress(SettingsError):  # the test itself fails by it
            markers = [dict(mark.kwargs) for mark in item.iter_markers("agentreplay")]
            settings = item.config.stash[BASE].for_test(markers)
            if settings.mode != "replay":
                yield f"{item.nodeid} is not replayed"
            elif reaches := settings.reaches():
                yield f"{item.nodeid} {reaches}"


def several(reasons: list[str]) -> str:
    """The first reasons, and how many more there are."""
    more = f", and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more
