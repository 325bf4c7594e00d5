"""Findings that come from no divergence: late calls, refused connections, values that are not kept, races."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.paths import selecting
from pytest_agentreplay.redaction.placeholders import SHAPES
from pytest_agentreplay.report import findings
from pytest_agentreplay.report.finding import Finding, Line, find_file, make_record_step, make_snapshot_lines
from pytest_agentreplay.report.notices import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.backends.order_permutations import OrderTrial
    from pytest_agentreplay.backends.perturbation import Perturbation
    from pytest_agentreplay.model.divergence import Divergence
    from pytest_agentreplay.model.exchanges import Json

# The code of a value that cannot be frozen: a refusal to record, and no way for two runs to part.
FREEZE = "AR-FREEZE"

# The code of a failure of the test's own that is one because a secret was taken off the recorded reply.
REDACTED = "AR-REDACTED"

# Stands for a function that somebody has to name.
UNKNOWN = "your.module.function"

SHOWN = 20  # lines of a ledger or the like

PLACEHOLDER = re.compile("(?:" + "|".join(SHAPES).replace("?P<category>", "?:") + ")")
PAIRS = 3  # pairs of answers that are named
SHOWN_SIDES = 3  # differences, and calls that were not made, that are shown
CALL_WIDTH = 120  # characters of a call


class LedgerLine(Protocol):
    """An entry of the guard's ledger."""

    @property
    def kind(self) -> str:
        """What it is: "child", "connect" ..."""

    @property
    def origin(self) -> str:
        """The line of the agent, or ""."""

    def line(self) -> str:
        """Return what was tried, for people."""

    def allow(self) -> str:
        """Return the ini line that lets it through."""

    def advice(self) -> str:
        """Return what else to do about it, or ""."""


def describe_other_end(
    test: str, recorded: Mapping[str, Json], now: Mapping[str, Json], facts: Mapping[str, Json]
) -> Finding:
    """Return the finding of a kept failure (`expect="reproduces"`) that did not come back as it was recorded."""
    if now.get("status") == "passed":
        what, step = "no longer fails", "it is fixed: remove expect= from the test's marker, then"
    else:
        what, step = "fails differently", "keep this failure instead (it waits as a pending run)"
    before, after = format_ending(recorded), format_ending(now)
    difference = Line("difference", "the end of the test", "", before, after)
    headline = f"[{Kind.OUTCOME.code}] {what}: recorded {before}, now {after}"
    lines = (difference, *make_snapshot_lines(facts), make_record_step(test, step))
    return Finding(test, Kind.OUTCOME.code, headline, lines, {"code": Kind.OUTCOME.code, "kind": "outcome"})


def describe_late_calls(test: str, calls: Sequence[str]) -> Finding:
    """Return the finding of calls that came after the end of the test that started them."""
    cause = (
        "a thread or task that the test started outlived it. It was refused, and given to no other test: "
        "join the thread or await the task before the test returns"
    )
    what = f"{format_count(len(calls), 'call')} after the test had ended: {' '.join(calls[0].split())}"
    return _make_plain_finding(test, Kind.LATE, what, items=calls, cause=cause)


def describe_network(
    test: str, ledger: Sequence[LedgerLine], *, function: str | None = None, calls: bool = False
) -> Finding:
    """Return the finding of sockets and child processes that a replay refused, whether or not the agent minded.

    `function` is the import path of the function around the first ("" where that has none, None where nobody knows),
    `calls` whether recorded calls were made in it: frozen, it would answer these too.
    """
    tried = [entry.line() for entry in ledger]
    cause = "a replay is closed: no boundary stands here, so the snapshot holds no answer"
    path = guess_function(ledger[0].origin) if function is None else function or UNKNOWN
    step = "add the function around it to agentreplay_tools, and record again"
    if calls:
        cause += f". {path} makes recorded calls too: frozen, it would answer for them, and no change in them be seen"
    if calls or path.rpartition(".")[2].startswith("test_"):
        step = "move it into a function, add that to agentreplay_tools, and record again"
        path = UNKNOWN
    pages = {"child": "docs/how-to/other-processes.md"}
    advice = dict.fromkeys((entry.kind, entry.advice()) for entry in ledger)
    steps = [(step, path)]
    steps += [(f"or: {text}", pages.get(kind, "docs/how-to/http-clients.md")) for kind, text in advice if text]
    steps += [("or let it through, in the ini file", line) for line in dict.fromkeys(entry.allow() for entry in ledger)]
    what = f"refused in a closed replay: {tried[0]}"
    return _make_plain_finding(test, Kind.NETWORK, what, items=tried, cause=cause, steps=steps[:4])


def guess_function(origin: str) -> str:
    """Return the likely import path of the function at a place, "shop/db.py:12 in rows"."""
    match = re.fullmatch(r"([\w/\\]+)\.py:\d+ in (\w+)", origin)
    if match is None:
        return UNKNOWN
    return ".".join([*re.split(r"[/\\]", match[1]), match[2]])


def describe_unfreezable(test: str, problems: Sequence[Exception]) -> Finding:
    """Return the finding of values that would not come back as they were: nothing was written."""
    first, *rest = [str(problem).splitlines() for problem in problems]
    lines = [Line("text", text) for text in [*first[1:], *(text for problem in rest for text in problem)][:SHOWN]]
    lines.append(make_record_step(test, "then record again"))
    return Finding(test, FREEZE, f"[{FREEZE}] {first[0]}", tuple(lines), {"code": FREEZE, "kind": "freeze"})


def describe_not_run(test: str, written: Sequence[str]) -> Finding:
    """Return the finding of a test that failed by itself after the tools of `written` were answered; it has no code."""
    what, whose = ("tools {} were", "their") if len(written) > 1 else ("tool {} was", "its")
    text = (
        f"{what.format(', '.join(written))} answered from the snapshot: {whose} code did not run, so what it changes "
        "elsewhere (a database, a file, an object) is as it was before"
    )
    asserts = (f'agentreplay.run.assert_tool_called("{name}")' for name in written[:2])
    return Finding(test, "", text, tuple(Line("next", line, "assert on the call instead") for line in asserts))


def add_not_run(finding: Finding, written: Sequence[str]) -> Finding:
    """Return `finding` with what `describe_not_run` says, where tools were `written`."""
    if not written:
        return finding
    more = describe_not_run(finding.test, written)
    return replace(finding, lines=(Line("text", more.headline), *finding.lines, *more.lines))


def describe_redacted(text: str) -> str:
    """Return the line about a failure whose `text` shows placeholders of a recorded reply; "" where it shows none."""
    placeholders = [*dict.fromkeys(PLACEHOLDER.findall(text))]
    if not placeholders:
        return ""
    more = f" and {len(placeholders) - 1} more" if len(placeholders) > 1 else ""
    return (
        f"[{REDACTED}] the test looks at {placeholders[0]}{more}, which stands in the recorded reply for a secret: "
        "assert on what is around it (docs/reference/codes.md#ar-redacted)"
    )


def describe_redacted_claim(message: str, claims: Mapping[str, str]) -> str:
    """Return the line about an error whose `message` quotes one of `claims`, each with its token; "" for none."""
    claim = next((name for name in claims if f"'{name}'" in message or f'"{name}"' in message), None)
    if claim is None:
        return ""
    return (
        f"[{REDACTED}] the claim '{claim}' is not in the recording: {claims[claim]}, is redacted. If it is no secret, "
        f'write keep_claims: [{claim}] into agentreplay-policy.yaml, below the line schemaVersion: "1.0", and record '
        "again (docs/reference/codes.md#ar-redacted)"
    )


def _make_plain_finding(
    test: str, kind: Kind, what: str, *, items: Sequence[str], cause: str, steps: Sequence[tuple[str, str]] = ()
) -> Finding:
    """Return a finding that comes from no divergence."""
    lines = [Line("text", item) for item in items[:SHOWN]]
    if len(items) > SHOWN:
        lines.append(Line("text", f"and {len(items) - SHOWN} more"))
    lines.append(Line("cause", cause))
    lines += [Line("next", text, name) for name, text in steps]
    facts = {"code": kind.code, "kind": kind.name.lower(), "layer": kind.layer}
    return Finding(test, kind.code, f"[{kind.code}] {what}", tuple(lines), facts)


def format_ending(outcome: Mapping[str, Json]) -> str:
    """Return how a test ended, in a few words."""
    text = f"{outcome.get('type') or ''}: {outcome.get('message') or ''}".strip(": ")
    return f"{outcome.get('status', '?')}{text and f' ({text})'}"


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
        """Return the call and where it stands."""
        text = self.line if len(self.line) <= CALL_WIDTH else f"{self.line[: CALL_WIDTH - 3]}..."
        return f"{text} ({self.where})"


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """What another order has changed: `what`, in a few words, and the lines that say it."""

    what: str
    lines: tuple[Line, ...]


def describe_end(before: Mapping[str, Json], now: Mapping[str, Json]) -> OrderEffect:
    """Return the effect of an order in which the test ends otherwise."""
    status = str(now.get("status"))
    what = {"passed": "the test passes", "skipped": "the test skips itself"}.get(status, "the test fails")
    if status == before.get("status"):
        what = "the test fails differently"
    return OrderEffect(
        what, (Line("difference", "the end of the test", "", format_ending(before), format_ending(now)),)
    )


def describe_missing_calls(missing: Sequence[str]) -> OrderEffect:
    """Return the effect of an order in which recorded calls with side effects are not made."""
    lines = [Line("difference", "side effects", "", call, "(not made)") for call in missing[:SHOWN_SIDES]]
    if len(missing) > SHOWN_SIDES:
        lines.append(Line("text", f"and {len(missing) - SHOWN_SIDES} more calls were not made", "side effects"))
    return OrderEffect(f"{missing[0].partition(' {')[0]} is not called any more", tuple(lines))


def describe_request(divergence: Divergence, *, effect: bool) -> OrderEffect:
    """Return the effect of an order with a call that is not recorded; with `effect` it would have changed something."""
    lines = [*findings.make_difference_lines(divergence)[:SHOWN_SIDES]]
    if divergence.origin:
        lines.append(Line("text", divergence.origin, "called from"))
    if effect:
        lines.append(Line("text", "the refused call changes something: live it would have been made", "side effects"))
    return OrderEffect(divergence.summary, tuple(lines))


def describe_late_call(finding: Finding) -> OrderEffect:
    """Return the effect of an order in which a call comes after the end of the test."""
    summary = finding.headline.partition("] ")[2]
    return OrderEffect(summary, tuple(line for line in finding.lines if line.what == "text")[:SHOWN_SIDES])


def describe_neighbour(
    test: str, violations: Sequence[tuple[str, str]], neighbour: Sequence[Perturbation], served: str
) -> Finding:
    """Return the finding of a neighbour in which invariants do not hold, each with its name and what happened."""
    (name, text), *others = violations
    places = " + ".join(f"{each.operator} at call {each.at}" if each.at else each.operator for each in neighbour)
    lines = [Line("text", f"{other}: {what}", "also") for other, what in others]
    lines += [Line("text", each.describe(), "perturbed") for each in neighbour]
    lines.append(Line("text", f"{served}; this is about what the agent does, not about its answer", "served"))
    lines.append(Line("next", f"agentreplay check fuzz {selecting(test)}", "find the smallest change, and keep it"))
    properties = {"code": Kind.FUZZ.code, "kind": "fuzz", "layer": Kind.FUZZ.layer, "invariant": name}
    return Finding(test, Kind.FUZZ.code, f"[{Kind.FUZZ.code}] {name}: {text} ({places})", tuple(lines), properties)


def describe_race(
    test: str,
    trial: OrderTrial,
    change: OrderEffect,
    pairs: Sequence[tuple[CallLabel, CallLabel]],
    facts: Mapping[str, Json],
) -> Finding:
    """Return the finding of what an order has changed. `pairs` came the other way round, each as it came now."""
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
    if file := find_file(facts):
        lines.append(Line("text", f"{file}, order {trial.number} of {trial.total}", "snapshot"))
    lines.append(Line("next", trial.again or f"pytest {selecting(test)}", "this order again"))
    properties = {"code": Kind.RACE.code, "kind": "race", "layer": Kind.RACE.layer, "order": str(trial.number)}
    return Finding(test, Kind.RACE.code, headline, tuple(lines), properties)
