"""The finding of an order of answers under which the run is another one: a race in the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.paths import selecting
from pytest_agentreplay.report import findings
from pytest_agentreplay.report.finding import Finding, Line, file_of
from pytest_agentreplay.report.other_findings import ending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.model import Json
    from pytest_agentreplay.core.order_permutations import OrderTrial

PAIRS = 3  # pairs of answers that are named
SIDES = 3  # differences, and calls that were not made, that are shown
SAID = 120  # characters of a call


class CallLabel(NamedTuple):
    """A call as reports show it: in few words, on one line, its turn, and its lane or agent."""

    name: str
    line: str
    turn: int
    lane: str

    @property
    def where(self) -> str:
        """Its turn and lane."""
        return f"{f'turn {self.turn}' if self.turn else 'before turn 1'}, lane {self.lane}"

    def describe(self) -> str:
        """The call and where it stands."""
        text = self.line if len(self.line) <= SAID else f"{self.line[: SAID - 3]}..."
        return f"{text} ({self.where})"


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """What another order has changed: `what`, in a few words, and the lines that say it."""

    what: str
    lines: tuple[Line, ...]


def describe_end(before: Mapping[str, Json], now: Mapping[str, Json]) -> OrderEffect:
    """The test ends otherwise."""
    status = str(now.get("status"))
    what = {"passed": "the test passes", "skipped": "the test skips itself"}.get(status, "the test fails")
    if status == before.get("status"):
        what = "the test fails differently"
    return OrderEffect(what, (Line("difference", "the end of the test", "", ending(before), ending(now)),))


def not_done(missing: Sequence[str]) -> OrderEffect:
    """Calls with side effects were recorded, and not made."""
    lines = [Line("difference", "side effects", "", call, "(not made)") for call in missing[:SIDES]]
    if len(missing) > SIDES:
        lines.append(Line("text", f"and {len(missing) - SIDES} more calls were not made", "side effects"))
    return OrderEffect(f"{missing[0].partition(' {')[0]} is not called any more", tuple(lines))


def describe_request(divergence: Divergence, *, effect: bool) -> OrderEffect:
    """The agent asked for what is not recorded; `effect` says that it would have changed something."""
    lines = [*findings.differences(divergence)[:SIDES]]
    if divergence.origin:
        lines.append(Line("text", divergence.origin, "called from"))
    if effect:
        lines.append(Line("text", "the refused call changes something: live it would have been made", "side effects"))
    return OrderEffect(divergence.summary, tuple(lines))


def describe_late_call(finding: Finding) -> OrderEffect:
    """A call came after the end of the test."""
    summary = finding.headline.partition("] ")[2]
    return OrderEffect(summary, tuple(line for line in finding.lines if line.what == "text")[:SIDES])


def race(
    test: str,
    trial: OrderTrial,
    change: OrderEffect,
    pairs: Sequence[tuple[CallLabel, CallLabel]],
    facts: Mapping[str, Json],
) -> Finding:
    """What one order has changed. `pairs` came the other way round, each as it came now."""
    first, then = pairs[0]
    names = (first.name, then.name)
    if first.name == then.name:
        names = (f"{first.name} of lane {first.lane}", f"that of lane {then.lane}")
    headline = f"[{Kind.RACE.code}] {change.what} when {names[0]} is answered before {names[1]}"
    lines = [*change.lines]
    for first_call, second_call in pairs[:PAIRS]:
        lines += [Line("text", first_call.describe(), "now first"), Line("text", second_call.describe(), "now second")]
    if len(pairs) > PAIRS:
        lines.append(Line("text", "others came the other way round too"))
    cause = "both were waited for at once, and what your code does depends on which answer comes first"
    lines.append(Line("cause", cause))
    if file := file_of(facts):
        lines.append(Line("text", f"{file}, order {trial.number} of {trial.total}", "snapshot"))
    lines.append(Line("next", trial.again or f"pytest {selecting(test)}", "this order again"))
    properties = {"code": Kind.RACE.code, "kind": "race", "layer": Kind.RACE.layer, "order": str(trial.number)}
    return Finding(test, Kind.RACE.code, headline, tuple(lines), properties)
