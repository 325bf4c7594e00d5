"""The nouns of a case: a failure kept as a test, and what it says of the run that shows it. Frozen values.

`schema.parse` reads them from `case.yaml`, `judging` holds a run against them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_agentreplay.backends.perturbation import Perturbation
    from pytest_agentreplay.model.exchanges import Json, JsonObject

ListName: TypeAlias = Literal["observed", "desired"]
"""What went wrong, true of the frozen run; what a fixed agent must show."""
LIST_NAMES: tuple[ListName, ListName] = ("observed", "desired")
Expect: TypeAlias = Literal["reproduces", "fixed", "cold"]
Service: TypeAlias = Literal["strict", "position", "arguments", "live"]
"""How a boundary is served: to the same call only; the next of that lane and kind; by declared arguments; for real."""

MOST_ITEMS = 500
"""Of a list or a mapping in a case file."""

FOLDER = "cases"
FILE = "case.yaml"
RUN = "run.snapshot.json"
FIXTURES = "fixtures"
NOTES = "notes.md"
SOURCE_TRACE = "source-trace"


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion: the word of the vocabulary, what it wants (plain JSON), and where it stands (line:column)."""

    word: str
    wanted: Json
    place: str = ""


@dataclass(frozen=True, slots=True)
class ServingPolicy:
    """How the boundaries are served for one list of checks."""

    model: Service = "strict"
    tools: Service = "strict"
    other: Service = "strict"

    @property
    def text(self) -> str:
        """The policy as verdicts name it: "strict", "model position, tools arguments"."""
        services = {"model": self.model, "tools": self.tools, "other": self.other}
        words = {*services.values()}
        return words.pop() if len(words) == 1 else ", ".join(f"{kind} {word}" for kind, word in services.items())


DEFAULT_SERVING: dict[ListName, ServingPolicy] = {
    "observed": ServingPolicy(),
    "desired": ServingPolicy(model="position", tools="arguments"),
}
"""Where the case says nothing. A fix changes what the agent asks, so it is served by position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSource:
    """Where a case comes from: the `format` of a trace, "snapshot" or "capture", the run's id there, what it lost."""

    format: str = "snapshot"
    version: str = ""
    file: str = ""
    id: str = ""
    fidelity: Literal["bytes", "body-json", "semantic"] = "bytes"
    imported: str = ""
    losses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. `file` is case.yaml as shown to people, `folder` the directory; `runners` are keys, "" for none.

    `input` is what the agent is given: `{"messages": [...]}` or `{"arguments": {...}}`. `semantic` are checks in words
    that a person, or a judge of a hook, has to make. `ignore` and `order` are as those settings; `tolerance` is
    what may differ in the arguments of tools where the model is live: "search $.limit" -> "5".
    A neighbour has a `base`, the folder of a case or the id of a test, and says what to `perturb` of its run.
    `missing` lists what a cold case lacks, `reason` says in a sentence why it is cold. `extras` are the keys that begin
    with "x-", `notes` say what of a newer form was left aside. `places` are line:column by key path, for messages.
    """

    file: str
    folder: Path
    id: str
    title: str = ""
    source: CaseSource = field(default_factory=CaseSource)
    input: Json = None
    runners: dict[ListName, str] = field(default_factory=dict)
    observed: tuple[Check, ...] = ()
    desired: tuple[Check, ...] = ()
    semantic: tuple[str, ...] = ()
    expect: Expect = "reproduces"
    serving: dict[ListName, ServingPolicy] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    order: str = "auto"
    tolerance: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    base: str = ""
    perturb: tuple[Perturbation, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""
    extras: JsonObject = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    places: dict[tuple[str | int, ...], str] = field(default_factory=dict)

    def checks(self, list_name: ListName) -> tuple[Check, ...]:
        """Return one list of checks."""
        return self.observed if list_name == "observed" else self.desired
