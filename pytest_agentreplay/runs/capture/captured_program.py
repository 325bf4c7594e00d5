"""A program that is captured as one run, its Python children included: it runs as it is, and its calls come here.

Here is no code of the program, so a run is whole as far as it came, however its process ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import SettingsError
from pytest_agentreplay.intercept.process import child_start
from pytest_agentreplay.intercept.process.child_server import Children, PythonChild
from pytest_agentreplay.intercept.session import lanes
from pytest_agentreplay.model.exchanges import RawCall, RawOutcome
from pytest_agentreplay.runs.capture.captured_child import join_program
from pytest_agentreplay.runs.capture.interception import STAND_IN, CaptureInterception
from pytest_agentreplay.runs.session_children import HANDOVER
from pytest_agentreplay.runs.session_tools import ChildTool, shorten_paths
from pytest_agentreplay.settings.parsers import parse_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_agentreplay.backends.backend import Moment
    from pytest_agentreplay.intercept.process.child_start import Here, Invitation
    from pytest_agentreplay.model.exchanges import Call
    from pytest_agentreplay.runs.capture.runs import CapturedRun


class ProgramProcesses(Children):
    """The Python processes of a program.

    Attributes:
        failure: What has ended the program's own process, as its last words say.
    """

    interception: CaptureInterception

    def __init__(self, interception: CaptureInterception, tools: list[ChildTool]) -> None:
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

    def ask(self, call: Call, moment: Moment, line: str, of: PythonChild) -> tuple[Any, ...]:
        """Keep a call of a process, and let it through."""
        del line, of
        interception = self.interception
        if interception.ending.over.is_set():
            return "forward", 0
        return "forward", interception.begin(RawCall(call), replace(moment, agent=interception.key_of(moment.agent)))

    def settle(self, ticket: int, outcome: Any, times: Mapping[str, Any]) -> None:
        """Keep the outcome of a call."""
        if not self.interception.ending.over.is_set():
            self.interception.keep_outcome(ticket, RawOutcome(outcome))
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


def find_tools(lines: Iterable[str]) -> list[ChildTool]:
    """Return the tools that `lines` declare, which are found once the program imports them. Raises SettingsError."""
    declared, tools = dict(parse_tools([*lines], "--tool")), []
    names = shorten_paths(declared)
    for path, how in declared.items():
        parts = path.split(".")
        if len(parts) == 1 or "*" in path or how.startswith(("model", "retrieval")):
            raise SettingsError(f"--tool: {path}: write the import path of one function, like shop.tools.refund = read")
        # Nothing of the program is imported here: a class is told from a module by its name.
        cut = next((number for number, part in enumerate(parts[:-1]) if part[0].isupper()), len(parts) - 1)
        effects, _, name = how.partition(" as ")
        place: Any = ".".join(parts[:cut]), ".".join(parts[cut:]), name or names[path], effects
        tools.append(ChildTool(*place))
    return tools


def run_program(command: Sequence[str], run: CapturedRun, tools: list[ChildTool]) -> int:
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
