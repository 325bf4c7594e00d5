"""A process of a program that `agentreplay run` captures: its calls go to the process that runs the program.

It joins as a process of a test does, before any code of the program (`runs.child_session`).
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.backend import PassThrough
from pytest_agentreplay.errors import CannotFreeze
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.process.child_backend import RemoteBackend
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.runs.capture.fail_open import never_raising
from pytest_agentreplay.runs.capture.interception import CaptureInterception
from pytest_agentreplay.runs.capture.patches import Patches
from pytest_agentreplay.runs.capture.runs import describe_failure, open_run
from pytest_agentreplay.runs.session_children import HANDOVER
from pytest_agentreplay.runs.session_tools import find_main_module, freeze_in_main, freeze_in_module

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_agentreplay.backends.backend import Moment
    from pytest_agentreplay.intercept.process.child_start import Here, Invitation, ParentLink
    from pytest_agentreplay.model.exchanges import Outcome, RawCall

STARTS = {
    library: f"pytest_agentreplay.intercept.{module}"
    for library, module in registry.PATCHES.items()
    if module in {"process.child_multiprocessing", "process.loops"}
}
"""The patches by which processes of `multiprocessing` and of event loops in C join."""


class ForwardedCalls(RemoteBackend):
    """What keeps the calls of this process: the process that has started the program."""

    interception: CapturedProcess

    def settle(self, ticket: int, outcome: Outcome, *, at: int, first: int | None, suspended: bool) -> None:
        """Hand over the raw outcome of a call, for which `outcome` only stands."""
        del outcome
        raw = self.interception.outcomes.pop(ticket).native
        super().settle(ticket, raw, at=at, first=first, suspended=suspended)

    def leave(self) -> None:
        """Hand over what no call has carried: at the end of this process."""
        error = getattr(sys, "last_value", None)
        failure = None if error is None else tuple(describe_failure(error).values())
        mine = self.interception
        last = {"environ": dict(os.environ), "failure": failure, "draws": mine.draws, "cold": mine.cold}
        self.link.ask("note", self._news() | last | {"lane": mine.main().path})


class CapturedProcess(CaptureInterception):
    """The part of a run that happens in this process."""

    def __init__(self, link: ParentLink, greeting: Mapping[str, Any]) -> None:
        """Begin in the lane of `greeting`."""
        super().__init__(open_run(""))
        self.link = link
        forwarded: Any = ForwardedCalls(link, "")
        forwarded.interception = self
        self.forwarded = self.recorder = self.backend = forwarded
        self.clock.count = functools.partial(link.ask, "count")
        self.clock.now = lambda: clocks.monotonic_ns() - greeting["began"]
        self._call_context.path, self._call_context.inside = greeting["lane"], greeting["inside"]

    def begin(self, raw: RawCall, moment: Moment) -> int:
        """Hand over a call; return the `start` of its exchange."""
        verdict = self.forwarded.decide(raw.native, moment)
        assert isinstance(verdict, PassThrough)
        return verdict.ticket

    def key_of(self, name: str) -> str:
        """Return the name of an agent itself: it is kept elsewhere."""
        return name

    def here(self) -> Here:
        """Return where a child would be started by the code that runs here."""
        context = self.call_context()
        return context.path, context.inside, True, 0

    def invite(self, kind: str = "p", program: str = "", here: Here | None = None) -> Invitation:
        """Return an invitation for a child of this process."""
        invitation: Invitation = self.link.ask("invite", kind, program, here or self.here())
        return invitation

    def note_started(self, invitation: Invitation, process: Any) -> None:
        """Do nothing: who has not joined is known where the program was started."""

    def freeze(self, freeze: Callable[..., None], *arguments: Any) -> None:
        """Freeze declared tools; one that cannot be frozen makes the run cold."""
        try:
            freeze(*arguments)
        except Exception as error:
            self.observed.note_problem(CannotFreeze(f"--tool: {error}", path="$", kind="tool"))


_process: CapturedProcess | None = None


def join_program(link: ParentLink, greeting: Mapping[str, Any]) -> None:
    """Join the run that `link` leads to: in a new process, in a fork, or for a job of a pool."""
    global _process
    if "pytest" in {Path(word).stem for word in sys.orig_argv}:
        # Its tests are recorded and replayed by the plugin, which a stamp of ours would keep from doing so.
        link.ask("note", {"cold": "the calls of its tests are not in it: pytest records them"})
        return
    before, _process = _process, CapturedProcess(link, greeting)
    if before is not None:
        before.link.abandon()
    else:
        atexit.register(leave_run)
        Patches(())
        registry.add_patches(STARTS)
        child_start.install()
        tools, codecs = greeting["tools"], _process.tools.codecs
        for place in tools:
            registry.when_imported(place.module, functools.partial(_process.freeze, freeze_in_module, place, codecs))
        if here := [place for place in tools if place.module == find_main_module()]:
            _process.freeze(freeze_in_main, here, codecs)
    child_start.exchange(_process, HANDOVER)
    lanes.CALL_CONTEXT.set(_process.main())


@never_raising()
def leave_run() -> None:
    """Say what there is to say at the end of this process."""
    if _process is not None:
        _process.forwarded.leave()
