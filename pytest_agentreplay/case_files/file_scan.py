"""`agentreplay scan`: what the rules find in any file. Nothing is written, no link is followed, no value is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.case_files.trace_cleaning import found_in
from pytest_agentreplay.errors import AgentReplayError, SnapshotError
from pytest_agentreplay.redact.redaction_factory import redaction_for
from pytest_agentreplay.redact.rule_review import Review, RuleHit
from pytest_agentreplay.store import files, layout, snapshots
from pytest_agentreplay.store.display_path import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_agentreplay.core.redaction.policy import Policy

LARGEST = 32 << 20
BEGINNING = 8192


class Skipped(AgentReplayError):
    """A file that is not looked into, and why."""


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that were named, and those below the folders: not those of other tools, nor behind links."""
    for path in paths:
        if not path.is_dir() or path.is_symlink():
            yield path
            continue
        for here, folders, names in os.walk(path):
            folders[:] = sorted(one for one in folders if one == layout.PRIVATE or not snapshots.skipped(one))
            yield from (Path(here) / name for name in sorted(names))


def scanned(file: Path, policy: Policy, environ: Mapping[str, str]) -> list[RuleHit]:
    """What the rules find in one file. Raises Skipped."""
    try:
        data = files.head(file, LARGEST + 1)
    except SnapshotError as error:
        raise Skipped(str(error).removeprefix(f"{shown(file)}: ")) from None
    if len(data) > LARGEST:
        raise Skipped(f"is larger than {LARGEST:,} bytes")
    if b"\0" in data[:BEGINNING]:
        raise Skipped("is no text")
    if file.name.endswith(layout.SUFFIX):
        try:
            return Review(codec.loads(data, file=shown(file)).run, data, policy, environ).found
        except SnapshotError:
            pass  # a damaged snapshot is a text
    return found_in(file.name, data, redaction_for(environ, policy=policy))
