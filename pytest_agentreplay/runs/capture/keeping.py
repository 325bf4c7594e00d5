"""Keeps ended runs: those that are due are written by a thread of its own, the latest of the others wait in a ring.

Nothing here raises into the service or waits for a disk: `take` puts a run into one of two queues and returns. Every
fault is counted, and the first of its kind is logged, without a word of what a run holds.
"""

from __future__ import annotations

import atexit
import contextvars
import functools
import importlib
import os
import sys
import threading
import traceback
import weakref
from collections import Counter, deque
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.errors import AgentReplayError, Leak, SettingsError
from pytest_agentreplay.runs.capture import fail_open
from pytest_agentreplay.runs.capture.ended_capture import LIMITS, EndedCapture, KeptRun, Limits, parse_keep
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.run_store import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.runs.capture.ended_capture import Keep
    from pytest_agentreplay.runs.capture.sealing import Sealer

EXIT_SECONDS = 5.0
"""How long the end of the process may wait for what is due: before executors end, and for what their last jobs add."""
SHARE = 16
"""A rotation lists the store anew after each such part of its bytes: one for each file would take ever longer."""
COUNTED = ("kept", "dropped", "too_large", "failed_to_write", "refused", "rotated")
CROWDED = "runs are due faster than they are written, and the oldest of them are lost; keep a rate of them"


_LOADING = threading.RLock()
"""Held while what sealing needs is imported. A fork waits for that: its child would have the modules half imported."""


class WaitingRuns:
    """Ended runs, the oldest first, within a number of runs and of bytes."""

    def __init__(self, limits: Limits) -> None:
        """Begin with none."""
        self._limits, self._size = limits, 0
        self.runs: deque[tuple[EndedCapture, str]] = deque()

    def add(self, ended: EndedCapture, reason: str = "") -> int:
        """Add a run, and return how many of the oldest were dropped for it."""
        self.runs.append((ended, reason))
        self._size += weigh(ended)
        dropped = 0
        while len(self.runs) > self._limits.ring_runs or self._size > self._limits.ring_bytes:
            self.take_first()
            dropped += 1
        return dropped

    def take_first(self) -> tuple[EndedCapture, str]:
        """Return the oldest run, and forget it."""
        ended, reason = self.runs.popleft()
        self._size -= weigh(ended)
        return ended, reason

    def take_all(self, identity: str) -> list[EndedCapture]:
        """Return the runs of an id, which services may give to several, and forget them."""
        taken = [ended for ended, _ in self.runs if ended.id == identity]
        if taken:
            self.runs = deque(waiting for waiting in self.runs if waiting[0].id != identity)
            self._size -= sum(map(weigh, taken))
        return taken


def weigh(ended: EndedCapture) -> int:
    """Return the bytes that a run takes in memory; those of one that is too large are gone."""
    return 0 if ended.is_bare else ended.size


class Keeper:
    """Decides about ended runs, and writes those that are kept. Safe from any thread.

    Its arguments, and its limits, are those of `capture.start`.

    Raises:
        SettingsError: `keep` or the store is invalid, or a package is missing.
        CannotWrite: The store is a folder that this process may never write.
        PolicyError: The policy file cannot be read, or is invalid.
    """

    def __init__(
        self,
        store: str | Path,
        *,
        keep: Keep = "failed",
        service: str = "",
        version: str = "",
        policy: str | Path | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        """Look at the store and the policy, write nothing, and start no thread yet."""
        self._find_reason, self._decide = parse_keep(keep), keep if callable(keep) else None
        if not str(store).strip():
            raise SettingsError("the store of captured runs has no name; name a folder, or a URL as s3://bucket/runs")
        self._store = RunStore(store if "://" in str(store) else Path(store).absolute())
        self._store.check_writable()
        self._make_sealer = policy, service, version
        if policy is not None:
            self._sealer  # noqa: B018  raises what the file is refused with
        self._limits = limits
        self._unlisted, self._listed_on = 0, ""
        self._changed = threading.Condition()
        self._ring, self._due = WaitingRuns(limits), WaitingRuns(limits)
        self._counts: Counter[str] = Counter()
        self._kept: deque[str] = deque(maxlen=limits.ring_runs)
        self._writing = ""
        self._closing = False
        self._thread: threading.Thread | None = None
        _watch_exit()
        _open.add(self)

    @functools.cached_property
    def _sealer(self) -> Sealer:
        """What redacts and encodes. Loaded by the first run that is kept: it takes twice as long as all the rest."""
        with _LOADING:
            from pytest_agentreplay.runs.capture.sealing import Sealer

            policy, service, version = self._make_sealer
            return Sealer(policy, service=service, version=version)

    def take(self, ended: EndedCapture) -> None:
        """Take a run: to be written, or into the ring. Never raises or waits."""
        try:
            if ended.size > self._limits.max_bytes:
                ended = self._strip(ended)
            reason = self._find_reason(ended)
            with self._changed:
                if self._closing:
                    self._counts["dropped"] += 1
                elif reason:
                    self._make_due(ended, reason)
                else:
                    self._counts["dropped"] += self._ring.add(ended)
        except Exception as error:  # the service goes on
            self._note_fault("faults", error)

    def keep(self, run_id: str, reason: str = "") -> bool:
        """Have a run written that is in the ring; return whether it is, or was, kept. Never raises."""
        try:
            reason = f"kept: {reason}" if reason else "kept"
            with self._changed:
                waiting = self._ring.take_all(run_id) + self._due.take_all(run_id)
                for ended in waiting:
                    self._make_due(ended, reason)
                return bool(waiting) or run_id == self._writing or run_id in self._kept
        except Exception as error:  # as above
            self._note_fault("faults", error)
        return False

    def stats(self) -> dict[str, int]:
        """Return how many runs were kept and dropped and why, how many wait to be written, and are in the ring."""
        with self._changed:
            waiting = len(self._due.runs) + bool(self._writing)
            return {name: self._counts[name] for name in COUNTED} | {"waiting": waiting, "ring": len(self._ring.runs)}

    def close(self, timeout: float) -> None:
        """Write what is due, for so many seconds at most; what is in the ring is dropped."""
        self.flush(timeout)
        with self._changed:
            late = len(self._due.runs) + bool(self._writing)
            for waiting in (self._due, self._ring):
                while waiting.runs:
                    waiting.take_first()
                    self._counts["dropped"] += 1
            self._closing = True
            self._changed.notify_all()
        if late:
            self._log("late", f"{late} runs were still to be written after {timeout} seconds")

    def flush(self, timeout: float) -> None:
        """Write what is due, for so many seconds at most."""
        deadline = clocks.monotonic() + timeout
        with self._changed:
            while self._thread is None and self._due.runs and clocks.monotonic() < deadline:
                self._write_next()  # no thread could be started
            self._changed.wait_for(lambda: not (self._due.runs or self._writing), deadline - clocks.monotonic())

    def _make_due(self, ended: EndedCapture, reason: str) -> None:
        """Have a run written; where too many wait, the oldest are dropped. With `_changed` held."""
        if dropped := self._due.add(ended, reason):
            self._counts["dropped"] += dropped
            self._log("dropped", CROWDED)
        if self._thread is None and not self._closing:
            contextvars.Context().run(self._start_thread)  # what is started in a run belongs to it, and this to none
        self._changed.notify_all()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._write_due, name="agentreplay-capture", daemon=True)
        thread.start()
        self._thread = thread
        for name in ("multiprocessing.util", "billiard.util"):  # a worker of these, or of Celery, runs no atexit
            if (util := sys.modules.get(name)) is not None:
                util.Finalize(None, self.flush, (EXIT_SECONDS,), exitpriority=0)

    def _write_due(self) -> None:
        while not self._closing:
            with self._changed:
                self._changed.wait_for(lambda: self._due.runs or self._closing)
            self._write_next()

    def _write_next(self) -> None:
        """Write the run that is due first; one that a function or the disk refuses goes into the ring."""
        with self._changed:
            if not self._due.runs:
                return
            ended, reason = self._due.take_first()
            self._writing = ended.id
        is_over = False
        try:
            if reason == "function":
                reason = self._ask(ended)
            if reason:
                self._write(ended, reason)
                is_over = True
                self._kept.append(ended.id)
                self._count("kept")
        except Exception as error:  # whatever it is, the next run is written
            is_over = isinstance(error, Leak)
            self._note_fault("refused" if is_over else "failed_to_write", error)
        with self._changed:
            self._writing = ""
            if not is_over:
                self._counts["dropped"] += self._ring.add(ended)
            self._changed.notify_all()

    def _ask(self, ended: EndedCapture) -> str:
        """Return why a run is kept, as the service's function says; a run that failed is kept where that raises."""
        try:
            return "function" if self._decide is not None and self._decide(KeptRun(ended)) else ""
        except Exception as error:
            self._note_fault("faults", error)
            return "failed" if ended.failed else ""

    def _write(self, ended: EndedCapture, reason: str) -> None:
        sealed = self._sealer.seal(ended, reason)
        if len(sealed.text) > files.LARGEST:
            sealed = self._sealer.seal(self._strip(ended), reason)
        if sealed.refused:
            self._note_fault("refused", Leak(sealed.refused))
        data = sealed.text.encode()
        self._store.write(sealed.name, sealed.day, sealed.id, data)
        try:
            self._rotate(len(data))
        except AgentReplayError as error:  # the run is written
            self._note_fault("faults", error)

    def _strip(self, ended: EndedCapture) -> EndedCapture:
        """Return what is kept of a run that is too large."""
        self._count("too_large")
        why = f"it is too large: its calls take {ended.size:,} bytes, and max_bytes is {self._limits.max_bytes:,}"
        return replace(ended, is_bare=True, calls={}, outcomes={}, cold=why)

    def _rotate(self, written: int) -> None:
        """Delete the oldest files: with the first run, each day, and each time that a part of the store was written."""
        most, age, today = self._limits.max_store_bytes, self._limits.max_age, datetime.now(UTC).date()
        self._unlisted += written
        is_due = most is not None and self._unlisted * SHARE >= most
        if (age is None and most is None) or (str(today) == self._listed_on and not is_due):
            return
        self._unlisted, self._listed_on = 0, str(today)
        oldest = "" if age is None else str(today - timedelta(days=age))
        self._count("rotated", self._store.rotate(oldest, None if most is None else most - most // SHARE))

    def _count(self, name: str, more: int = 1) -> None:
        with self._changed:
            self._counts[name] += more

    def _note_fault(self, name: str, error: Exception) -> None:
        """Count a fault, and log the first of its kind. What others raise may quote a run: only its place is logged."""
        if name == "faults":  # of the whole capture
            fail_open.count(name)
        self._count(name)
        text = str(error)
        if not isinstance(error, AgentReplayError):
            frame = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__} in {frame.filename}, line {frame.lineno}"
        self._log(name, text)

    def _log(self, name: str, text: str) -> None:
        self._count(f"logged {name}")
        if self._counts[f"logged {name}"] == 1:
            fail_open.LOG.warning(
                "agentreplay capture: %s: %s; later ones are only counted", name.replace("_", " "), text
            )


_open: weakref.WeakSet[Keeper] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOADING.acquire, after_in_parent=_LOADING.release, after_in_child=_LOADING.release)
    os.register_at_fork(after_in_child=_open.clear)  # `runs.capture.runs` makes a keeper for the child


@functools.cache
def _watch_exit() -> None:
    """Have what is due written at the end of the process, whoever ends it, without a handler of a signal."""
    atexit.register(_end_all, Keeper.close, EXIT_SECONDS)
    # An object store looks up its host in a thread of an executor, and none takes work by the time of atexit. So what
    # is due is written before executors end, and they end in the reverse order of these lines:
    # https://github.com/python/cpython/blob/v3.13.0/Lib/concurrent/futures/thread.py#L37
    importlib.import_module("concurrent.futures.thread")
    with suppress(AttributeError, RuntimeError):
        threading._register_atexit(_end_all, Keeper.flush, EXIT_SECONDS)  # type: ignore[attr-defined]


def _end_all(end: Callable[[Keeper, float], None], timeout: float) -> None:
    for keeper in [*_open]:
        end(keeper, timeout)
