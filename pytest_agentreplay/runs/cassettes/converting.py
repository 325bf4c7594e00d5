"""A test on cassettes of vcrpy that is converted: its recording, and the marks in the source of its file.

It is recorded offline, with the cassettes as its network. What becomes of the marks once it has a snapshot is pure:
text in, changes out. What a change does not touch stays byte for byte.
"""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay.model.exchanges import HttpCall, Run
from pytest_agentreplay.report.notices import format_count
from pytest_agentreplay.runs.recording_session import RecordingSession

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.report.summary import SessionSummary
    from pytest_agentreplay.runs.cassettes.watching import CassetteWatch
    from pytest_agentreplay.runs.run_session import EndedRun

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
OPENS = re.compile(r"(?i)^[\w.]*(?:vcr|cassette)\w*$")
"""The name of a context manager or decorator that opens a cassette."""


class MarkChange(NamedTuple):
    """A place of a source: `start` and `end` in its text, its `line` from 1, `old`, and `new`, which comes there.

    What opens a cassette in code is named and left (`new` is None): it does nothing any more.
    """

    start: int
    end: int
    line: int
    old: str
    new: str | None


def apply_changes(text: str, changes: Collection[MarkChange]) -> str:
    """Return the text with all changes made."""
    for change in sorted(changes, key=lambda change: change[:2], reverse=True):
        if change.new is not None:
            text = text[: change.start] + change.new + text[change.end :]
    return text


def plan_changes(
    text: str, converted: Collection[str], left: Collection[str] = (), opted_in: Collection[str] = ()
) -> tuple[list[MarkChange], list[str]]:
    """Return the changes of a test file by which its `converted` tests play no cassette, and tests to mark elsewhere.

    Tests are named below the module: "test_a", "TestShop::test_b". A mark goes only where it marks none but converted
    ones; `left` are others that were collected. A test that has not `opted_in` otherwise gets our mark.
    """
    lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)  # as Python counts them
    owners = [*_list_owners(ast.parse(text))]
    tests = {*converted, *left} | {path for path, _ in owners if path.split("::")[-1].startswith("test")}
    done, marked, changes = {*converted} - {*left}, {*opted_in}, list[MarkChange]()
    imports = [each for each in ast.walk(owners[0][1]) if isinstance(each, ast.Import | ast.ImportFrom)]
    names = {(getattr(each, "module", ""), a.name): a.asname or a.name for each in imports for a in each.names}
    prefixes = [f"{names['', 'pytest']}.mark"] if ("", "pytest") in names else []
    prefixes += [names["pytest", "mark"]] if ("pytest", "mark") in names else []

    ours, theirs = ([f"{prefix}.{name}" for prefix in prefixes] for name in ("agentreplay", "vcr"))

    def locate(line: int, column: int) -> int:
        # The columns of `ast` count bytes of UTF-8.
        return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())

    def add(node: ast.expr, new: str | None) -> None:
        start, end = locate(node.lineno, node.col_offset), locate(node.end_lineno or 0, node.end_col_offset or 0)
        if new == "":  # the line too
            start, end = locate(node.lineno, 0), locate((node.end_lineno or 0) + 1, 0)
        changes.append(MarkChange(start, end, node.lineno, lines[node.lineno - 1].strip(), new))

    for path, node in owners:
        under = {test for test in tests if not path or test == path or test.startswith(f"{path}::")}
        marks = [*_list_marks(node)] if under and under <= done else []
        if any(name in ours for _, name in marks):
            marked |= under
        for mark, name in marks:
            if name in theirs:
                is_needless = under <= marked and mark in getattr(node, "decorator_list", ())
                add(mark, "" if is_needless else f"{name.removesuffix('vcr')}agentreplay")
                marked |= under
    for path, node in owners:
        if path in done and isinstance(node, FUNCTION):
            if path not in marked and prefixes:
                line = min(each.lineno for each in (node, *node.decorator_list))
                indent, ending = re.findall(r"^\s*|[\r\n]*$", lines[line - 1])[:2]
                at = locate(line, 0)
                changes.append(MarkChange(at, at, line, "", f"{indent}@{prefixes[0]}.agentreplay{ending}"))
                marked.add(path)
            for opening, name in _list_openings(node):
                if name not in theirs:
                    add(opening, None)
    return sorted(changes, key=lambda change: change[:2]), sorted(done - marked)


def _list_owners(node: ast.AST, path: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the module, its classes and functions, outermost first, by their names below the module."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield path, node
    if not isinstance(node, FUNCTION):
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", "") if isinstance(child, ast.stmt) else ""
            yield from _list_owners(child, f"{path}::{name}".strip(":") if name else path)


def _list_marks(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield the decorators of a class or function and what its `pytestmark` holds, each with its dotted name."""
    values: list[ast.expr] = [*getattr(node, "decorator_list", ())]
    for statement in getattr(node, "body", ()):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            values += getattr(statement.value, "elts", None) or [statement.value]
    for value in values:
        yield value, ast.unparse(value.func if isinstance(value, ast.Call) else value)


def _list_openings(function: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield the decorators and context managers of a test that open a cassette, each with its dotted name."""
    blocks = [each for each in ast.walk(function) if isinstance(each, ast.With | ast.AsyncWith)]
    values = [*getattr(function, "decorator_list", ()), *(item.context_expr for each in blocks for item in each.items)]
    for value in values:
        name = re.sub(r"\(.*\)", "", ast.unparse(value))
        if OPENS.search(name):
            yield value, name


ACCEPTED = "converted from vcrpy with the requests of today, under --accept-stale"


class CassetteRecording(RecordingSession):
    """Records what a test plays, and changes nothing about how the test ends.

    `unconverted` says why nothing was written; "" where it was, None where the test has opened no cassette.
    """

    def __init__(self, *args: Any, watch: CassetteWatch, accepts_stale: bool) -> None:
        """`watch` has what the test plays; `accepts_stale` converts a test whose requests have changed."""
        super().__init__(*args)
        self._watch, self._accepts_stale = watch, accepts_stale
        self.unconverted: str | None = None
        self._finding: Finding | None = None

    def end_body(self, ended: EndedRun) -> None:
        """Keep what a recording would fail the test with."""
        self._finding = super().end_body(ended)

    def end(self) -> None:
        """Write the snapshot, or keep why there is none."""
        self.close()
        stale = [play for play in self._watch.plays if play.verdict in {"stale", "wrong interaction"}]
        self.unconverted = self._explain_unconverted([play.summary for play in stale])
        if self.unconverted != "":
            self.discard()
            return
        self.details = {"vcrpy": [*dict.fromkeys(play.cassette for play in self._watch.plays)]}
        if stale:
            mark: Any = {"reason": ACCEPTED, "requests": len(stale), "at": f"{datetime.now(UTC):%Y-%m-%d}"}
            self.details["adopted"] = [mark]
        self.unconverted = "its snapshot could not be written"  # where that raises
        super().end()
        self.unconverted = "" if self.recording.is_new else self.recording.why

    def summarize(self) -> SessionSummary:
        """Return the summary; of a test that is not converted the report of the conversion says why."""
        return super().summarize() if self.recording.is_new else self.summary

    def _explain_unconverted(self, stale: list[str]) -> str | None:
        """Return why the test is not converted, or ""; None where it has opened no cassette."""
        ended, exchanges = self._ended, self.recorder.list_exchanges()
        beyond = [x for x in exchanges if isinstance(x.call, HttpCall) and x.start not in self.recorder.served]
        if not (self._watch.opened or self.recorder.served):
            return None
        if ended is None or not ended.passed:
            return "it was skipped" if ended is not None and ended.skipped else "it failed while it was recorded"
        if self.interception.observed.problems:
            return str(self.interception.observed.problems[0])
        if self._finding is not None:
            return self._finding.headline
        if beyond:
            return f"it made {format_count(len(beyond), 'request')} that no cassette answered"
        if not self.recorder.served:
            return "it played no request"
        if stale and not self._accepts_stale:
            return f"stale in {format_count(len(stale), 'request')}: {stale[0]}"
        return ""

    def _find_outage(self, _run: Run) -> str:
        """Return "": a cassette of errors is what such a test is about."""
        return ""
