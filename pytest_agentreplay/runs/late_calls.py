"""Calls that come after the report of their test: collected to the end of the session, refused until the process exits.

Threads that no test waited for, `atexit` handlers, finalizers and `__del__` run when the session has been reported and
pytest has chosen its exit status. What they call is refused and reported, and fails the process.
`report.session_notices.make_process_notices` makes the lines of it.
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

from pytest_agentreplay.compare.matching.address import DEFAULT_PORTS, split
from pytest_agentreplay.errors import CannotWrite
from pytest_agentreplay.intercept.network.guard import ModelHostWatch, ModelsOnly
from pytest_agentreplay.intercept.session import interceptions
from pytest_agentreplay.intercept.session.callers import find_line_here
from pytest_agentreplay.intercept.session.hosts import DeclaredHosts, is_model_host
from pytest_agentreplay.intercept.tools.redirections import refuse_for_good
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.escape import escape_line, escape_output
from pytest_agentreplay.report.notices import format_footer
from pytest_agentreplay.report.session_notices import make_process_notices
from pytest_agentreplay.report.summary import LateCall, ProcessSummary, restore_plain, to_plain
from pytest_agentreplay.runs.offline_session import RefuseAll
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_agentreplay.intercept.session.session_parts import Redactor
    from pytest_agentreplay.model.exchanges import HttpCall
    from pytest_agentreplay.runs.run_session import RunSession


# In a report, in the place of a test: nothing says which test a call belongs to.
AFTER_LAST_TEST = "after the last test"


class LateCalls:
    """The late calls of all tests of the session, and the model hosts that tests without the plugin look up."""

    def __init__(self) -> None:
        """Nothing is collected yet."""
        # Lists of plain values: they grow with each test of the session, and nothing else of an ended test may stay.
        self._ended: list[tuple[str, list[str]]] = []
        self._reported: list[int] = []  # by ended test, how many of its late calls are reported
        self._watch = ModelHostWatch()

    def add_session(self, run_session: RunSession) -> None:
        """Collect the late calls of a session that is closed, without a reference to the session itself."""
        calls, reported = run_session.interception.ending.late, run_session.count_reported_late_calls()
        self.add_calls(run_session.place.test, calls, reported=reported)

    def add_calls(self, test: str, calls: list[str], *, reported: int = 0) -> None:
        """Collect what is added to the list `calls` from now on as calls after the end of `test`."""
        self._ended.append((test, calls))
        self._reported.append(reported)

    def take_new(self) -> tuple[LateCall, ...]:
        """Return the late calls that are not reported yet; from now on they are."""
        new = tuple(
            LateCall(test, call)
            for (test, calls), reported in zip(self._ended, self._reported, strict=True)
            for call in calls[reported:]
        )
        self._reported = [len(calls) for _, calls in self._ended]
        return new

    @contextmanager
    def watch_bystander(self) -> Iterator[None]:
        """Return a block around a test without the plugin, which notes whether the test looks for a model."""
        self._watch.start()
        try:
            yield
        finally:
            self._watch.stop()

    def summarize(self) -> ProcessSummary:
        """Return what there is to report by now."""
        return ProcessSummary(
            late=self.take_new(), bystanders=self._watch.tests, model_hosts=(*sorted(self._watch.hosts),)
        )


class ExitGuard:
    """Refuses tools and model calls of the session until the process is gone.

    It does not matter who has registered a handler, or when: at import, or by `from atexit import register`. What
    counts is the call: a frozen tool, a call of a model, any other HTTP call that a line of the agent's makes. What
    libraries send by themselves, as loggers and exporters of telemetry do, goes out, and so do calls of declared hosts.

    A process of xdist writes its late calls to files of the prefix `files_prefix`, since nobody sees its exit status.
    """

    def __init__(
        self,
        late_calls: LateCalls,
        redactor: Redactor,
        *,
        root: str,
        files_prefix: str,
        allow_hosts: tuple[str, ...],
        has_passed: Callable[[], bool],
    ) -> None:
        """Nothing is refused yet. `has_passed` says whether the exit status is 0 so far."""
        self._has_passed = has_passed
        self._late_calls = late_calls
        self._files_prefix = files_prefix
        self._process = os.getpid()
        self._reports = 0
        self._interception = interceptions.Interception(
            RefuseAll(Divergence(Kind.LATE, "the session is over")), redactor, root=root
        )
        self._interception.ending.over.set()
        self._interception.scope.takes = self._is_refused
        self._interception.scope.hosts = DeclaredHosts(allow_hosts)
        self._guard = ModelsOnly("deny", allow_hosts=allow_hosts, root=root)
        late_calls.add_calls(AFTER_LAST_TEST, self._interception.ending.late)

    def collect_garbage(self) -> None:
        """Collect the garbage of the tests now, while what its `__del__` calls can still be reported as usual."""
        tools = refuse_for_good()
        interceptions.refuse_after_session(self._interception)
        gc.collect()
        interceptions.refuse_after_session(None)
        for tool in reversed(tools):
            tool.restore()

    def await_exit(self) -> None:
        """Have `run_exit_handlers` called before all that has been registered so far."""
        atexit.register(self.run_exit_handlers)

    def run_exit_handlers(self) -> None:
        """Run all other handlers, then report what they and the last threads called."""
        if os.getpid() != self._process:  # a fork inherits the handlers; its parent reports
            return
        refuse_for_good()
        interceptions.refuse_after_session(self._interception)
        self._guard.refuse_from_now_on(self._interception)
        atexit.unregister(self.run_exit_handlers)
        # The status was chosen before; only `os._exit` can change it, and it must not keep any handler from running.
        # Private: https://github.com/python/cpython/blob/3.13/Modules/atexitmodule.c; nothing public runs the handlers.
        atexit._run_exitfuncs()
        self._report_and_exit()

    def _is_refused(self, call: HttpCall) -> bool:
        """Return whether a call is one of a model, or the agent's and to no declared host."""
        url = split(call.url)
        if is_model(call, READER) or is_model_host(url.host):
            return True
        declared = self._interception.scope.hosts.may_reach_url(url.host, url.port or DEFAULT_PORTS.get(url.scheme, 0))
        return not declared and find_line_here(self._interception.root) != ""

    def _report_and_exit(self) -> None:
        """Report the calls that came since the last report, and fail the process by them."""
        late = self._late_calls.take_new()
        if not late:
            return
        if self._files_prefix:
            self._reports += 1
            with suppress(CannotWrite):  # on another machine; what is refused stays refused
                files.write_whole(Path(f"{self._files_prefix}-{self._reports}.json"), json.dumps(to_plain(late)))
        text = "".join(
            f"{escape_output(escape_line(row))}\n"
            for row in format_footer(make_process_notices(ProcessSummary(late=late)), 0)
        )
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()
        if sys.stdout is not None:  # `os._exit` flushes nothing
            sys.stdout.flush()
        if self._has_passed():
            os._exit(1)


def read_late_calls(prefix: str) -> tuple[LateCall, ...]:
    """Return the late calls that processes of xdist have left in files of this prefix, which are removed."""
    late: list[LateCall] = []
    folder, name = Path(prefix).parent, Path(prefix).name
    for file in files.list_names(folder):
        if file.startswith(f"{name}-") and file.endswith(".json"):
            late += (restore_plain(LateCall, call) for call in json.loads(files.read_file(folder / file)))
            files.delete(folder / file, folder)
    return (*late,)
