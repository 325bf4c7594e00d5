"""What only shows when the tests are over: calls that came after the report of their test, and tests that stood by.

`report.session_notices.process_notices` makes the lines of it.

The exit of the process: what the tests left behind may call until then, is refused, reported, and fails the process.

Threads that no test waited for, `atexit` handlers, finalizers and `__del__` run when the session has been reported and
pytest has chosen its exit status.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.core.divergence import Divergence, Kind
from pytest_agentreplay.core.matching.address import DEFAULT_PORTS, split
from pytest_agentreplay.core.turns import is_model
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.intercept.network.guard import ModelsOnly
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.callers import origin
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts, is_model_host
from pytest_agentreplay.intercept.tools.deferred_unpatching import refuse_for_good
from pytest_agentreplay.report.escape import escape_line, escape_output
from pytest_agentreplay.report.notices import footer_lines
from pytest_agentreplay.report.session_notices import process_notices
from pytest_agentreplay.report.summary import LateCall, ProcessSummary, from_plain, to_plain
from pytest_agentreplay.runs.offline_session import RefuseAll
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.core.model import HttpCall
    from pytest_agentreplay.intercept.network.guard import ModelHostWatch
    from pytest_agentreplay.intercept.session.session_parts import Redactor
    from pytest_agentreplay.runs.run_session import RunSession


class LateCalls:
    """Keeps an ear on tests that have ended, and on those without the plugin, for the rest of the session."""

    def __init__(self) -> None:
        """Nothing is heard yet."""
        self._ended: list[tuple[str, list[str]]] = []
        self._reported: list[int] = []  # by ended test, how many of its late calls have been reported
        self._watch: ModelHostWatch | None = None

    def listen(self, run_session: RunSession) -> None:
        """The session is closed, and its test is reported next; the session itself is let go."""
        late = run_session.interception.ending.late
        self.hear(run_session.place.test, late, reported=run_session.late_calls_reported())

    def hear(self, test: str, late: list[str], *, reported: int = 0) -> None:
        """Report what comes to the list `late` from now on as calls after the end of `test`."""
        self._ended.append((test, late))
        self._reported.append(reported)

    def take_new(self) -> tuple[LateCall, ...]:
        """Return the late calls that have not been reported yet; from now on they have."""
        new = tuple(
            LateCall(test, call)
            for (test, calls), reported in zip(self._ended, self._reported, strict=True)
            for call in calls[reported:]
        )
        self._reported = [len(calls) for _, calls in self._ended]
        return new

    @contextmanager
    def bystander(self) -> Iterator[None]:
        """Around a test without the plugin: whether it looks for a model."""
        from pytest_agentreplay.intercept.network.guard import ModelHostWatch

        if self._watch is None:
            self._watch = ModelHostWatch()
        self._watch.start()
        try:
            yield
        finally:
            self._watch.stop()

    def summarize(self) -> ProcessSummary:
        """Return what there is to report by now."""
        late, watch = self.take_new(), self._watch
        if watch is None or not watch.tests:
            return ProcessSummary(late=late)
        return ProcessSummary(late=late, bystanders=watch.tests, model_hosts=(*sorted(watch.hosts),))


NOBODY = "after the last test"
"""In a report, in the place of a test: nothing says which test a call belongs to."""

FAILED = 1


class Exit:
    """Refuses tools and model calls of the session until the process is gone. `passed`: whether its exit status is 0.

    It does not matter who has registered a handler, or when: at import, or by `from atexit import register`. What
    counts is the call: a frozen tool, a call of a model, any other HTTP call that a line of the agent's makes. What
    libraries send by themselves, as loggers and exporters of telemetry do, goes out, and so do calls of declared hosts.

    A process of xdist hands its late calls over in the file `hand_over`, since nobody sees its exit status.
    """

    def __init__(
        self,
        afterwards: LateCalls,
        redactor: Redactor,
        root: str,
        hand_over: str = "",
        allow_hosts: tuple[str, ...] = (),
    ) -> None:
        """Nothing is refused yet."""
        self.passed: Callable[[], bool] = bool
        self._afterwards = afterwards
        self._hand_over = hand_over
        self._process = os.getpid()
        self._reports = 0
        self._interception = interceptions.Interception(
            RefuseAll(Divergence(Kind.LATE, "the session is over")), redactor, root=root
        )
        self._interception.ending.over.set()
        self._interception.scope.takes = self._takes
        self._interception.scope.hosts = DeclaredHosts(allow_hosts)
        self._guard = ModelsOnly("deny", allow_hosts=allow_hosts, root=root)
        afterwards.hear(NOBODY, self._interception.ending.late)

    def collect(self) -> None:
        """Let go of garbage of the tests now, while what its `__del__` calls can still be reported as usual."""
        tools = refuse_for_good()
        interceptions.after_session(self._interception)
        gc.collect()
        interceptions.after_session(None)
        for tool in reversed(tools):
            tool.restore()

    def await_exit(self) -> None:
        """Have `at_exit` called before all that has been registered so far."""
        atexit.register(self.at_exit)

    def at_exit(self) -> None:
        """Run all other handlers, then report what they and the last threads called."""
        if os.getpid() != self._process:
            return
        refuse_for_good()
        interceptions.after_session(self._interception)
        self._guard.refuse_from_now_on(self._interception)
        atexit.unregister(self.at_exit)
        # The status was chosen before; only `os._exit` can change it, and it must not keep any handler from running.
        # Private and as old as the module; multiprocessing ends its children by it.
        atexit._run_exitfuncs()
        self.conclude()

    def _takes(self, call: HttpCall) -> bool:
        """Whether a call is one of a model, or the agent's and to no declared host."""
        url = split(call.url)
        if is_model(call, READER) or is_model_host(url.host):
            return True
        declared = self._interception.scope.hosts.reach_url(url.host, url.port or DEFAULT_PORTS.get(url.scheme, 0))
        return not declared and origin(self._interception.root) != ""

    def conclude(self) -> None:
        """Report the calls that came since the last report, and fail the process by them."""
        late = self._afterwards.take_new()
        if not late:
            return
        if self._hand_over:
            self._reports += 1
            with suppress(CannotWrite):  # on another machine; what is refused stays refused
                files.write_whole(Path(f"{self._hand_over}-{self._reports}.json"), json.dumps(to_plain(late)))
        text = "".join(
            f"{escape_output(escape_line(row))}\n"
            for row in footer_lines(process_notices(ProcessSummary(late=late)), 0)
        )
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
        if sys.stdout is not None:
            sys.stdout.flush()
        if self.passed():
            os._exit(FAILED)


def read_late_calls(prefix: str) -> tuple[LateCall, ...]:
    """Return the late calls that processes of xdist have left in files of this prefix, which are removed."""
    late: list[LateCall] = []
    folder, name = Path(prefix).parent, Path(prefix).name
    for file in files.names_in(folder):
        if file.startswith(f"{name}-") and file.endswith(".json"):
            late += (from_plain(LateCall, call) for call in json.loads(files.read(folder / file)))
            files.delete(folder / file, folder)
    return (*late,)
