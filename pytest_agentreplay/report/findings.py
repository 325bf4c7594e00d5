"""The findings of a run that diverged; `other_findings` has those that come from no divergence.

Every finding calls the two sides *recorded* and *now*, and ends with the next command.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_agentreplay.backends.adopt import explain_unfit
from pytest_agentreplay.compare.diff import texts
from pytest_agentreplay.compare.diff.texts import excerpt
from pytest_agentreplay.compare.matching.address import content, header
from pytest_agentreplay.model import media
from pytest_agentreplay.model.canonical_json import canonical
from pytest_agentreplay.model.divergence import Absent, Kind
from pytest_agentreplay.model.exchanges import ToolCall
from pytest_agentreplay.model.paths import quote_word, selecting
from pytest_agentreplay.model.turns import label
from pytest_agentreplay.providers import READER
from pytest_agentreplay.report.changes import Row, compare_values, format_value
from pytest_agentreplay.report.finding import (
    RECORD,
    REQUEST_KINDS,
    VALUE_KINDS,
    Finding,
    Line,
    find_file,
    format_edit_hints,
    format_keeping,
    format_restoring,
    make_record_step,
    make_snapshot_lines,
)
from pytest_agentreplay.report.notices import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_agentreplay.model.divergence import Difference, Divergence
    from pytest_agentreplay.model.exchanges import Call, Json, WireCall

KEPT = 2000  # characters of one side that a finding carries
MOST_ROWS = 2000  # rows of a difference
LONGEST = 20_000  # characters of what is the same or has changed in one of them
SINCE = 4  # lines about what has changed around the run
CALL_LINES = 80  # of one call
LINE_WIDTH = 400  # characters of one line of it


def describe_divergence(divergence: Divergence, test: str, facts: Mapping[str, Json]) -> Finding:
    """Return the finding of a replay that parted.

    `facts` may hold the snapshot's "file", when "recorded", where "edited", what "changed" since, how "racy" it is.
    """
    if divergence.kind is Kind.NEW:
        return _describe_new(divergence, test, facts)
    if divergence.kind is Kind.UNREADABLE:
        return _describe_unreadable(divergence, test, facts)
    lines = [*make_difference_lines(divergence), *_make_origin_lines(divergence)]
    lines += [*_make_cause_lines(divergence, facts), *_make_course_lines(divergence)]
    file = find_file(facts)
    if file:
        when = str(facts.get("recorded") or "")[:10]
        lines.append(Line("text", f"{file}{when and f' (recorded {when})'}", "snapshot"))
    lines += [*_make_change_lines(facts), *_make_chance_lines(facts), *_make_edit_steps(facts)]
    lines += _make_hint_lines(divergence.hints)
    # Only a changed request may have the reply that is recorded; another call has none. An edited file is not accepted.
    if divergence.kind in REQUEST_KINDS and file and not facts.get("edited"):
        lines.append(_make_accept_step(divergence, file))
    if divergence.kind is not Kind.CREDENTIALS:
        lines.append(make_record_step(test, "keep the new behaviour"))
    # Without the flag the same command would pass, since no tool runs.
    how = "--replay-tools=checked " if facts.get("replay_tools") == "checked" else ""
    lines.append(Line("next", f"pytest -vv {how}{selecting(test)}", "see all of it"))
    return _make_finding(divergence, test, [*lines, *_make_call_lines(divergence)])


def describe_early_stop(divergence: Divergence, test: str, facts: Mapping[str, Json]) -> Finding:
    """Return what stands beside the error of a test that ended before its recording did."""
    lines = [*_make_cause_lines(divergence, facts), *make_snapshot_lines(facts), *_make_edit_steps(facts)]
    if file := find_file(facts):
        lines.append(_make_show_step(file, divergence, "see the recorded turn"))
    finding = _make_finding(divergence, test, lines)
    return replace(finding, headline=f"[{finding.code}] {divergence.summary}")


def _make_show_step(file: str, divergence: Divergence, label: str) -> Line:
    turn = f" --turn {divergence.turn}" if divergence.turn else ""
    return Line("next", f"agentreplay show {quote_word(file)}{turn}", label)


def _make_accept_step(divergence: Divergence, file: str) -> Line:
    """Return the command that keeps the recorded replies; where it would fail, why it is not offered."""
    recorded, now = divergence.recorded, divergence.now
    moved = any(difference.path in {"url", "method", "call"} for difference in divergence.differences)
    refused = explain_unfit(recorded.call, now, READER, moved=moved) if recorded is not None and now is not None else ""
    if refused:
        return Line("text", f"the recorded replies cannot be kept (agentreplay accept): {refused}")
    return Line("next", format_keeping(quote_word(file)), "keep the recorded replies")


def add_waiting(finding: Finding, line: str, *, refused: bool) -> Finding:
    """Return `finding`, of a test that had to be ended; `line` is where its agent still waited, `refused` for what."""
    steps = next((number for number, row in enumerate(finding.lines) if row.what == "next"), len(finding.lines))
    what = ", for what the refused call was to bring" if refused else ""
    waiting = Line("text", f"{line}{what}: the test was ended there", "still waiting")
    return replace(finding, lines=(*finding.lines[:steps], waiting, *finding.lines[steps:]))


def describe_comparison(divergence: Divergence, first: str, second: str) -> Finding:
    """Return the finding of two snapshot files that part; `first` is told as recorded, `second` as now.

    "" stands for a run that no file of today holds, such as that of a commit: no step shows it.
    """
    named = ((first, "see recorded"), (second, "see now"))
    steps = [_make_show_step(file, divergence, label) for file, label in named if file]
    lines = [*make_difference_lines(divergence), *_make_origin_lines(divergence), *_make_cause_lines(divergence, {})]
    lines += [*steps, *_make_call_lines(divergence)]
    return _make_finding(divergence, " .. ".join(filter(None, (first, second))), lines)


def _make_finding(divergence: Divergence, test: str, lines: Iterable[Line]) -> Finding:
    kind = divergence.kind
    where = format_place(divergence)
    more = sum(difference.places for difference in divergence.differences) - 1
    rest = f" (and {format_count(more, 'more place')})" if more > 0 and kind in VALUE_KINDS else ""
    headline = f"[{kind.code}] {where and f'{where}: '}{divergence.summary}{rest}"
    facts = {
        "code": kind.code,
        "kind": kind.name.lower(),
        "layer": kind.layer,
        "turn": str(divergence.turn),
        "turns": str(divergence.turns),
        "lane": divergence.lane,
        "agent": divergence.agent,
        "path": divergence.differences[0].path if divergence.differences else "",
        "origin": divergence.origin,
    }
    return Finding(test, kind.code, headline, tuple(lines), {name: value for name, value in facts.items() if value})


def format_place(divergence: Divergence) -> str:
    """Return where two runs differ, as people count.

    "turn 4/7", "after turn 7/7", "turn 2/3 of lane main.2, a parallel task (call 7 of 14)",
    "researcher turn 4 (call 17 of 63)".
    """
    turn, turns, who = divergence.turn, divergence.turns, divergence.who
    call = f"call {divergence.position}/{divergence.positions}"
    if turns == 0 and divergence.positions == 0:
        return ""
    after = "after " if divergence.kind is Kind.EXTRA and divergence.recorded is None else ""
    if turns == 0:
        return after + call + (f" of {who}" if who else "")
    of_all = f" ({call.replace('/', ' of ')})" if who else ""
    if divergence.agent and who:
        return f"{after}{who} turn {turn}{of_all}" if turn else f"{who} before turn 1{of_all}"
    where = f" of {who}" + ", a parallel task" * who.startswith("lane main.") if who else ""
    return (f"{after}turn {turn}/{turns}" if turn else f"before turn 1/{turns}") + where + of_all


def _describe_new(divergence: Divergence, test: str, facts: Mapping[str, Json]) -> Finding:
    call_label = label(divergence.now, READER) if divergence.now is not None else ""
    lines = [Line("text", call_label, "first call")] if call_label else []
    lines += [
        *_make_origin_lines(divergence),
        *make_snapshot_lines(facts, "looked for"),
        *(Line("text", text) for text in divergence.detail),
    ]
    lines += _make_hint_lines(divergence.hints)
    lines.append(make_record_step(test, "record it, with the model and the tools live"))
    return _make_finding(divergence, test, lines)


def _describe_unreadable(divergence: Divergence, test: str, facts: Mapping[str, Json]) -> Finding:
    file = str(facts.get("file") or "")
    summary, *more = divergence.summary.removeprefix(f"{file}: ").splitlines() or [""]
    lines = [Line("text", text) for text in more]
    lines.append(Line("text", "a snapshot that cannot be read is never taken for absent, and never recorded over"))
    lines += [*make_snapshot_lines(facts), *_make_hint_lines(divergence.hints)]
    if file := find_file(facts):
        if not divergence.hints:
            look = f"see what is wrong with it: agentreplay verify {quote_word(file)}"
            lines += _make_hint_lines((look, format_restoring(file)))
        again = f"rm {quote_word(file)} && {RECORD}{selecting(test)}"
        lines.append(Line("next", again, "or delete it, and record anew"))
    return _make_finding(replace(divergence, summary=f"the snapshot cannot be used: {summary}"), test, lines)


def _make_course_lines(divergence: Divergence) -> list[Line]:
    """Return what agreed before, and what was not reached."""
    turn, turns = divergence.turn, divergence.turns
    parts = []
    agreed = turn - 1 if divergence.agreed is None else divergence.agreed
    if agreed > 0:
        parts.append("turn 1 agrees" if agreed == 1 else f"turns 1-{agreed} agree")
    if 0 < turn < turns and divergence.now is not None and not divergence.went_on:
        left = f"turn {turns} was" if turn + 1 == turns else f"turns {turn + 1}-{turns} were"
        parts.append(f"{left} not reached")
    whose = divergence.who and f"{divergence.who}: "
    return [Line("text", whose + ", ".join(parts))] if parts else []


def _make_origin_lines(divergence: Divergence) -> list[Line]:
    return [Line("text", divergence.origin, "called from")] if divergence.origin else []


def make_difference_lines(divergence: Divergence) -> list[Line]:
    """Return where both sides of a divergence differ."""
    return [
        Line("difference", each.path, each.note, *_cut_sides(each), rows=_make_rows(each), places=each.places)
        for each in divergence.differences
    ]


def _make_rows(difference: Difference) -> tuple[Row, ...]:
    """Return the rows of both sides, whose number and length are bounded."""
    rows = compare_values(difference.recorded, difference.now)
    # Names of calls are shown as they are, and a short value beside the word for what is absent.
    if difference.path == "call" or len(rows) == 1:
        return ()
    more = len(rows) - MOST_ROWS
    bounded = tuple(
        Row(sign, tuple((texts.shorten(text, LONGEST), changed) for text, changed in pieces))
        for sign, pieces in rows[:MOST_ROWS]
    )
    return (*bounded, Row("@", ((f"{more} more lines, which are not kept", False),))) if more > 0 else bounded


def _cut_sides(difference: Difference) -> tuple[str, str]:
    def text_of(side: Json | Absent) -> str:
        if isinstance(side, Absent):
            return "(absent)"
        return side if difference.path == "call" and isinstance(side, str) else canonical(side)

    return excerpt(text_of(difference.recorded), text_of(difference.now), KEPT)


def _make_cause_lines(divergence: Divergence, facts: Mapping[str, Json]) -> list[Line]:
    """Return why the run likely differs. An edit of the file comes before all that the agent may have done."""
    causes = [divergence.cause] if divergence.cause else []
    if edited := facts.get("edited"):
        causes.insert(0, f"the snapshot was edited after it was recorded: {edited}")
    lines = [Line("cause", "; if not that, ".join(causes))] if causes else []
    return lines + [Line("text", text) for text in divergence.detail]


def _make_edit_steps(facts: Mapping[str, Json]) -> list[Line]:
    file = find_file(facts)
    return _make_hint_lines(format_edit_hints(file)) if file and facts.get("edited") else []


def _make_call_lines(divergence: Divergence) -> list[Line]:
    """Return both calls in full, for those who ask for it."""
    lines: list[Line] = []
    recorded = divergence.recorded.call if divergence.recorded is not None else None
    for name, call in (("recorded", recorded), ("now", divergence.now)):
        if call is not None:
            lines.append(Line("detail", f"{name}: {label(call, READER)}"))
            lines += [Line("detail", f"  {text}") for text in format_call(call)]
    return lines


def _make_change_lines(facts: Mapping[str, Json]) -> list[Line]:
    """Return what is not as it was recorded, around the run: the first few, and how many there are besides."""
    changed = facts.get("changed")
    changes = [str(change) for change in changed] if isinstance(changed, list) else []
    lines = [Line("text", change, "changed since") for change in changes[:SINCE]]
    more = len(changes) - SINCE
    return [*lines, Line("text", f"and {more} more", "changed since")] if more > 0 else lines


def _make_chance_lines(facts: Mapping[str, Json]) -> list[Line]:
    """Return what of the order was never certain: two threads answered at once, an event loop that cannot be asked."""
    lines = []
    if racy := facts.get("racy"):
        text = f"two threads were answered within 1 ms ({racy} x): their order was chance"
        lines.append(Line("text", text, "racy"))
    if facts.get("guessed"):
        text = "when the event loop was idle, because it cannot be asked (uvloop)"
        lines.append(Line("text", text, "guessed"))
    return lines


def _make_hint_lines(hints: Iterable[str]) -> list[Line]:
    """Return the hints as commands; a hint is "what it does: what to type"."""
    parts = [hint.partition(": ") for hint in hints]
    return [Line("next", command, name) if command else Line("next", name, "or") for name, _, command in parts]


def format_call(call: Call) -> list[str]:
    """Return a call as indented JSON, its middle left out when it is long."""
    if isinstance(call, ToolCall):
        return _cut_middle(
            _format_json(media.mark_media({**call.facts, **call.arguments} if call.facts else call.arguments))
        )
    lines = [f"{call.method} {call.url}", *(f"{name}: {value}" for name, value in call.headers)]
    return _cut_middle([*lines, *_format_body(call)])


def _format_body(call: WireCall) -> list[str]:
    body_content = content(call.headers, call.body)
    if body_content.kind != "bytes":
        return _format_json(media.mark_media(body_content.tree))
    if not body_content.data:
        return []
    try:
        return body_content.data.decode().splitlines()
    except UnicodeDecodeError:
        return [str(media.make_media(body_content.data, header(call.headers, "content-type")))]


def _format_json(value: Json) -> list[str]:
    return [texts.shorten(line, LINE_WIDTH) for line in format_value(value)]


def _cut_middle(lines: list[str]) -> list[str]:
    """Return the head and the longer tail of many lines: what is new stands at the end."""
    if len(lines) <= CALL_LINES:
        return lines
    head = CALL_LINES // 4
    tail = CALL_LINES - head - 1
    return [*lines[:head], f"... {len(lines) - head - tail} lines ...", *lines[-tail:]]
