"""A program that is captured as one run, its Python children included: it runs as it is, and its calls come here.

The process that runs the program has none of its code, so a run is whole as far as it came, however its process ends.
A Python process of the program joins as one of a test does, before any code of the program (`runs.child_session`), and
hands its calls over (`CapturedProcess`).
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.backends.backend import Moment, PassThrough
from pytest_agentreplay.errors import CannotFreeze, SettingsError
from pytest_agentreplay.intercept import registry
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.process.child_backend import RemoteBackend
from pytest_agentreplay.intercept.process.child_server import Children, PythonChild
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.intercept.tools.tool import Tool
from pytest_agentreplay.model.exchanges import Call, Outcome, RawCall
from pytest_agentreplay.runs import describe_failure, session_tools
from pytest_agentreplay.runs.capture.fail_open import never_raising
from pytest_agentreplay.runs.capture.interception import STAND_IN, CaptureInterception
from pytest_agentreplay.runs.capture.patches import Patches
from pytest_agentreplay.runs.capture.runs import CapturedRun, open_run
from pytest_agentreplay.runs.session_children import HANDOVER
from pytest_agentreplay.settings.parsers import parse_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_agentreplay.intercept.process.child_start import Here, Invitation, ParentLink


class ProgramProcesses(Children):
    """The Python processes of a program.

    Attributes:
        failure: What has ended the program's own process, as its last words say.
    """

    interception: CaptureInterception

    def __init__(self, interception: CaptureInterception, tools: list[session_tools.ChildTool]) -> None:
        """`tools` are intercepted in each process that imports them."""
        greeting = {"join": join_program, "tools": tools}
        super().__init__(interception, mode="capture", greeting=lambda: greeting, learn=self.learn)
        self.failure: tuple[str, str] | None = None

    def learn(self, environ: Mapping[str, str]) -> None:
        """Take the variables of a process, whose secrets are redacted."""
        for name, value in environ.items():
            os.environ.setdefault(name, value)

    def invite(self, kind: str = "p", program: str = "", here: Here | None = None) -> Invitation:
        """Return an invitation; that of the program itself is for the first lane."""
        if self._invited:
            return super().invite(kind, program, here)
        invitation = super().invite(kind, program, ("", None, True, 0))
        self.interception.lanes.begun.clear()
        self._invited[0].lane = "main"
        return invitation

    def ask(self, call: Call, moment: Moment, _line: str, _of: PythonChild) -> tuple[Any, ...]:
        """Keep a call of a process, and let it through."""
        interception = self.interception
        if interception.ending.over.is_set():
            return "forward", 0
        return "forward", interception.begin(RawCall(call), replace(moment, agent=interception.key_of(moment.agent)))

    def settle(self, ticket: int, outcome: Any, times: Mapping[str, Any]) -> None:
        """Keep the outcome of a call."""
        if not self.interception.ending.over.is_set():
            self.interception.keep_outcome(ticket, outcome)
            self.interception.recorder.settle(ticket, STAND_IN, **times)

    def note(self, news: Mapping[str, Any]) -> None:
        """Take what a process knows and no call of it says."""
        super().note(news)
        self.learn(news.get("environ", {}))
        self.interception.draws.update(news.get("draws", {}))
        self.interception.cold = self.interception.cold or news.get("cold", "")
        if news.get("lane") == "main":
            self.failure = news["failure"]

    def find_absent(self) -> str:
        """Return why calls of a process may be missing; "" where all have joined."""
        absent = [child.program for child in self._invited if not child.joined]
        joined = len(absent) < len(self._invited)
        pythons = absent if not joined else [name for name in absent if child_start.PYTHON.fullmatch(name)]
        return f"a process of {pythons[0]} has not joined the run, and its calls are not in it" if pythons else ""


def find_tools(lines: Iterable[str]) -> list[session_tools.ChildTool]:
    """Return the tools that `lines` declare, which are found once the program imports them. Raises SettingsError."""
    declared, tools = dict(parse_tools([*lines], "--tool")), []
    names = session_tools.shorten_paths(declared)
    for path, how in declared.items():
        parts = path.split(".")
        if len(parts) == 1 or "*" in path or how.startswith(("model", "retrieval")):
            raise SettingsError(f"--tool: {path}: write the import path of one function, like shop.tools.refund = read")
        # Nothing of the program is imported here: a class is told from a module by its name.
        cut = next((number for number, part in enumerate(parts[:-1]) if part[0].isupper()), len(parts) - 1)
        effects, _, name = how.partition(" as ")
        tool = Tool(name or names[path], session_tools.NOWHERE, effects)
        tools.append(session_tools.ChildTool(".".join(parts[:cut]), ".".join(parts[cut:]), tool))
    return tools


def run_program(command: Sequence[str], run: CapturedRun, tools: list[session_tools.ChildTool]) -> int:
    """Run a program in `run`, which has begun; return how it ended. Raises OSError where it cannot be started."""
    context = lanes.CALL_CONTEXT.get()
    if context is None or not isinstance(context.interception, CaptureInterception):
        return wait_for(command)
    processes = ProgramProcesses(context.interception, tools)
    with child_start.joining(processes, HANDOVER):
        code = wait_for(command)
    if code:
        reason = f"exit code {code}" if code > 0 else f"ended by {signal.Signals(-code).name}"
        kind, message = processes.failure or ("failed", reason)
        run.failed(message, kind=kind)
    context.interception.cold = context.interception.cold or processes.find_absent()
    return code


def wait_for(command: Sequence[str]) -> int:
    """Return how a program ends. SIGTERM is passed on to it; Ctrl-C it gets from the terminal, as this process does."""
    with subprocess.Popen(command) as process:  # noqa: S603  the user's own words
        handlers: dict[int, Any] = {signal.SIGINT: lambda *_: None, signal.SIGTERM: lambda *_: process.terminate()}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            return process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


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
            registry.when_imported(
                place.module, functools.partial(_process.freeze, session_tools.freeze_in_module, place, codecs)
            )
        if here := [place for place in tools if place.module == session_tools.find_main_module()]:
            _process.freeze(session_tools.freeze_in_main, here, codecs)
    child_start.exchange(_process, HANDOVER)
    lanes.CALL_CONTEXT.set(_process.main())


@never_raising()
def leave_run() -> None:
    """Say what there is to say at the end of this process."""
    if _process is not None:
        _process.forwarded.leave()
