"""What the session of one test reports when it has finished: typed, frozen, and redacted before it leaves the process.

A summary crosses from a worker of xdist to the controller as plain JSON, which is all that execnet carries: `to_plain`
and `restore_plain` are the one place where it has that form.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar, cast

T = TypeVar("T")
# In the metadata of a field, the dataclass of its value or of each of its values.
KIND = "kind"

RecordingVerdict: TypeAlias = Literal["created", "replaced", "pending", "kept", "without calls", "not written"]
AdoptionVerdict: TypeAlias = Literal["adopted", "to be adopted", "left", "nothing changed", "not written"]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the replay of a new recording has shown: whether it replays, why (not); or why it was `skipped`."""

    replays: bool = True
    why: str = ""
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class UnfrozenTool:
    """A tool that ran unseen; `path` is the import path that freezes it, "" for a tool of a child process."""

    tool: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class UncomparedArgument:
    """An argument that a replay compares by its class alone: where, of which class, why, and the line that helps."""

    tool: str
    path: str
    kind: str
    why: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSummary:
    """What became of a recording.

    Attributes:
        verdict: Where the run went.
        outcome: How the test ended: "passed", "failed" or "skipped".
        why: Why it is pending, or was not written; several lines of an error.
        pending: The file of a pending run.
        keeps_previous: Whether there is an older snapshot, which a pending run has left as it was.
        unchanged: Whether the snapshot says the same as before and was left byte for byte.
        outage: Whether no model call was answered.
        rest: The file that holds what may be kept of a run with a secret in it.
        journal: The file of the calls that were seen by then.
        large: Bytes of a snapshot that has more than it should; 0 for any other.
        racy: Pairs of threads that had their answers within a millisecond.
        gaps: What passed that no boundary records.
        unfrozen: Tools that ran unseen.
        inside: Frozen tools that asked a model themselves.
        uncompared: Arguments of tools that are compared by class alone.
        own_imports: Modules of the project that made requests while they were imported.
        forked: Of a forked run, at which turn.
        differs: Whether another process kept a run of the fixture with other answers.
        missing: Whether it was recorded only because there was no snapshot.
        tries: How often the test was run until it counted.
        proof: What the replay has shown; None before it.
    """

    verdict: RecordingVerdict = "not written"
    outcome: str = ""
    why: str = ""
    exchanges: int = 0
    pending: str = ""
    keeps_previous: bool = True
    unchanged: bool = False
    outage: bool = False
    rest: str = ""
    journal: str = ""
    large: int = 0
    racy: int = 0
    gaps: tuple[str, ...] = ()
    unfrozen: tuple[UnfrozenTool, ...] = field(default=(), metadata={KIND: UnfrozenTool})
    inside: tuple[str, ...] = ()
    uncompared: tuple[UncomparedArgument, ...] = field(default=(), metadata={KIND: UncomparedArgument})
    own_imports: tuple[str, ...] = ()
    forked: str = ""
    differs: bool = False
    missing: bool = False
    tries: int = 1
    proof: Proof | None = field(default=None, metadata={KIND: Proof})

    @property
    def is_new(self) -> bool:
        """Whether a replay has to show what comes of it: a new snapshot, or only what no boundary took."""
        return self.verdict in {"created", "replaced"} or (self.verdict == "without calls" and bool(self.gaps))

    @property
    def went_well(self) -> bool:
        """Whether it leaves nothing for a person to do."""
        if self.verdict in {"pending", "not written", "kept"}:
            return False
        if self.gaps or self.unfrozen or self.inside or self.uncompared or self.large or self.racy:
            return False
        return self.proof is None or (self.proof.replays and not self.proof.skipped)


@dataclass(frozen=True, slots=True)
class VirtualClockUse:
    """Why a virtual clock was none, or "", and how many answers came within 5 ms of a timer when recorded."""

    why: str = ""
    tight: int = 0


@dataclass(frozen=True, slots=True)
class FieldDrift:
    """A field that is not compared and differs: in how many calls of a test, how in the first of them, and the rule."""

    path: str
    calls: int
    recorded: str
    now: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """What a replay has shown beside its finding.

    Attributes:
        turns: Turns of the model that were served.
        exchanges: Calls that were served.
        verified: Tools that ran beside their recorded answer.
        unfrozen: Tools that ran unseen when recorded, and run for real now.
        network: How closed the network was ("L1", "L3"); "" where nothing closed it.
        unheard: By library in C that the agent loaded by hand, the line that did.
        drift: Fields that differ and are not compared.
        drifting: Calls with such a field.
        aged: Of a recording that may be stale, what tells whether it is, as `RecordedFacts` has it.
        vanished: Calls that were begun and given up when recorded, and are not made now.
        changed: Files that the test depends on and that changed.
        edited: Sections of the snapshot that were edited after it was recorded.
        recurs: The date of the recording, of a test that fails as it did then.
        expect: How a test that keeps its failure ended.
        written: Tools that change something and whose code did not run.
        redacted: Whether the test looks at a secret that is redacted.
        guessed: Whether an event loop could not be asked when it is idle.
        timed: Whether answers were held until a timer of the program had brought another call.
        ran_on: Whether the clock ran on while the agent waited.
        clock: How a virtual clock went; None where none was asked for.
        live_run: The result of a live run, as `LiveResult.plain` returns it.
        live_changes: What changed at the provider and in the SDKs since.
    """

    turns: int = 0
    exchanges: int = 0
    verified: int = 0
    unfrozen: tuple[UnfrozenTool, ...] = field(default=(), metadata={KIND: UnfrozenTool})
    network: str = ""
    unheard: dict[str, str] = field(default_factory=dict)
    drift: tuple[FieldDrift, ...] = field(default=(), metadata={KIND: FieldDrift})
    drifting: int = 0
    aged: dict[str, Any] = field(default_factory=dict)
    vanished: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    recurs: str = ""
    expect: str = ""
    written: tuple[str, ...] = ()
    redacted: bool = False
    guessed: bool = False
    timed: bool = False
    ran_on: bool = False
    clock: VirtualClockUse | None = field(default=None, metadata={KIND: VirtualClockUse})
    live_run: dict[str, Any] | None = None
    live_changes: tuple[str, ...] = ()

    @property
    def fails_as_recorded(self) -> bool:
        """Whether the test failed as it did when it was recorded."""
        return bool(self.recurs) or self.expect == "fails as recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionSummary:
    """What became of the changed requests of a test: how many, which recorded call answers each, transcripts beside."""

    verdict: AdoptionVerdict = "not written"
    requests: int = 0
    alignment: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    transcripts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderResult:
    """What one other order of answers gave: its number of how many, whether the order could be kept, and the race.

    `race` is the finding as `Finding.plain` returns it.
    """

    number: int
    total: int
    kept: bool
    race: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """What the session of one test, or of one fixture that is wider than a test, reports when it has finished.

    Attributes:
        mode: "record", "replay" or "adopt".
        test: The node id, or the id of the fixture.
        file: The snapshot.
        code: The code of the finding that failed it; "" for none.
        former: The id of the test that is gone and whose snapshot a finding offers; "" for none.
        failed: Whether the body failed by an error of its own.
        late: Whether the test asked for the fixture `agentreplay` while it ran.
        fixture: Name and scope of a fixture; None for a test.
        instance: When the recording of a fixture began, in nanoseconds since the epoch; 0 for none.
        idle: Whether no test that opted in needs the fixture.
        silent: Whether there is nothing to report of a fixture.
        uses: The recordings of fixtures that the test has built on, by id: their `instance`.
        live: Tools that were declared to run for real.
        strays: What children of other tests asked the gateway of this one for.
        imports: By library that asked for something while it was imported, what for.
        recording, replay, adoption: What the mode adds; the others are None.
        trial: What another order of answers gave.
        result: What came of a neighbour of the recording, as `TrialResult.plain` returns it.
    """

    mode: str
    test: str
    file: str = ""
    code: str = ""
    former: str = ""
    failed: bool = False
    late: bool = False
    fixture: dict[str, str] | None = None
    instance: int = 0
    idle: bool = False
    silent: bool = False
    uses: dict[str, int] = field(default_factory=dict)
    live: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()
    imports: dict[str, str] = field(default_factory=dict)
    recording: RecordingSummary | None = field(default=None, metadata={KIND: RecordingSummary})
    replay: ReplaySummary | None = field(default=None, metadata={KIND: ReplaySummary})
    adoption: AdoptionSummary | None = field(default=None, metadata={KIND: AdoptionSummary})
    trial: OrderResult | None = field(default=None, metadata={KIND: OrderResult})
    result: dict[str, Any] | None = None

    @property
    def is_new(self) -> bool:
        """Whether it is a recording that a replay has to prove."""
        return self.recording is not None and self.recording.is_new


@dataclass(frozen=True, slots=True)
class LateCall:
    """A call that came after its test had been reported, and was refused."""

    test: str
    call: str


@dataclass(frozen=True, slots=True)
class CollectedSnapshots:
    """The snapshots that no test of one process owns.

    Attributes:
        part: Why not every test was collected; "" where all were.
        tests: How many tests the process was to run.
        gone: By file of a snapshot whose test is not there, the id of that test.
        idle: The same, of a test that did not opt in.
        unreadable: Files that cannot be read.
    """

    part: str = ""
    tests: int = 0
    gone: dict[str, str] = field(default_factory=dict)
    idle: dict[str, str] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedSnapshots:
    """The snapshots that no test of a full run used.

    Attributes:
        root: The root of the project.
        directory: The name of the folders of snapshots.
        why: Why none is claimed; "" where the search was complete.
        files: File and id of the test of each.
        moves: Old and new id where the test may have been renamed.
        possible_moves: File, old and new id of those that may belong to a test without a snapshot.
        unreadable: Files that cannot be read.
    """

    root: str
    directory: str
    why: str = ""
    files: tuple[tuple[str, str], ...] = ()
    moves: tuple[tuple[str, str], ...] = ()
    possible_moves: tuple[tuple[str, str, str], ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSummary:
    """What one process reports beside its tests, when they are over.

    Attributes:
        late: Calls that came after their test had been reported.
        crashed: Tests in which worker processes of xdist crashed.
        open: Why the sandbox did not close the network; "" where it did, or nobody asked for it.
        collected: The snapshots that no test owns, by process.
        bystanders: Tests without the plugin that called a model, at `model_hosts`.
        fixtures: Summaries of fixtures that no report of a test carries.
    """

    late: tuple[LateCall, ...] = field(default=(), metadata={KIND: LateCall})
    crashed: tuple[str, ...] = ()
    open: str = ""
    collected: tuple[CollectedSnapshots, ...] = field(default=(), metadata={KIND: CollectedSnapshots})
    bystanders: int = 0
    model_hosts: tuple[str, ...] = ()
    fixtures: tuple[SessionSummary, ...] = field(default=(), metadata={KIND: SessionSummary})

    def __bool__(self) -> bool:
        """Return whether there is anything to report."""
        return self != ProcessSummary()

    def __add__(self, other: ProcessSummary) -> ProcessSummary:
        """Return the summary of both processes."""
        return ProcessSummary(
            late=self.late + other.late,
            crashed=self.crashed + other.crashed,
            open=self.open or other.open,
            collected=self.collected + other.collected,
            bystanders=self.bystanders + other.bystanders,
            model_hosts=(*sorted({*self.model_hosts, *other.model_hosts}),),
            fixtures=self.fixtures + other.fixtures,
        )


def to_plain(value: Any) -> Any:
    """Return a summary, or a part of one, as JSON takes it; fields that have their default are left out."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((name, default, getattr(value, name)) for name, default, _ in list_fields(cast("Any", type(value))))
        return {name: to_plain(content) for name, default, content in pairs if content != default}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return {name: to_plain(item) for name, item in value.items()} if isinstance(value, dict) else value


def restore_plain(kind: type[T], plain: Any) -> T:
    """Return the summary, or the part of one, of class `kind` that `to_plain` made plain."""
    parts = {name: part for name, _, part in list_fields(cast("Any", kind))}
    return kind(**{name: restore_field(parts[name], value) for name, value in plain.items()})


def restore_field(kind: type[Any] | None, value: Any) -> Any:
    """Return the value of one field: lists are tuples again, parts have their class."""
    if isinstance(value, list):
        return tuple(restore_field(kind, item) for item in value)
    return value if kind is None or value is None else restore_plain(kind, value)


@lru_cache(maxsize=64)  # each test asks for those of some classes, several times
def list_fields(kind: Any) -> list[tuple[str, Any, Any]]:
    """Return the fields of a dataclass: name, default (MISSING for none), class of the parts (None for none)."""
    return [(each.name, get_default(each), each.metadata.get(KIND)) for each in fields(kind)]


def get_default(field_: Any) -> Any:
    """Return the default of a field; MISSING for one that has to be given."""
    return field_.default if field_.default_factory is MISSING else field_.default_factory()
