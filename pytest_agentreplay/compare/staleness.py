"""Whether a recording still stands for the agent of today: its age, retired models, other SDKs, other tools.

A recording that is stale replays as before. What it shows is another question.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.compare.retired_models import RETIRED
from pytest_agentreplay.snapshots.kit import list_models, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_agentreplay.model.exchanges import Header


class StaleFact(NamedTuple):
    """One thing that makes a recording stale: its kind, and the rest in words, equal for equal facts."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class RecordedFacts:
    """What of a recording can become stale: its day (ISO 8601), models asked, packages, parameters of frozen tools."""

    day: str = ""
    models: tuple[str, ...] = ()
    packages: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)


def read_facts(header: Header) -> RecordedFacts:
    """Return the facts of a recording, from its header."""
    models = list_models(header.kit)
    packages, signatures = (table(header.kit, name) for name in ("packages", "signatures"))
    return RecordedFacts(
        header.recorded[:10],
        models,
        {name: version for name, version in packages.items() if isinstance(version, str)},
        {name: text for name, text in signatures.items() if isinstance(text, str)},
    )


def find_stale(
    facts: RecordedFacts,
    *,
    today: date,
    days: int,
    retired: Mapping[str, str] = RETIRED,
    installed: Mapping[str, str],
    signatures: Mapping[str, str],
) -> Iterator[StaleFact]:
    """Yield what makes a recording stale. `days` is the age from which on it is old (0: none is).

    `installed` and `signatures` are those of today; what they do not name is not compared.
    """
    if days and facts.day and facts.day < (today - timedelta(days=days)).isoformat():
        yield StaleFact("old", f"recorded more than {days} days ago")
    for model in facts.models:
        if (day := find_retirement(model, retired)) and day <= today.isoformat():
            yield StaleFact("model", f"asks {model}, retired {day}")
    for name, version in facts.packages.items():
        if name in installed and major(version) != major(installed[name]):
            yield StaleFact("sdk", f"recorded with {name} {major(version)}, installed is {major(installed[name])}")
    for name, text in facts.signatures.items():
        if name in signatures and signatures[name] != text:
            yield StaleFact("signature", f"tool {name} takes ({signatures[name]}), recorded ({text})")


def find_retirement(model: str, retired: Mapping[str, str]) -> str:
    """Return the day on which a model was, or will be, retired; "" for none. An exact id goes before a beginning."""
    if model in retired:
        return retired[model]
    beginnings = [name for name in retired if name.endswith("*") and model.startswith(name[:-1])]
    return retired[max(beginnings, key=len)] if beginnings else ""


def major(version: str) -> str:
    """Return the part of a version that changes with an incompatible release: of 0.x the second number too."""
    first, _, rest = version.partition(".")
    return f"0.{rest.partition('.')[0]}" if first == "0" else first
