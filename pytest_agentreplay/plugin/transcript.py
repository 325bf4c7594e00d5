"""The syrupy extension behind `agent_snapshot`: one readable transcript file per test.

syrupy is imported here only, and this module by that fixture only. syrupy's own flags keep their meaning:
`--snapshot-update` takes every changed snapshot, ours too; `--snapshot-record` takes those of the recorded tests alone,
and `agentreplay accept --requests` those of the snapshots that it writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from syrupy.assertion import AssertionResult, SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.terminal import context_style, received_style, snapshot_style

from pytest_agentreplay.cases.assertions import run_of
from pytest_agentreplay.compare.diff.texts import opcodes
from pytest_agentreplay.report.escape import escape_text
from pytest_agentreplay.report.transcript import write_transcript

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_LINES = 12
"""Lines of difference that are shown; pytest itself cuts the rest of an assertion away."""


class AgentRunExtension(SingleFileSnapshotExtension):
    """Stores a run as its transcript, `<test>.run.txt`, and tells a difference by its first divergent turn."""

    _write_mode = WriteMode.TEXT
    file_extension = "run.txt"

    def serialize(self, data: Any, **_: Any) -> str:
        """Return the transcript of a run, a run view or a snapshot. Raises TypeError for anything else.

        syrupy's matchers and property filters are for trees of values; a transcript has none.
        """
        return write_transcript(run_of(data))

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """Yield the first turn that differs, and its differing lines."""
        yield from describe_difference(str(snapshot_data), str(serialized_data))


class AgentSnapshot(SnapshotAssertion):  # noqa: PLW1641  as syrupy's, it cannot be hashed
    """What `agent_snapshot` gives: syrupy's assertion with a repr of one line.

    pytest prints the fixtures of a failing test, and syrupy's own repr is the whole stored text.
    """

    beside: dict[Path, bytes] | None = None
    """Takes the transcripts that differ, where they are written with the test's snapshot or not at all."""

    def __repr__(self) -> str:
        return f"<agent_snapshot of {self.test_location.testname}>"

    def __eq__(self, other: object) -> bool:
        if super().__eq__(other):
            return True
        result = self.executions[self.num_executions - 1]
        if self.beside is None or result.exception is not None:
            return False
        self.beside[Path(result.snapshot_location)] = str(result.asserted_data).encode()
        result.success = True
        return True

    def count_uncompared(self) -> None:
        """Count the transcripts that a failed test has not come to as failed: syrupy deletes those that are unused."""
        name = self.extension.get_snapshot_name(test_location=self.test_location, index=0)
        compared = {result.snapshot_location for result in self.executions.values()}
        for collection in self.extension.discover_snapshots(test_location=self.test_location):
            for snapshot in collection:
                if collection.location not in compared and f"{snapshot.name}.".startswith((f"{name}.", f"{name}[")):
                    self.executions[len(self.executions)] = AssertionResult(
                        collection.location, snapshot.name, None, None, False, False, False, None, self.test_location
                    )


def wrap(
    assertion: SnapshotAssertion, test: str = "", *, update: bool = False, beside: dict[Path, bytes] | None = None
) -> AgentSnapshot:
    """Return the `snapshot` of syrupy as `agent_snapshot`; `update` takes the transcript as `--snapshot-update` would.

    `test` is the name of a test that has one transcript in whatever order of answers it is replayed. Transcripts that
    are written with the snapshot are put into `beside`.
    """
    if test not in {"", assertion.test_location.testname}:
        for name in ("nodename", "testname"):  # frozen, and set in this way by syrupy too
            object.__setattr__(assertion.test_location, name, test)
    made = AgentSnapshot(
        session=assertion.session,
        extension_class=AgentRunExtension,
        test_location=assertion.test_location,
        update_snapshots=(update or assertion.update_snapshots) and beside is None,
    )
    made.beside = beside
    return made


def describe_difference(recorded: str, now: str) -> Iterator[str]:
    """Yield the first turn in which two transcripts differ, with at most MOST_LINES lines of it."""
    recorded_turns, current_turns = split_turns(escape_text(recorded)), split_turns(escape_text(now))
    at = next(
        (i for i, (a, b) in enumerate(zip(recorded_turns, current_turns, strict=False)) if a != b),
        min(len(recorded_turns), len(current_turns)),
    )
    if at >= len(recorded_turns) and at >= len(current_turns):
        return
    old, new = (
        (recorded_turns[at] if at < len(recorded_turns) else []),
        (current_turns[at] if at < len(current_turns) else []),
    )
    yield f"first divergent turn: {(old or new)[0]}"
    if not new:
        yield snapshot_style("- recorded, but the run ended before it")
    elif not old:
        yield received_style("+ one turn more than recorded")
    rows = list(list_changes(old, new))
    yield from rows[:MOST_LINES]
    if len(rows) > MOST_LINES:
        yield context_style(f"  ... {len(rows) - MOST_LINES} more lines differ in this turn")
    if later := sum(a != b for a, b in zip(recorded_turns[at + 1 :], current_turns[at + 1 :], strict=False)):
        yield context_style(f"  ... and {later} later {'turn differs' if later == 1 else 'turns differ'}")


def split_turns(text: str) -> list[list[str]]:
    """Return a transcript as its turns; each begins with a line that is not indented."""
    turns: list[list[str]] = []
    for line in text.splitlines():
        if line[:1].isspace() or not line:
            if turns and line:
                turns[-1].append(line)
        else:
            turns.append([line])
    return turns


def list_changes(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield the lines that went and came, in order, each change under the line that it follows."""
    most = min(len(old), len(new))
    head = next((i for i in range(most) if old[i] != new[i]), most)
    tail = next((i for i in range(most - head) if old[-1 - i] != new[-1 - i]), most - head)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    for _, a, b, c, d in opcodes(before, after) or [("replace", 0, len(before), 0, len(after))]:
        if a + head > 1:
            yield context_style(f"  {old[a + head - 1]}")
        yield from (snapshot_style(f"- {line}") for line in before[a:b])
        yield from (received_style(f"+ {line}") for line in after[c:d])
