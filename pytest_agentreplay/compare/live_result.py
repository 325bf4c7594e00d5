"""Which layers of a run are live; and one live run as plain data: items report it, verbs read it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.model.exchanges import Json

Word: TypeAlias = Literal["same", "drifted", "inconclusive"]
ModelAxis: TypeAlias = Literal["frozen", "live"]
ToolsAxis: TypeAlias = Literal["frozen", "checked", "live"]
WRITES = "writes:"


@dataclass(frozen=True, slots=True)
class Axes:
    """One cell of the matrix: is the model asked for real, and do tools that only read run for real.

    `tools` is "frozen" (recorded results), "checked" (read tools run too, the agent gets the recorded results) or
    "live" (the agent gets what read tools return now). A tool that writes never runs in any cell. `released` are the
    layers that a line-up releases in this run ("model", "prompt", "tool:NAME", "retrieval", "clock", "random"), None in
    any other run.
    """

    model: ModelAxis = "frozen"
    tools: ToolsAxis = "frozen"
    released: frozenset[str] | None = None

    @property
    def cell(self) -> str:
        """Return the name of the cell: "FF", "FL", "LF" or "LL", the model first; "checked" counts as live tools."""
        return ("L" if self.model == "live" else "F") + ("F" if self.tools == "frozen" else "L")

    def releases(self, layer: str) -> bool:
        """Return whether a tool or retrieval runs, where it only reads: "tool:NAME", "retrieval"."""
        return self.tools == "live" if self.released is None else layer in self.released


@dataclass(frozen=True, slots=True)
class Drift:
    """One place where a live run left the recorded one by more than a tolerance allows.

    `layer` is "agent", "model" or "tool", as far as this run alone shows it. `path` is the JSON path into the
    observation of the run (`compare.tolerance`), `tolerance` the rule that was broken as people write it, `default`
    whether it is one of the shipped rules and not the user's. `turn` counts as reports count; 0 where none is meant.
    `hints` are "what it does: what to type".
    """

    layer: str
    path: str
    tolerance: str
    summary: str
    recorded: Json = None
    now: Json = None
    turn: int = 0
    default: bool = False
    code: str = ""
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveResult:
    """What one live run of one test (or case) gave.

    `cell` is that of `Axes`, `run` counts from 1. `passed` says whether the test's own assertions held. `off_script`
    names the tool calls that the snapshot could not answer. `served_otherwise` says who answered that had not when the
    test was recorded, "served by m-2, recorded m-1". `served_models`, `fingerprints`, `providers` and `packages`
    are the evidence of a change at the provider or in an SDK. `tokens` has the keys "input" and "output", `cost` is in
    the currency of the prices, None where no price is known; `seconds` is the time of the model calls, `at` an ISO 8601
    time in UTC. `changed` is what `--replay-set` changed. `stopped` says why the run ended early: a budget, a server
    that cannot be reached, a model that answers 401, an interrupt; such a run counts neither for nor against.
    `released` names the layers that a line-up released, `layers` are those that it can release in this run: "tool:NAME"
    of tools that read, "retrieval", "prompt" where that is not the recorded one; and tools that write, which never run,
    as `WRITES` and the name.
    """

    test: str
    cell: str
    run: int = 1
    at: str = ""
    passed: bool = True
    drifts: tuple[Drift, ...] = ()
    off_script: tuple[str, ...] = ()
    calls: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    seconds: float = 0.0
    model: str = ""
    served_models: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    served_otherwise: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""
    stopped: str = ""
    session: str = ""
    released: str = ""
    layers: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the run did what the recorded one did, within its tolerances."""
        return self.passed and not self.drifts and not self.stopped

    def plain(self) -> dict[str, Any]:
        """Return it as JSON data; `of` is the way back."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Return the result that `plain` made; keys that a newer version added are left out.

        Raises KeyError or TypeError for data that is none.
        """
        drifts = (Drift(**_restore(Drift("", "", "", ""), drift)) for drift in data["drifts"])
        return cls(**{**_restore(cls("", ""), data), "drifts": tuple(drifts)})


def _restore(sample: LiveResult | Drift, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of JSON data that the class of `sample` has."""
    # A result may be read by an older version than wrote it, in a history that a team shares.
    names = (each.name for each in fields(sample) if each.name in data)
    return {name: _check_type(getattr(sample, name), data[name]) for name in names}


def _check_type(sample: object, value: Any) -> Any:
    """Return `value` for a field whose default is `sample`, None for any type. Raises TypeError for another type."""
    # JSON has one type of number and one of sequence: 0 may come back for 0.0, and a list for a tuple.
    kinds: dict[type, Any] = {float: (int, float), type(None): object, tuple: (list, tuple)}
    if not isinstance(value, kinds.get(type(sample), type(sample))):
        raise TypeError(f"{value!r:.80} is no {type(sample).__name__}")
    return tuple(value) if isinstance(sample, tuple) else value
