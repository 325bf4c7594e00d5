"""An ended run, raw and in memory, and which runs are kept, as the call of `capture.start` or the environment says it.

Nothing is written here. `runs.capture.keeping` decides whether a run is kept; what is kept is redacted, and only then
encoded and written.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pytest_agentreplay.model.exchanges import Exchange, JsonObject, RawCall, RawOutcome, RawValue
    from pytest_agentreplay.model.release_order import Started

    Keep: TypeAlias = str | float | Callable[["KeptRun"], Any]


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """What the run has shown of its lanes, in readings of its counter before it is thinned.

    Attributes:
        begun: By lane, when its thread or job was started.
        after: By call, the calls of other lanes that it was made after.
        serving: The exchanges in which a server of this process made calls.
        started: Which threads, jobs and tasks were begun.
    """

    begun: Mapping[str, int]
    after: Mapping[int, tuple[int, ...]]
    serving: frozenset[int]
    started: Started

    def describe(self, exchanges: Iterable[Exchange], now: Callable[[int], int]) -> JsonObject:
        """Return the entries of the kit by which a replay keeps the order, of the thinned exchanges.

        Args:
            exchanges: The exchanges with their real calls and outcomes, as `thinned` returns them.
            now: What `thinned` returns beside them.
        """
        from pytest_agentreplay.model.recorded_order import late_lanes, order_between_lanes
        from pytest_agentreplay.model.release_order import ReleaseSchedule, lanes_above

        exchanges = tuple(exchanges)
        schedule = ReleaseSchedule(exchanges, ())
        lanes = {up for x in exchanges for up in (x.lane, *lanes_above(x.lane))}
        begun = {lane: now(reading) for lane, reading in self.begun.items()}
        facts: JsonObject = {
            "order": {"held": True} if schedule.matters else {},
            "servers": [*sorted(now(start) for start in self.serving)],
            "starts": self.started.list_labels(lanes),
            "after": order_between_lanes(exchanges, self.after, now),
            "lanes": dict(late_lanes((x for x in exchanges if x.parent is None), begun)),
        }
        return {name: value for name, value in facts.items() if value}


@dataclass(frozen=True, slots=True, repr=False)
class EndedCapture:
    """One run of a service, ended.

    Attributes:
        id: The run's id; the name of its file.
        name: The name of the entry ("refund"), under which a project declares a runner.
        began: When it began, in nanoseconds since the epoch.
        seconds: How long it took.
        exchanges: Lanes, order and timing of its calls. Each has a stand-in for its call and outcome: the raw ones are
            in `calls` and `outcomes`, by the `start` of the exchange. The `agent` of an exchange is a key of `agents`.
        calls: The raw calls.
        outcomes: The raw outcomes of those that ended.
        input: The arguments of the run by name; None where nobody gave any.
        output: What it returned; None where that is not known.
        failure: Type and first line of what failed it, as `{"type": ..., "message": ...}`; None where it did not fail.
        annotations: What the service noted about it.
        agents: The raw names of agents by what exchanges have instead.
        lanes: What `describe` makes entries of the kit of, once the exchanges are whole.
        kit: Further facts for the header that hold nothing raw: trace ids, functions, signatures, draws of ids.
        cold: Why it cannot be replayed, "" where it can.
        size: The bytes that its calls and outcomes take in memory.
        is_bare: Whether `calls` and `outcomes` were dropped because the run is too large; the rest is kept.
    """

    id: str
    name: str
    began: int
    seconds: float
    exchanges: tuple[Exchange, ...]
    calls: Mapping[int, RawCall]
    outcomes: Mapping[int, RawOutcome]
    input: RawValue | None = None
    output: RawValue | None = None
    failure: RawValue | None = None
    annotations: RawValue | None = None
    agents: Mapping[str, RawValue] = field(default_factory=dict)
    lanes: LaneFacts | None = None
    kit: JsonObject = field(default_factory=dict)
    cold: str = ""
    size: int = 0
    is_bare: bool = False

    @property
    def failed(self) -> bool:
        """Whether the run failed: by an exception, a status of 500 and above, or because the service said so."""
        return self.failure is not None


MAX_BYTES = 16 << 20
"""Bytes of the calls of a run beyond which only its head is kept: a file is read again up to 32 MB."""
RING_BYTES, RING_RUNS = 64 << 20, 1_000


class Limits(NamedTuple):
    """What a capture takes at most, as `capture.start` has it."""

    max_bytes: int = MAX_BYTES
    ring_bytes: int = RING_BYTES
    ring_runs: int = RING_RUNS
    max_age: float | None = None
    max_store_bytes: int | None = None


LIMITS = Limits()
SWITCH, PLACE = "AGENTREPLAY_CAPTURE", "AGENTREPLAY_CAPTURE_TO"


class KeptRun:
    """An ended run, as a function that decides whether it is kept sees it. What it holds is not to be changed.

    Attributes:
        id: Its id.
        name: Its name.
        failed: Whether it failed.
        seconds: How long it took.
        calls: How many calls it made.
        input: Its input, None where nobody gave any; so are the next ones.
        output: What it returned.
        failure: Type and message of its failure.
        annotations: What the service noted about it.
    """

    def __init__(self, ended: EndedCapture) -> None:
        """Unwrap what is raw: the function is the service's own."""
        self.id, self.name, self.failed, self.seconds = ended.id, ended.name, ended.failed, ended.seconds
        self.calls = len(ended.exchanges)
        values = (ended.input, ended.output, ended.failure, ended.annotations)
        self.input, self.output, self.failure, self.annotations = (value and value.native for value in values)


def parse_keep(keep: Keep) -> Callable[[EndedCapture], str]:
    """Return what gives the reason for which a run is kept, "" for one that is not. Raises SettingsError.

    Each is a matter of the run's id and end alone; what a function of the service says is asked later ("function").
    """
    if callable(keep):
        return lambda _: "function"
    if keep == "failed":
        return lambda ended: "failed" if ended.failed else ""
    if keep == "all":
        return lambda _: "all"
    try:
        rate = -1.0 if isinstance(keep, bool) else float(keep)
    except (TypeError, ValueError):
        rate = -1.0
    if not 0 <= rate <= 1:
        raise SettingsError(f'keep takes "failed", "all", a rate from 0 to 1, or a function of the run, not {keep!r}')
    return lambda ended: "rate" if draw(ended.id) < rate else ""


def draw(identity: str) -> float:
    """Return a number from 0 to 1 for an id: the same in each service, so that those that share ids keep the same."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6]) / (1 << 48)


def choose_capture(
    store: str | Path, keep: Keep, environ: Mapping[str, str] = os.environ
) -> tuple[str | Path, Keep] | None:
    """Return where runs are kept and which, as the environment or else the call says; None where capture is off.

    Raises SettingsError for a value of the environment that is none.
    """
    switch = environ.get(SWITCH, "").strip().lower()
    if switch == "off":
        return None
    try:
        parse_keep(switch or "all")
    except SettingsError:
        raise SettingsError(f"{SWITCH} takes off, failed, all or a rate from 0 to 1, not {switch!r}") from None
    return environ.get(PLACE) or store, switch or keep
