"""A case run by a command: today's agent in a process of its own, in whatever language, against the gateway.

The command is told where everything lies by variables, its model calls come to the loopback gateway, and what it writes
to AGENTREPLAY_OUTPUT_PATH is its result. It comes from the command line, never from a case. What it prints and writes
is kept in `.agentreplay/runs/<time>-<case>/`, out of git, without secrets.
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases import result
from pytest_agentreplay.cases.case import FIXTURES, SOURCE_TRACE
from pytest_agentreplay.cases.evidence import CaseEvidence
from pytest_agentreplay.errors import RunnerError, SnapshotError, SnapshotMissing
from pytest_agentreplay.model.exchanges import Header, Run, ToolCall, ToolReply
from pytest_agentreplay.model.paths import relative_path
from pytest_agentreplay.runs import command
from pytest_agentreplay.snapshots.store import files, layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_agentreplay.backends.case_backend import CaseBackend
    from pytest_agentreplay.cases.case import Case
    from pytest_agentreplay.redaction.redaction import Redaction
    from pytest_agentreplay.runs.snapshot_server import SnapshotServer

FOLDER = ".agentreplay"
PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]*")
"""An id that can be the end of a folder's name as it is."""


class Artifacts:
    """The folder of one replay, made when the first file is kept. `here` is where reports show it from."""

    def __init__(self, root: Path, case: str, *, here: Path, now: datetime | None = None) -> None:
        """`case` is the id of the case."""
        self._top = root / FOLDER
        time = (now or datetime.now().astimezone()).strftime("%Y%m%dT%H%M%S")
        name = f"{time}-{layout.make_slug(case, case, 60, is_safe=PLAIN.fullmatch(case) is not None)}"
        self._here = here
        self.folder = self._top / "runs" / name
        self._made = False

    def keep(self, name: str, text: str) -> None:
        """Keep one file; a second one of that name gets a number. Raises CannotWrite."""
        if not self._made:
            self._make()
        stem, dot, ending = name.partition(".")
        number = 1
        while files.exists(self.folder / name):
            number += 1
            name = f"{stem}-{number}{dot}{ending}"
        files.write_whole(self.folder / name, text)

    @property
    def shown(self) -> str:
        """The folder as people would type it, "" while nothing is kept."""
        return relative_path(self.folder, self._here) if self._made else ""

    def _make(self) -> None:
        files.make_private_folder(self._top)
        number, first = 1, self.folder
        while not files.make_new(self.folder):
            number += 1
            self.folder = first.with_name(f"{first.name}-{number}")
        self._made = True


PREFIXES = ("AGENTREPLAY_", "REPLAYKIT_")
"""Ours, and those of the tool whose contract this is."""
OUTPUT = "runner-output.json"
ALONE = "nobody: the command asked the gateway for nothing"
LAST = 3  # lines of what a crashed command said that its error repeats


@dataclass(frozen=True, slots=True)
class Command:
    """A command that runs cases: `words` in `folder` with `environ`, at most `limit` seconds each time.

    What it prints and writes is redacted by `redaction`, and kept by `keeping`.
    """

    words: Sequence[str]
    folder: Path
    environ: Mapping[str, str]
    limit: float
    redaction: Redaction
    keeping: Artifacts

    def run(self, case: Case, backend: CaseBackend, serving: SnapshotServer, served: str) -> CaseEvidence:
        """Return what came of one run under the policy `served`, answered by `backend` at the gateway of `serving`.

        Raises RunnerError for one that tells nothing.
        """
        with tempfile.TemporaryDirectory(prefix="agentreplay-") as made, serving as gateway:
            output = Path(made) / OUTPUT
            environ = {**self.environ, **gateway.env, **variables(case, output)}
            stdin = json.dumps(case.input).encode()
            ended = command.run_command(self.words, environ=environ, folder=self.folder, stdin=stdin, limit=self.limit)
            written = self._read_output(output)
        self._keep(ended, written)
        has_calls = bool(backend.list_made()) or backend.find_divergence() is not None
        more: dict[str, Any] = {
            "run": Run(Header(case.id), backend.list_made()) if has_calls else None,
            "seconds": ended.seconds,
            "divergence": backend.finish() if has_calls else None,
            "escapes": serving.refused,
            "served": served + (f" ({backend.summary})" if backend.counts else "") if has_calls else ALONE,
        }
        try:
            return result.read_result(self._result(ended, written), file=OUTPUT, **more)
        except RunnerError as wrong:
            if backend.find_divergence() is None:
                raise
            return CaseEvidence(status="error", errors=(("RunnerError", str(wrong)),), **more)  # a refused call is why

    def _read_output(self, output: Path) -> bytes | None:
        """What the command wrote; None for nothing. Raises RunnerError for what is no plain file, or too large."""
        try:
            return files.read_file(output, result.LARGEST)
        except SnapshotMissing:
            return None
        except SnapshotError as wrong:
            raise RunnerError(f"{OUTPUT}: {str(wrong).removeprefix(f'{wrong.file}: ')}") from None

    def _result(self, ended: command.CommandResult, written: bytes | None) -> dict[str, object]:
        name, last_lines = self.words[0], self._format_last_lines(ended)
        if ended.code is None:
            after = f"{name} was still running after {self.limit:g} s and was ended"
            raise RunnerError(f"{after}; raise agentreplay_timeout, or --timeout{last_lines}")
        if written is None and ended.code:
            raise RunnerError(f"{name} ended with {ended.code} and wrote no result{last_lines}")
        if written is None:
            how = f"write {result.EXAMPLE} to the file that {PREFIXES[0]}OUTPUT_PATH names"
            raise RunnerError(f"{name} wrote no result: {how}{last_lines}")
        reply = ToolReply(result.parse_result(written, file=OUTPUT))
        stored = self.redaction.redact_outcome(ToolCall("result"), reply)
        assert isinstance(stored, ToolReply)
        result_fields = self.redaction.hide_tree(stored.value)
        assert isinstance(result_fields, dict)
        return dict(result_fields)

    def _clean(self, data: bytes) -> str:
        """Return what a command said, without what may not be kept, and without what may not be shown."""
        return self.redaction.hide(self.redaction.redact_text(data.decode(errors="replace")))

    def _format_last_lines(self, ended: command.CommandResult) -> str:
        """Return the last lines of what the command complained of, and where all of it is kept."""
        lines = self._clean(ended.stderr).strip().splitlines()[-LAST:]
        kept = self.keeping.shown
        return "".join(f"\n  {line.strip()}" for line in lines) + (f"\n  all of it is kept in {kept}" if kept else "")

    def _keep(self, ended: command.CommandResult, written: bytes | None) -> None:
        for name, data in (("stdout.txt", ended.stdout), ("stderr.txt", ended.stderr), (OUTPUT, written)):
            if data is not None:
                self.keeping.keep(name, self._clean(data))


def variables(case: Case, output: Path) -> dict[str, str]:
    """Return what the command is told of the case."""
    folder = case.folder.absolute()
    trace = next((name for name in sorted(files.list_names(folder)) if name.startswith(SOURCE_TRACE)), "")
    values = {
        "CASE_PATH": str(folder / Path(case.file).name),
        "OUTPUT_PATH": str(output),
        "FIXTURES_DIR": str(folder / FIXTURES),
        "SOURCE_TRACE_PATH": str(folder / trace) if trace else "",
    }
    return {prefix + name: value for prefix in PREFIXES for name, value in values.items()}
