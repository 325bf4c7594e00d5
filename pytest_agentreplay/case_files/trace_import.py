"""Traces of other tools out of files, redacted before anybody reads them; and the bytes that a case keeps of each.

A file that holds several runs is kept as far as it tells of the one: rows of others are left out where that changes
nothing of what is read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_agentreplay.case_files.trace_cleaning import cleaned
from pytest_agentreplay.core.redaction.policy import Policy, joined
from pytest_agentreplay.errors import TraceError, TraceIncomplete
from pytest_agentreplay.interchange import reading
from pytest_agentreplay.interchange.opening import LARGEST
from pytest_agentreplay.redact.redaction_factory import redaction_for
from pytest_agentreplay.store import files
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_agentreplay.core.redaction import Redaction
    from pytest_agentreplay.interchange.trace import Trace

PERSONAL = Policy(pii=True)
"""What holds for everything that comes from elsewhere."""


@dataclass(frozen=True, slots=True)
class Import:
    """The runs in some files: `sources` are (name as shown, redacted bytes), `redaction` is what took things off.

    `unkept` are the names of sources that are no text and hold what must not be stored. `refusal` says why there are
    no runs: what they need was not captured.
    """

    traces: tuple[Trace, ...]
    sources: tuple[tuple[str, bytes], ...]
    redaction: Redaction
    policy: Policy
    environ: Mapping[str, str]
    wanted: str = ""
    unkept: frozenset[str] = frozenset()
    refusal: TraceIncomplete | None = None

    def kept(self, trace: Trace | None) -> dict[str, bytes]:
        """What a case keeps of the sources of one of the traces, by file name; all of them for none."""
        whole = trace is None or len(self.traces) == 1
        mine = [
            data if whole or trace is None else _own_rows(trace, file, data, self.wanted) for file, data in self.sources
        ]
        numbered = len(mine) > 1
        return {
            f"source-trace{f'-{number}' if numbered else ''}.{ending(data)}": data
            for number, data in enumerate(mine, 1)
        }


def imported(paths: Sequence[Path], policy: Policy, environ: Mapping[str, str], wanted: str = "") -> Import:
    """The runs in `paths`, which are read together. Raises TraceError, or SnapshotError for what is no plain file."""
    policy = joined(policy, PERSONAL)
    redaction = redaction_for(environ, policy=policy)
    found = [(shown(path), *cleaned(files.read(path, LARGEST), shown(path), redaction)) for path in paths]
    sources = tuple((file, data) for file, data, _ in found)
    unkept = frozenset(file for file, _, fine in found if not fine)
    try:
        return Import(tuple(reading.traces(sources, wanted)), sources, redaction, policy, environ, wanted, unkept)
    except TraceIncomplete as refusal:
        return Import((), sources, redaction, policy, environ, wanted, unkept, refusal)


def ending(data: bytes) -> str:
    """What a file of these bytes is called at its end."""
    if data.startswith(b"PK\x03\x04"):
        return "zip"
    if data[:1] not in (b"{", b"["):
        return "yaml"
    try:
        json.loads(data)
    except ValueError:
        return "jsonl"
    return "json"


def _own_rows(trace: Trace, file: str, data: bytes, wanted: str) -> bytes:
    """The lines that name the run, where these alone are the same run; else all of them."""
    known = [known.encode("utf-8", "replace") for known in (trace.id, trace.source.id) if known]
    lines = data.splitlines(keepends=True)
    own = b"".join(line for line in lines if any(one in line for one in known))
    if own in (b"", data):
        return data
    try:
        found = reading.traces([(file, own)], wanted)
    except TraceError:
        return data
    return own if len(found) == 1 and replace(found[0], source=trace.source) == trace else data
