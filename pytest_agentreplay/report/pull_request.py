"""What two revisions record otherwise, in words: plain data, and a comment for a pull request in Markdown.

Rules of this module:
- Whatever a run, a path or the id of a test says is shown as code: nothing in a comment links, mentions or loads.
- A change that several runs share is told once, with the runs behind it. The verdict comes first.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.backends.budget import observe
from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Kind
from pytest_agentreplay.model.turns import is_model
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.change_blocks import (
    TITLES,
    SharedChange,
    join_blocks,
    join_names,
    list_change_blocks,
    share_changes,
)
from pytest_agentreplay.report.escape import escape_code, escape_markdown
from pytest_agentreplay.report.findings import describe_comparison
from pytest_agentreplay.report.transcript import list_edit_notes
from pytest_agentreplay.report.transcript_writer import read_system_text
from pytest_agentreplay.snapshots.kit import list_unfrozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.backends.budget import Prices
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Json, Run
    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.snapshots.codec import Snapshot


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run comes to. `tokens` and `cost` (dollars) are None where no reply, or no price, says them.

    `unfrozen` are the tools that run for real in a replay; `edits` says that the file was edited by hand.
    """

    test: str
    outcome: str
    turns: int
    models: tuple[str, ...]
    tokens: int | None
    cost: float | None
    unfrozen: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """A run at two revisions: `changes` are its own in words, `codes` say of which kinds they are."""

    file: str
    before: RunFacts
    after: RunFacts
    changes: tuple[str, ...]
    codes: tuple[str, ...]
    former: str = ""


@dataclass(slots=True)
class RevisionComparison:
    """What differs between two revisions. `renamed` are files with the same run under another name.

    `since` is the name of the branch that the base was found by, "" where somebody named the revisions.
    """

    base: str
    head: str
    new: dict[str, RunFacts] = field(default_factory=dict)
    removed: dict[str, RunFacts] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    changed: list[ChangedRun] = field(default_factory=list)
    shared: list[SharedChange] = field(default_factory=list)
    cases: dict[str, list[str]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    since: str = ""

    @property
    def verdict(self) -> str:
        """Return one line that says what changed; it holds no recorded text."""
        kinds = Counter(code for run in self.changed for code in dict.fromkeys(run.codes))
        why = ", ".join(f"{TITLES.get(code, code)} in {count}" for code, count in kinds.most_common())
        counts = {f"changed{why and f' ({why})'}": len(self.changed), "new": len(self.new)}
        counts |= {"removed": len(self.removed), "renamed": len(self.renamed)}
        parts = [f"{count} {word}" for word, count in counts.items() if count]
        if parts:
            parts[0] = parts[0].replace(" ", " recorded run " if parts[0].startswith("1 ") else " recorded runs ", 1)
        parts += [f"{len(self.cases)} case{'s' * (len(self.cases) != 1)} changed"] if self.cases else []
        parts += [f"{len(self.unreadable)} cannot be read"] if self.unreadable else []
        return ", ".join(parts) or "no recorded run changed"


def compare_runs(
    comparison: RevisionComparison,
    snapshots: tuple[Mapping[str, Snapshot], Mapping[str, Snapshot]],
    former: Mapping[str, str],
    matching: Matching,
    prices: Prices,
) -> None:
    """Add to `comparison` what differs between the runs of two revisions, by their files; `former` are old names."""
    (old, new), prices = snapshots, tuple(prices)
    causes: list[tuple[Finding, str]] = []
    for file, snapshot in sorted(new.items()):
        previous = old.get(file) or old.get(former.get(file, ""))
        if previous is None:
            comparison.new[file] = read_facts(snapshot, prices)
            continue
        before, run = previous.run, snapshot.run
        if file not in old and before.exchanges == run.exchanges:
            comparison.renamed[file] = former[file]
            continue
        differing = divergences(before, run, READER, matching=matching)
        # The file here need not be as either revision has it, so no step shows it.
        findings = [replace(describe_comparison(each, "", ""), test=run.header.test or file) for each in differing]
        causes += [(finding, finding.test) for finding in findings]
        facts = read_facts(previous, prices), read_facts(snapshot, prices)
        # A request that differs in several ways is one finding, under the code that counts most.
        (old_prompt, old_tools), (new_prompt, new_tools) = read_offers(before), read_offers(run)
        codes = [Kind.PROMPT.code] * (old_prompt != new_prompt) + [Kind.SCHEMA.code] * (old_tools != new_tools)
        codes = [*dict.fromkeys([*codes, *(finding.code for finding in findings)])]
        changes = (*list_fact_changes(*facts),)
        comparison.changed.append(ChangedRun(file, *facts, changes, tuple(codes), former.get(file, "")))
    comparison.removed = {
        file: read_facts(snapshot, prices)
        for file, snapshot in sorted(old.items())
        if file not in new and file not in {was for name, was in former.items() if name in new}
    }
    comparison.shared = share_changes(causes)


def read_facts(snapshot: Snapshot, prices: Prices) -> RunFacts:
    """Return what a run comes to."""
    run = snapshot.run
    seen: dict[str, Any] = observe(run, READER, run.header.outcome, prices)
    usage = seen["usage"]
    counts = [usage[name] for name in ("input_tokens", "output_tokens") if usage[name] is not None]
    models = dict.fromkeys(turn["model"] for turn in seen["turns"] if turn["model"])
    status = str(run.header.outcome.get("status", "unknown"))
    tokens, unfrozen = sum(counts) if counts else None, list_unfrozen(run.header.kit)
    figures = len(seen["turns"]), tuple(models), tokens, usage["cost"]
    return RunFacts(run.header.test, status, *figures, unfrozen, list_edit_notes(snapshot))


def read_offers(run: Run) -> tuple[set[str], set[str]]:
    """Return the prompts of a run, and the tools that it offers its models."""
    models = [READER.read_call(x.call) for x in run.exchanges if is_model(x.call, READER)]
    prompts = {read_system_text(text) for reading in models for text in reading.system}
    return prompts, {canonical(tool) for reading in models for tool in reading.tools}


def list_fact_changes(before: RunFacts, after: RunFacts) -> list[str]:
    """Return in words what two runs come to otherwise; recorded text in it is code."""
    changes = []
    if before.outcome != after.outcome:
        changes.append(f"test {escape_code(before.outcome)} -> {escape_code(after.outcome)}")
    if before.turns != after.turns:
        changes.append(f"turns {before.turns} -> {after.turns}")
    if before.models != after.models:
        sides = (", ".join(map(escape_code, facts.models)) or "none" for facts in (before, after))
        changes.append(f"model {' -> '.join(sides)}")
    if before.tokens != after.tokens:
        sides = (f"{facts.tokens:,}" if facts.tokens is not None else "unknown" for facts in (before, after))
        changes.append(f"tokens {' -> '.join(sides)}")
        costs = ["unknown" if facts.cost is None else f"USD {facts.cost:.4f}" for facts in (before, after)]
        why = " (no price in `agentreplay_prices`)" if "unknown" in costs else ""
        changes.append(f"cost {' -> '.join(dict.fromkeys(costs))}{why}")
    if before.edits != after.edits:
        changes += map(escape_code, after.edits)
    return [*changes, *list_unfrozen_tools(after)]


def list_unfrozen_tools(facts: RunFacts) -> list[str]:
    """Return in words which tools of a run are not frozen; recorded text in it is code."""
    return [f"tool {escape_code(tool)} runs for real in a replay ({Kind.UNFROZEN.code})" for tool in facts.unfrozen]


def list_case_changes(before: Mapping[str, Json] | None, after: Mapping[str, Json] | None) -> list[str]:
    """Return in words what two revisions of a case file say otherwise; recorded text in it is code."""
    if before is None or after is None:
        return ["new" if before is None else "removed"]
    names = [name for name in (*before, *after) if canonical(before.get(name)) != canonical(after.get(name))]
    return [
        f"{escape_code(name)} {escape_code(format_field(before, name))} -> {escape_code(format_field(after, name))}"
        for name in dict.fromkeys(names)
    ]


def format_field(document: Mapping[str, Json], name: str) -> str:
    """Return a value of a case file in a few words."""
    text = canonical(document[name]) if name in document else "(absent)"
    return text if len(text) <= 60 else f"{text[:57]}..."


def format_comment(comparison: RevisionComparison, command: str) -> str:
    """Return the comment; `command` prints all of it as data, and is named where blocks are left out."""

    def describe_rest(parts: str) -> str:
        rest = f"{parts} left out, because a comment has an end."
        return f"{rest} All of it: {escape_code(command)}" if len(command) < 300 else rest

    return join_blocks([f"**agentreplay: {comparison.verdict}.**", *list_blocks(comparison)], describe_rest)


def list_blocks(comparison: RevisionComparison) -> Iterable[str]:
    """Yield the blocks of a comment, the most important first."""
    since = f"Compared with {escape_code(comparison.since)} at `{comparison.base[:12]}`." if comparison.since else ""
    if about := " ".join(filter(None, [describe_totals(comparison), since])):
        yield about
    for file, why in comparison.unreadable.items():
        yield f"- cannot be read: {escape_code(file)}\n\n{escape_markdown(why)}"
    yield from list_change_blocks(comparison.shared)
    if runs := [*list_runs(comparison)]:
        yield "**Run by run**"
        yield from runs


def list_runs(comparison: RevisionComparison) -> Iterable[str]:
    """Yield a line for each run and case that differs; runs that differ in the same words share one."""
    alike: dict[str, list[str]] = {}
    for run in comparison.changed:
        about = [*run.changes] or ["" if run.codes else "the agent does the same"]
        was = f" (renamed from {escape_code(run.before.test)})" if run.former else ""
        codes = ", ".join(f"{TITLES.get(code, code)}" for code in dict.fromkeys(run.codes))
        text = "; ".join(filter(None, [codes, *about]))
        alike.setdefault(text, []).append(f"{escape_code(run.after.test)}{was}")
    for text, names in alike.items():
        yield f"- {join_names(names)}: {text}"
    for word, files in (("New", comparison.new), ("Removed", comparison.removed)):
        for file, facts in files.items():
            yield f"- {word}: {escape_code(facts.test)} in {escape_code(file)}, {describe_facts(facts)}"
    for file, former in comparison.renamed.items():
        yield f"- Renamed, with the same run: {escape_code(former)} -> {escape_code(file)}"
    for file, changes in comparison.cases.items():
        yield f"- Case {escape_code(file)}: {'; '.join(changes) or 'written in another form'}"


def describe_totals(comparison: RevisionComparison) -> str:
    """Return what the runs that differ come to on both sides, "" where no reply says it."""
    before = [*(run.before for run in comparison.changed), *comparison.removed.values()]
    after = [*(run.after for run in comparison.changed), *comparison.new.values()]
    tokens = [sum(facts.tokens or 0 for facts in side) for side in (before, after)]
    if not any(tokens):
        return ""
    text = f"Tokens of these runs: {tokens[0]:,} -> {tokens[1]:,} ({tokens[1] - tokens[0]:+,})"
    costs = [[facts.cost for facts in side if facts.cost is not None] for side in (before, after)]
    if [len(side) for side in costs] == [len(before), len(after)]:
        text += f", cost: USD {sum(costs[0]):.4f} -> USD {sum(costs[1]):.4f}"
    return f"{text}."


def describe_facts(facts: RunFacts) -> str:
    """Return what a run comes to, in a few words; recorded text in it is code."""
    parts = [f"{facts.turns} turn{'s' * (facts.turns != 1)}", f"test {escape_code(facts.outcome)}"]
    parts += [f"{facts.tokens:,} tokens"] if facts.tokens is not None else []
    parts.append("no known price" if facts.cost is None else f"USD {facts.cost:.4f}")
    return ", ".join([*parts, *map(escape_code, (*facts.models, *facts.edits)), *list_unfrozen_tools(facts)])
