"""Everything that people are shown of a run, by the printer that shows it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from unittest import mock

from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.kit_fields import make_kit
from pytest_agentreplay.compare.matching import Matching
from pytest_agentreplay.providers import READER, RULES
from pytest_agentreplay.report import escape, findings, other_findings, run_view, session_notices, terminal
from pytest_agentreplay.report import transcript as kits
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.report.notices import format_footer
from pytest_agentreplay.report.summary import (
    AdoptionSummary,
    AdoptionVerdict,
    Proof,
    RecordingSummary,
    RecordingVerdict,
    ReplaySummary,
    SessionSummary,
    UncomparedArgument,
    UnfrozenTool,
    VirtualClockUse,
)
from pytest_agentreplay.report.transcript import write_transcript
from pytest_agentreplay.snapshots import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_agentreplay.model.exchanges import Run

HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
ANYWHERE = re.compile(r"##[a-z]*\[", re.IGNORECASE)


def forbidden(text: str) -> list[str]:
    """The characters of `text` that act, hide or cannot be written."""
    hidden = [char for char in text if unicodedata.category(char) in {"Cf", "Cs"} or HIDDEN.match(char)]
    return sorted({*hidden, *HIDDEN.findall(text)})


def speaks_to_ci(text: str) -> list[str]:
    """The lines of `text` that a CI server takes for its own."""
    return [row for row in text.splitlines() if row.strip().startswith(("::", "##")) or ANYWHERE.search(row)]


def everything_shown(run: Run) -> Iterator[tuple[str, str]]:
    """What each printer makes of `run`, as it is printed on a CI server."""
    with mock.patch.dict(os.environ, {"GITHUB_ACTIONS": "true", "TF_BUILD": "True"}):
        yield from of_the_printers(run)
        yield from of_the_commands(run)


def of_the_printers(run: Run) -> Iterator[tuple[str, str]]:
    yield "transcript", escape.escape_output(write_transcript(run))
    for width in (40, 100, 1000):
        console = terminal.open_console(width=width)
        yield f"show, {width} columns", terminal.render(console, *run_view.format_run(run, console))
    yield "show --plain", escape.escape_output("\n".join(run_view.spell_run(run)))
    yield "kit", escape.escape_output(kits.format_kit(make_kit(run, READER)))
    text = run.exchanges[1].call.name
    test = run.header.test
    for finding in (
        other_findings.describe_late_calls(test, [text, text]),
        other_findings.describe_unfreezable(test, [ValueError(text)]),
        other_findings.describe_other_end(
            test, {"status": text, "message": text}, {"status": "passed"}, {"file": text}
        ),
    ):
        for width in (40, 80):
            yield finding.code, escape.escape_output(format_finding(finding, width=width, verbosity=2))
    for summary in summaries_of(test, text):
        for line in format_footer(session_notices.make_session_notices([summary], Path("/x")), 1):
            yield f"footer, {summary.mode}", escape.escape_output(escape.escape_line(line))


def summaries_of(test: str, text: str) -> Iterator[SessionSummary]:
    """Summaries that hold `text` wherever a line of the footer shows some."""
    shared = SessionSummary(mode="record", test=test, file=f"/x/{text}", strays=(text,), imports={text: text})
    gap = UncomparedArgument(text, text, text, text, text)
    recording = RecordingSummary(
        outcome=text,
        why=text,
        pending=f"/x/{text}",
        journal=f"/x/{text}",
        rest=f"/x/{text}",
        gaps=(text,),
        inside=(text,),
        unfrozen=(UnfrozenTool(text, text),),
        uncompared=(gap,),
        proof=Proof(False, text),
    )
    for verdict in get_args(RecordingVerdict):
        yield replace(shared, recording=replace(recording, verdict=verdict))
    rows = dict.fromkeys(("drift", "changed", "vanished", "edited"), (text,))
    rows["unfrozen"] = (UnfrozenTool(text, text),)
    replay = ReplaySummary(**rows, expect=text, recurs=text, unheard={text: text}, clock=VirtualClockUse(text, 1))
    yield replace(shared, mode="replay", replay=replay)
    adoption = AdoptionSummary(alignment=(text,), codes=(text,))
    for verdict in get_args(AdoptionVerdict):
        yield replace(shared, mode="adopt", adoption=replace(adoption, verdict=verdict))


def of_the_commands(run: Run) -> Iterator[tuple[str, str]]:
    """The verbs of the command line, on real files."""
    from pytest_agentreplay.cli import main

    text = run.exchanges[1].call.name
    other = replace(run, exchanges=(*run.exchanges[:1], *run.exchanges[2:]))
    with tempfile.TemporaryDirectory() as name:
        one, two = Path(name) / "one.snapshot.json", Path(name) / "two.snapshot.json"
        one.write_text(codec.dumps(run), encoding="utf-8")
        two.write_text(codec.dumps(other).replace('"attempt"', '"attempts"'), encoding="utf-8")
        bad = Path(name) / "bad.snapshot.json"
        bad.write_text(codec.dumps(run).replace('"schemaVersion"', '"x-y": 1, "schemaVersioN"'), encoding="utf-8")
        for words in (
            ["show", one],
            *(["show", one, *words.split()] for words in ("--turn -1", "--turn -1 --raw", "--json")),
            *(["ls", *words.split(), name] for words in ("", "--json", "--totals", "--totals --json")),
            ["ls", "--plain", name],
            ["diff", one, two],
            ["diff", "--first", one, two],
            ["show", "--kit", one],
            ["verify", one, bad],
            ["replay", one],
            ["check", "fuzz", "--orders", one],
            ["mv", run.header.test.replace("\0", ""), "tests/test_x.py::test_y"],
            ["verify", "--recover", one],
            ["accept", one],
            ["show", Path(name) / (re.sub(r"[/\0\ud800-\udfff]", "", text)[:80] or "x")],
            ["diff", "--json", one, two],
            ["show", "--kit", "--json", one],
        ):
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
                main([str(word) for word in words])
            yield f"agentreplay {words[0]}", out.getvalue()
    for one_divergence in divergences(run, other, READER, matching=Matching(READER, RULES)):
        finding = findings.describe_comparison(one_divergence, "a", "b")
        for verbosity in (0, 2):
            yield "divergence", escape.escape_output(format_finding(finding, width=60, verbosity=verbosity))
