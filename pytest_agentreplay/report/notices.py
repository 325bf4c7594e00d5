"""What the footer of a session says about one subject, and at which verbosity: of recordings, locks, unused snapshots.

The footer is a loop over notices (`format_footer`). To add a line to it, return a notice where its subject is known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.model.paths import quote_word, relative_path
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.report.summary import Proof

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_agentreplay.report.summary import RecordingSummary, SessionSummary, UncomparedArgument, UnusedSnapshots
RAN_ON = "the clock ran on: the agent waits on wall time"
CACHED = "; a cache may have answered (on disk, or of another test)"
TIMED = "its timers race with the answers: a rate limiter, a batch, a deadline"
# Arguments compared by class alone that are listed; the kit has all of them.
MOST_ARGUMENTS = 5
# Differences, and files, that are listed without -v.
MOST_ROWS = 5


class Severity(IntEnum):
    """How much a notice matters; the value is the least verbosity of pytest at which it is shown."""

    ERROR = -2
    """Needs a person: always shown."""
    WARNING = -1
    """Also with -q."""
    INFO = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """Lines about one subject.

    Attributes:
        severity: From which verbosity on `text` is shown.
        text: The lines; the first begins with a word of at most nine letters, the others with ten spaces.
        verbose: What stands there instead with -v; empty: `text` does.
        brief: What stands there at one step of -q below the severity.
    """

    severity: Severity
    text: tuple[str, ...]
    verbose: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()

    def lines(self, verbosity: int) -> tuple[str, ...]:
        """Return the lines to show at this verbosity of pytest: 1 for -v, -1 for -q."""
        if verbosity == self.severity - 1 and self.brief:
            return self.brief
        if verbosity < self.severity and self.severity is not Severity.ERROR:
            return ()
        return self.verbose if verbosity > 0 and self.verbose else self.text


def make_error(*lines: str) -> Notice:
    """Return a notice that is always shown."""
    return Notice(Severity.ERROR, lines)


def make_warning(*lines: str) -> Notice:
    """Return a notice that is shown with -q, too."""
    return Notice(Severity.WARNING, lines)


def make_info(*lines: str) -> Notice:
    """Return a notice that -q leaves out."""
    return Notice(Severity.INFO, lines)


def format_footer(notices: Iterable[Notice], verbosity: int) -> list[str]:
    """Return the lines of the footer at this verbosity of pytest."""
    return [line for notice in notices for line in notice.lines(verbosity)]


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun: "1 test", "2 tests"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def judge_proof(outcome: str, summary: SessionSummary | None, headline: str, failure: str | None) -> Proof:
    """Return the proof of a recording that ended with `outcome`: whether it replays so, and what differs if not.

    `summary` is that of the replay, `headline` that of its finding or "", `failure` what it failed with, if it did.
    """
    replay = summary.replay if summary is not None else None
    if headline:
        # Right after the recording the code is the same, so something else answers a call that is not made.
        why = headline.replace("no credentials here", "credentials came from a file or a login")
        return Proof(False, why + CACHED * headline.startswith("[AR-MISSING]"))
    # A recording of a failing test is kept on purpose: its proof is that it fails again in the same way.
    if outcome == "failed":
        fails_again = summary is not None and (summary.failed or (replay is not None and replay.fails_as_recorded))
        if failure is None and not fails_again:
            return Proof(False, "the test failed when it was recorded and passes offline")
        return Proof(True, "fails as recorded")
    if failure is not None:
        reason = failure.strip().partition("\n")[0]
        from pytest_agentreplay.compare.diagnose.missing import find_advice

        if advice := find_advice(reason):
            return Proof(False, f"credentials came from a file or a login: {advice}")
        # The assertion is right, and sees a placeholder in the place of the secret.
        if replay is not None and replay.redacted:
            return Proof(False, f"redacted: its calls replay, but the test looks at a secret: {reason}")
        written = replay.written if replay is not None else ()
        not_run = f" (the code of {', '.join(written)} does not run)" if written else ""
        return Proof(False, f"its calls replay, but its own assertions do not hold offline{not_run}: {reason}")
    if replay is None:
        return Proof()
    return Proof(True, RAN_ON if replay.ran_on else TIMED if replay.timed else "")


def make_recording_notices(recorded: Sequence[tuple[SessionSummary, RecordingSummary]], here: Path) -> Iterator[Notice]:
    """Yield the notices of all recordings; with -q those that went well are counted in one line."""
    if well := [pair for pair in recorded if pair[1].went_well]:
        count = count_recordings(well, others=len(recorded) > len(well))
        yield Notice(Severity.INFO, (), brief=(count,))
    for summary, recording in recorded:
        lines = tuple(format_recording(summary, recording, here))
        yield Notice(Severity.INFO if recording.went_well else Severity.ERROR, lines)
    yield from make_differing_notices(recorded)


def count_recordings(recorded: Sequence[tuple[SessionSummary, RecordingSummary]], *, others: bool) -> str:
    """Return one line for recordings that went well; `others` that did not have lines of their own below it."""
    verdicts = Counter("unchanged" if recording.unchanged else recording.verdict for _, recording in recorded)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    failed = sum(recording.outcome == "failed" for _, recording in recorded)
    counts += f", {failed} failed" if failed else ""
    proven = all(recording.proof for _, recording in recorded if recording.verdict != "without calls")
    replays = f", {'these' if others else 'all'} {'end as recorded' if failed else 'replay'}" if proven else ""
    tests = count_tests([summary for summary, _ in recorded])
    return f"recorded {tests} ({counts}{replays})" + (", and others:" if others else "")


def count_tests(summaries: Sequence[SessionSummary]) -> str:
    """Return how many tests and fixtures these are: "3 tests and 1 fixture"."""
    fixtures = len({summary.test for summary in summaries if summary.fixture is not None})
    tests = format_count(sum(summary.fixture is None for summary in summaries), "test")
    return tests + (f" and {format_count(fixtures, 'fixture')}" if fixtures else "")


def format_recording(summary: SessionSummary, recording: RecordingSummary, here: Path) -> Iterator[str]:
    """Yield what became of one recording."""
    file = relative_path(Path(summary.file), here)
    yield from format_recording_verdict(summary, recording, file, here)
    if recording.large:
        yield f"large     {file} holds {recording.large:,} bytes, more than large in agentreplay_checks"
        yield "          give the test smaller inputs, or keep such files in git-lfs"
    if recording.racy:
        times = "once" if recording.racy == 1 else f"{recording.racy} times"
        yield f"racy      {file}: two threads had their answers within a millisecond, {times}"
        yield "          which came first was chance, so a replay may part where your code depends on it"
    for gap in recording.gaps:
        yield f"not recorded: {gap}"
    yield from format_uncompared(recording.uncompared)
    for name in recording.inside:
        yield f"inside    tool {name} asks a model itself: a replay answers it whole, and sees no change of its prompts"
        yield "          to see them, name what it calls in agentreplay_tools and leave it out"
    for tool in recording.unfrozen:
        where = "unseen" if tool.path else "in a child process"
        yield f"[AR-UNFROZEN] tool {tool.tool} ran {where} and will run again in a replay"
        yield format_freezing(tool.path)


def format_freezing(path: str) -> str:
    """Return the line that says how the tool at an import path is frozen; "" is one of a child process."""
    if path:
        return f"          if that is what ran, add to agentreplay_tools:   {path}"
    return "          a child's own tools are not frozen: give it a test account"


def format_recording_verdict(
    summary: SessionSummary, recording: RecordingSummary, file: str, here: Path
) -> Iterator[str]:
    """Yield where a recording went, and the command that goes on from there."""
    proof = describe_proof(recording.proof)
    match recording.verdict:
        case "created" | "replaced" as verdict:
            tries = f" at try {recording.tries}" if recording.tries > 1 else ""
            kind = "test" if summary.fixture is None else "fixture"
            word = "unchanged" if recording.unchanged else verdict
            calls = format_count(recording.exchanges, "call")
            yield f"recorded  {file} ({word}, {calls}, {kind} {recording.outcome}{tries}){proof}"
        case "pending":
            pending = relative_path(Path(recording.pending), here)
            previous = "is as it was" if recording.keeps_previous else "was not written"
            purpose = "if the outage is the point" if recording.outage else "to take the new run"
            yield f"pending   {summary.test}: {recording.why}; {file} {previous}"
            yield f"          {purpose}:   agentreplay accept {quote_word(pending)}"
            if recording.forked:
                yield f"          to see what differs:   agentreplay diff {quote_word(file)} {quote_word(pending)}"
        case "kept":
            pass  # another process was first: `make_differing_notices`
        case "without calls":
            # Without a line: it looks at what a fixture has done, or was run only because it has no snapshot.
            if recording.gaps or not (summary.uses or recording.missing):
                yield f"recorded  nothing: {summary.test} made no call that a boundary knows{proof}"
        case "not written":
            first, *more = recording.why.splitlines() or [""]
            yield f"recorded  nothing of {summary.test}: {first}"
            yield from (f"          {line}" for line in more)
            if recording.rest:
                rest = quote_word(relative_path(Path(recording.rest), here))
                yield f"          the rest is kept:   agentreplay verify --recover --policy FILE {rest}"
            if recording.journal:
                journal = quote_word(relative_path(Path(recording.journal), here))
                yield f"          to keep what it saw:   agentreplay verify --recover {journal}"


def format_uncompared(arguments: Sequence[UncomparedArgument]) -> Iterator[str]:
    """Yield the arguments of tools that are compared by their class alone."""
    if not arguments:
        return
    yield f"uncompared {format_count(len(arguments), 'argument')}: a replay compares them by class alone"
    for argument in arguments[:MOST_ARGUMENTS]:
        yield f"          {argument.path} of {argument.tool} ({argument.kind}) {argument.why}"
    if len(arguments) > MOST_ARGUMENTS:
        yield f"          and {len(arguments) - MOST_ARGUMENTS} more"
    for line in dict.fromkeys(argument.line for argument in arguments[:MOST_ARGUMENTS]):
        yield f"          say what they are compared by:   {line}"


def describe_proof(proof: Proof | None) -> str:
    """Return what the replay of a new recording has shown, for the end of its line; "" before it."""
    if proof is None:
        return ""
    if proof.skipped:
        return f"   not replayed: {proof.skipped}"
    return ("   replays" if proof.replays else "   does not replay") + (f": {proof.why}" if proof.why else "")


def make_differing_notices(recorded: Sequence[tuple[SessionSummary, RecordingSummary]]) -> Iterator[Notice]:
    """Yield the fixtures that several processes recorded, with tests that were recorded with a run that was dropped."""
    dropped = {(summary.test, summary.instance) for summary, recording in recorded if recording.differs}
    for fixture in sorted({test for test, _ in dropped}):
        tests = [
            summary.test
            for summary, recording in recorded
            if recording.exchanges and (fixture, summary.uses.get(fixture)) in dropped
        ]
        if tests:
            affected = format_count(len(tests), "test")
            yield make_error(
                f"differs   {fixture} was recorded by several processes, with other answers; the first run is kept",
                f"          {affected} used another one, {tests[0]} for example: record without -n",
            )


def make_lock_notices(differing: Mapping[str, Sequence[str]], *, here: Path, fails: bool) -> Iterator[Notice]:
    """Yield the differences by lock file; `fails` says that the session fails for them."""
    for lock, changes in differing.items():
        name, folder = relative_path(Path(lock), here), relative_path(Path(lock).parent, here)
        head = f"locked    {name}: {format_count(len(changes), 'snapshot')} not as locked"
        rows = [f"          {escape_line(change)}" for change in changes]
        command = f"          if that is meant:   agentreplay verify {quote_word(folder)} --lock"
        yield Notice(Severity.ERROR, (head, *shorten_rows(rows), command), verbose=(head, *rows, command))
    if differing and fails:
        yield make_error("          the session fails for it: CI is set, or the mode was typed")


def make_unused_notices(unused: UnusedSnapshots, *, here: Path, fails: bool) -> Iterator[Notice]:
    """Yield the snapshots that no test used; nothing where none is claimed, unless a worker was lost."""
    if unused.why:
        # Other reasons are usual ones: a part of the suite was selected, or nothing was replayed.
        if "lost" in unused.why:
            yield make_error(f"unused    not looked for: {unused.why}")
        return
    if not unused.files:
        return
    pronoun = "it" if len(unused.files) == 1 else "them"
    head = f"unused    {format_count(len(unused.files), 'snapshot')}: no test of this full run used {pronoun}"
    rows = [f"          {relative_path(Path(file), here)}" for file, _ in unused.files]
    moves = [f"          if renamed:   agentreplay mv {quote_word(old)} {quote_word(new)}" for old, new in unused.moves]
    ends = []
    # A snapshot that may have been moved is not to be deleted.
    if len(unused.possible_moves) < len(unused.files):
        ends.append("          to delete what is not needed:   agentreplay prune")
    if fails:
        ends.append("          the session fails for it: agentreplay_checks: unused = fail")
    short, full = (head, *shorten_rows(rows), *moves[:MOST_ROWS], *ends), (head, *rows, *moves[: len(rows)], *ends)
    yield Notice(Severity.ERROR, short, verbose=full)


def shorten_rows(rows: Sequence[str]) -> list[str]:
    """Return the rows that are listed without -v, and how many more there are."""
    more = len(rows) - MOST_ROWS
    return [*rows[:MOST_ROWS], *([f"          and {more} more: -v shows all"] if more > 0 else [])]
