"""What is reported about one test, as plain data: it survives JSON, so that xdist and any renderer can carry it.

Rules of this module:
- `headline` is complete by itself; summaries, JUnit and annotations show nothing else.
- Texts are as they were; whoever shows them passes them through `report.escape`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.core.paths import near

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_agentreplay.core.model import Json


@dataclass(frozen=True, slots=True)
class Line:
    """One thing to say. With `recorded` and `now` it has two sides; `what` says which kind of line it is.

    "text", "difference", "cause", "next" (`label` says what `text`, typed as it stands, does), "detail" (for those who
    want all).
    """

    what: str
    text: str
    label: str = ""
    recorded: str = ""
    now: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with `test`. `properties` are short facts by name, for machines."""

    test: str
    code: str
    headline: str
    lines: tuple[Line, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """The finding as JSON takes it; `finding_of` is the way back."""
        return asdict(self)


def finding_of(data: Mapping[str, Any]) -> Finding:
    """The finding that `plain` gave."""
    return Finding(**{**data, "lines": tuple(Line(**line) for line in data["lines"])})


def with_steps(finding: Finding, written: Callable[[str], str]) -> Finding:
    """Return the finding with `written` applied to each step, "what it does: what to type"."""
    steps = {line: written(f"{line.label}: {line.text}") for line in finding.lines if line.what == "next"}
    lines = (
        replace(line, text=steps[line][len(line.label) + 2 :]) if line in steps else line for line in finding.lines
    )
    return replace(finding, lines=tuple(lines))


def file_of(facts: Mapping[str, Json]) -> str:
    """The snapshot as people would type it: from the working directory when it is below."""
    file = str(facts.get("file") or "")
    return near(Path(file), Path.cwd()) if file else ""
