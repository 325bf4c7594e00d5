"""What files hold, sealing edits, recovering journals, listing rules: parts of `show`, `accept` and `audit`."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.cli.locking import remind
from pytest_agentreplay.cli.saying import CANNOT, NOTHING, SAME, USAGE, complain, say, say_data, width
from pytest_agentreplay.store import files, reading
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def kit(options: argparse.Namespace) -> int:
    """`agentreplay show FILE --kit [--json]`."""
    from pytest_agentreplay.core.kit import kit_of
    from pytest_agentreplay.dialects import READER
    from pytest_agentreplay.report import transcript as told
    from pytest_agentreplay.store.reading import load

    snapshot = load(options.file)
    found = kit_of(snapshot.run, READER, digest=snapshot.digest, sealed=snapshot.sealed)
    if options.json:
        say_data({"file": format_path(options.file), **told.dump_kit(found)})
    else:
        say(f"{format_path(options.file)}\n{told.format_kit(found, width=width())}")
    return SAME if found.grade.replays else CANNOT


def reseal(file: Path, reason: str) -> int:
    """`agentreplay accept FILE --edited --reason WHY`."""
    if not reason:
        return complain("--reason: say why the file was edited; it is kept in the file", USAGE)
    if not reason.isprintable():
        return complain("--reason: say it in one line of plain text; it is kept in the file", USAGE)
    text = reading.data(file)
    if codec.loads(text, file=format_path(file)).sealed:
        return complain(f"{format_path(file)}: is sealed as it stands", NOTHING)
    new = codec.reseal(text, reason, file=format_path(file), at=f"{datetime.now(UTC):%Y-%m-%d}")
    files.write_if_unchanged(file, new, hashlib.sha256(text).hexdigest())
    say(f"{format_path(file)}: sealed again: {reason}")
    remind([file])
    return SAME


def recover(journals: Sequence[Path], policies: Sequence[str]) -> int:
    """`agentreplay accept --recover [--policy FILE] [JOURNAL]`."""
    from pytest_agentreplay.core.redaction.policy import joined
    from pytest_agentreplay.redact import chosen_policy
    from pytest_agentreplay.runs import accept

    root = root_above(Path.cwd())
    policy = joined(chosen_policy.of_words(policies), chosen_policy.of_project(root))
    chosen = journals or (accept.list_refused(root) if policies else [])
    for file in chosen:
        say(accept.recover(file.absolute(), os.environ, policy))
    if chosen:
        return SAME
    lines = accept.list_journals(root)
    for line in lines:
        say(line)
    return SAME if lines else complain(f"no recording was interrupted in {root}", NOTHING)


def rules(options: argparse.Namespace) -> int:
    """`agentreplay audit --rules [--json]`."""
    from pytest_agentreplay.runs.key_audit_run import list_project_rules

    every = list_project_rules(root_above(Path.cwd()))
    if options.json:
        say_data([asdict(rule) for rule in every])
        return SAME
    for rule in every:
        path = f"{rule.path} ~ {rule.pattern}" if rule.pattern else rule.path
        say(f"{rule.action:5}  {rule.scope:16} {rule.part:6} {path}\n       {rule.reason}  ({rule.source})")
    return SAME
