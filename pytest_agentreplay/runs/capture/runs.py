"""The runs of a service while they are captured: begun and ended by its code, and handed over when they have ended."""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Self

from pytest_agentreplay import clocks
from pytest_agentreplay.model.exchanges import Json, JsonObject, RawValue
from pytest_agentreplay.runs import describe_failure
from pytest_agentreplay.runs.capture import fail_open
from pytest_agentreplay.runs.capture.ended_capture import MAX_BYTES, RING_BYTES, RING_RUNS, Limits, choose_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextvars import Token
    from pathlib import Path

    from pytest_agentreplay.intercept.session.lanes import CallContext
    from pytest_agentreplay.runs.capture.ended_capture import Keep
    from pytest_agentreplay.runs.capture.interception import CaptureInterception
    from pytest_agentreplay.runs.capture.keeping import Keeper


class Capture:
    """One started capture of this process.

    Attributes:
        keeper: What ended runs are handed to; made anew in a forked process, which shares no file with its parent.
        open: The runs that have not ended.
        patches: What stands in the place of functions of the process.
    """

    def __init__(self, make_keeper: Callable[[], Keeper], tools: tuple[tuple[str, str], ...]) -> None:
        """Make the keeper and patch. Raises what options and tools are refused with."""
        from pytest_agentreplay.runs.capture.patches import Patches

        self.make_keeper = make_keeper
        self.keeper: Keeper | None = make_keeper()
        self.open: weakref.WeakSet[CaptureInterception] = weakref.WeakSet()
        self.patches = Patches(tools)

    def get_keeper(self) -> Keeper:
        """Return the keeper, in a forked process a new one."""
        if self.keeper is None:
            self.keeper = self.make_keeper()
        return self.keeper

    def forget(self) -> None:
        """In a forked process: leave the parent's runs, and what it has kept, to the parent."""
        self.keeper = None
        for interception in list(self.open):
            interception.forget()
        self.open = weakref.WeakSet()


ENDED = {"CancelledError": "cancelled", "Cancelled": "cancelled", "GeneratorExit": "closed"}
"""What ends a run that nobody waits for any more, of asyncio, trio and generators, and how that is said."""

_capture: Capture | None = None
_stats: dict[str, int] = {}  # of the capture that was stopped last
_watches_forks = False


def start(
    store: str | Path,
    *,
    keep: Keep = "failed",
    tools: Iterable[str] = (),
    service: str = "",
    version: str = "",
    policy: str | Path | None = None,
    max_bytes: int = MAX_BYTES,
    ring_bytes: int = RING_BYTES,
    ring_runs: int = RING_RUNS,
    max_age: float | None = None,
    max_store_bytes: int | None = None,
) -> None:
    """Capture runs from now on. Where one is started already, it is stopped first.

    In a test that is recorded or replayed it does nothing.

    Args:
        store: The folder, or URL of fsspec, that kept runs are written to.
        keep: Which runs are kept: "failed", "all", a rate from 0 to 1, or a function of the run.
        tools: Tools as the setting `agentreplay_tools` declares them.
        service: The name of the service, for the header of each run.
        version: Its version.
        policy: A policy file that says what is redacted besides secrets; without one, personal values are.
        max_bytes: How large the calls of a run may be; of a larger one the head and the failure are kept.
        ring_bytes: How many bytes of ended runs wait for `keep`; as many may wait to be written.
        ring_runs: How many runs wait.
        max_age: After how many days files are deleted; None for never.
        max_store_bytes: How large the store may become before the oldest files are deleted; None for no limit.

    Raises:
        SettingsError: A declaration of a tool, `keep` or the store is invalid, or a package is missing.
        CannotRedirect: A tool is no function whose calls can be intercepted.
        CannotWrite: The store is a folder that this process may never write.
        PolicyError: The policy file cannot be read, or is invalid.
    """
    global _capture, _watches_forks  # noqa: PLW0603  one capture of a process, as its patches are
    # What a run needs is loaded before there is one: a service may fork while one of its threads imports.
    from pytest_agentreplay.runs.capture import freezing, interception  # noqa: F401
    from pytest_agentreplay.runs.capture.keeping import Keeper
    from pytest_agentreplay.settings.parsers import parse_tools

    stop()
    fail_open.reset()
    if (chosen := choose_capture(store, keep)) is None or is_in_test():
        return
    limits = Limits(max_bytes, ring_bytes, ring_runs, max_age, max_store_bytes)
    store, keep = chosen
    make_keeper = functools.partial(
        Keeper, store, keep=keep, service=service, version=version, policy=policy, limits=limits
    )
    capture = Capture(make_keeper, parse_tools([*tools], "capture.start: tools"))
    if not _watches_forks and hasattr(os, "register_at_fork"):
        _watches_forks = True
        os.register_at_fork(after_in_child=_forget_parent)
    _capture = capture


def stop(timeout: float = 5.0) -> None:
    """Write what is due within `timeout` seconds, and leave every patched function as it was."""
    global _capture, _stats  # noqa: PLW0603  as in start
    capture, _capture = _capture, None
    if capture is None:
        return
    with fail_open.never_raising():
        if not is_in_test():  # a test needs the patches until its end, and pytest keeps them
            capture.patches.remove()
    with fail_open.never_raising():
        if capture.keeper is not None:
            capture.keeper.close(timeout)
            _stats = capture.keeper.stats()


def is_in_test() -> bool:
    """Return whether this process records or replays a test, which has patches of its own."""
    interceptions = sys.modules.get("pytest_agentreplay.intercept.session.interceptions")
    return interceptions is not None and interceptions._running is not None


def keep(run_id: str, reason: str = "") -> bool:
    """Keep a run that is open, or has ended and is in the ring; return whether it was there."""
    with fail_open.never_raising():
        if (capture := _capture) is not None:
            waiting = [interception.run for interception in list(capture.open) if interception.run.id == run_id]
            for run in waiting:
                run.reason = reason
            return bool(waiting) or capture.get_keeper().keep(run_id, reason)
    return False


def stats() -> dict[str, int]:
    """Return what was counted: captured, kept, dropped, late_calls, faults and more."""
    kept = _stats
    with fail_open.never_raising():
        if _capture is not None:
            kept = _capture.get_keeper().stats()
    return kept | fail_open.read_counts()


def _forget_parent() -> None:
    if _capture is not None:
        with fail_open.never_raising():
            from pytest_agentreplay.runs.child_session import reset_locks

            fail_open.reset()
            reset_locks()
            _capture.forget()


def open_run(name: str, *, id: str | None = None, input: Any = None, provisional: bool = False) -> CapturedRun:  # noqa: A002
    """Return a run that begins when it is entered.

    A `provisional` one takes the name, input and output of the first run inside it: that of a request, of which the
    function that answers it knows more.
    """
    return CapturedRun(name, id, input, provisional=provisional)


class CapturedRun:
    """One run of the service. Nothing of it raises.

    Attributes:
        name: The name of the entry.
        id: The run's id: inside another run, that one's.
        reason: Why the service has asked to keep it while it was open; None where it has not.
    """

    name, id = "", ""
    reason: str | None = None
    _input: Any = None
    _frozen: RawValue | None = None
    _output: RawValue | None = None
    _failure: JsonObject | None = None
    _annotations: JsonObject
    _interception: CaptureInterception | None = None
    _outer: CapturedRun | None = None
    _adopted: CapturedRun | None = None
    error_inside: BaseException | None = None
    """What has left the last run inside this one that an error has left."""
    _provisional = False
    _token: Token[CallContext | None] | None = None
    _began = _began_at = 0

    def __init__(self, name: str, id: str | None, input: Any, *, provisional: bool = False) -> None:  # noqa: A002
        """Say what is captured when the run is entered."""
        with fail_open.never_raising():
            self.name, self._input, self._provisional, self._annotations = name, input, provisional, {}
            self.id = str(id or os.urandom(16).hex())

    @property
    def captures(self) -> bool:
        """Whether the run is captured, by itself or as a part of another one."""
        return self._interception is not None or self._outer is not None

    def annotate(self, **facts: Any) -> None:
        """Note facts about the run, plain JSON."""
        with fail_open.never_raising():
            if self._outer is not None:
                self._outer.annotate(**facts)
            else:
                self._annotations |= {name: self._freeze(value).native for name, value in facts.items()}

    def failed(self, reason: str, *, kind: str = "failed") -> None:
        """Say that the run has failed, where it raises nothing; `kind` is the type of the failure."""
        with fail_open.never_raising():
            if self._outer is not None:
                self._outer.failed(reason, kind=kind)
            else:
                self._failure = {"type": kind, "message": str(reason).strip().partition("\n")[0]}

    def output(self, value: Any) -> None:
        """Note what the run gives."""
        with fail_open.never_raising():
            if (run := self._get_owner()) is not None:
                frozen = run._freeze(value)
                if frozen.native is not None or value is None:  # one that is too large is left out
                    run._output = frozen

    def take_input(self, value: Json, cold: str = "", name: str = "") -> None:
        """Take the input, frozen already, and a better name; `cold` says why a replay cannot be called with it."""
        if (run := self._get_owner()) is not None:
            run._frozen, run.name = RawValue(value), name or run.name
            if cold and run._interception is not None:
                run._interception.cold = cold

    def _get_owner(self) -> CapturedRun | None:
        """Return the run whose input and output are those of this one; None where it is a part among others."""
        if self._outer is None:
            return self if self._adopted is None else None
        return self._outer if self._outer._adopted is self else None

    def __enter__(self) -> Self:
        with fail_open.never_raising():
            if _capture is not None:
                self._begin(_capture)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        interception, token = self._interception, self._token
        try:
            with fail_open.never_raising():
                if interception is not None:
                    self._end(interception, error)
                elif self._outer is not None and error is not None:
                    self._outer.error_inside = error
        finally:  # whatever failed: what comes next in this context is no part of this run
            self._interception = self._token = None
            if interception is not None:
                interception.ending.over.set()
            if token is not None:
                try:
                    token.var.reset(token)
                except ValueError:  # ended in another context than it began in
                    token.var.set(None)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.__exit__(kind, error, traceback)

    def _begin(self, capture: Capture) -> None:
        from pytest_agentreplay.intercept.session import lanes
        from pytest_agentreplay.runs.capture.interception import CaptureInterception

        around = lanes.CALL_CONTEXT.get()
        if is_in_test():
            return
        if around is not None and not around.interception.ending.over.is_set():
            if isinstance(around.interception, CaptureInterception):
                self._join(around.interception.run)
            return  # else a test is recorded or replayed
        self._interception = interception = CaptureInterception(self)
        registry = capture.patches.registry
        interception.tools.codecs, interception.tools.live = registry.codecs, registry.live
        interception.tools.read_tools = registry.read_tools
        self._frozen = self._freeze_input(self._input)
        capture.open.add(interception)
        self._began, self._began_at = time.time_ns(), clocks.monotonic_ns()
        self._token = lanes.CALL_CONTEXT.set(interception.main())
        mark_span(self.id)

    def _join(self, outer: CapturedRun) -> None:
        self._outer, self.id = outer, outer.id
        if outer._provisional:
            outer._provisional, outer._adopted = False, self
            outer.name, outer._frozen = self.name, outer._freeze_input(self._input)

    def _end(self, interception: CaptureInterception, error: BaseException | None) -> None:
        from pytest_agentreplay.runs.capture.ended_capture import EndedCapture

        is_forgotten = interception.ending.over.is_set()
        interception.end()
        if is_forgotten or (capture := _capture) is None:
            return
        if (reason := ENDED.get(type(error).__name__)) is not None:
            self.annotate(ended=reason)
        elif error is not None:
            self._failure = describe_failure(error)
        # A fault of ours, or a value that could not be frozen.
        problems = (str(problem).partition("\n")[0] for problem in interception.observed.problems)
        paths = capture.patches.paths
        kit: JsonObject = {
            "trace": dict(interception.observed.trace),
            "functions": {name: paths.get(name, "") for name in sorted(interception.tools.functions)},
            "uuids": interception.draws,
        }
        ended = EndedCapture(
            self.id,
            self.name,
            self._began,
            (clocks.monotonic_ns() - self._began_at) / 1e9,
            interception.recorder.list_exchanges(),
            interception.calls,
            interception.outcomes,
            self._frozen,
            self._output,
            None if self._failure is None else RawValue(self._failure),
            RawValue(self._annotations) if self._annotations else None,
            interception.agents,
            interception.describe_lanes(),
            {name: value for name, value in (kit | capture.patches.facts).items() if value},
            interception.cold or next(problems, ""),
            interception.measure(),
        )
        interception.forget()
        capture.open.discard(interception)
        fail_open.count("captured")
        keeper = capture.get_keeper()
        keeper.take(ended)
        if self.reason is not None:
            keeper.keep(self.id, self.reason)

    def _freeze(self, value: Any) -> RawValue:
        """Return a value as it is now, as JSON."""
        from pytest_agentreplay.runs.capture.freezing import freeze_value

        return RawValue(freeze_value("value", value)[0])

    def _freeze_input(self, value: Any) -> RawValue | None:
        """Return the input as JSON; one that is not JSON makes the run cold."""
        from pytest_agentreplay.runs.capture.freezing import freeze_value

        if value is None:
            return None
        frozen, reason = freeze_value("the input", value)
        if reason and self._interception is not None:
            self._interception.cold = reason
        return RawValue(frozen)


def mark_span(run_id: str) -> None:
    """Set the run's id on the current span of OpenTelemetry, where that is loaded: the way from a trace to the file."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        trace.get_current_span().set_attribute("agentreplay.run_id", run_id)
