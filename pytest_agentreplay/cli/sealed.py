"""The verbs about files: what they hold, whether they are whole, sealing edits, recovering journals, listing rules."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.cli.saying import CANNOT, DAMAGED, NOTHING, SAME, USAGE, complain, say, width
from pytest_agentreplay.core.model import FrameCall, FramesReply, HttpCall, HttpReply
from pytest_agentreplay.errors import SnapshotError, SnapshotMissing
from pytest_agentreplay.store import files, layout
from pytest_agentreplay.store.projects import root_above
from pytest_agentreplay.store.shown import shown

if TYPE_CHECKING:
    import argparse


def verify(options: argparse.Namespace) -> int:
    """`agentreplay verify PATH...`: files, or folders that hold them."""
    targets = [
        file for path in options.paths for file in (files.below(path, layout.SUFFIX) if path.is_dir() else [path])
    ]
    if not targets:
        return complain(f"there is no *.snapshot.json below {', '.join(map(shown, options.paths))}", NOTHING)
    worst = SAME
    for file in targets:
        try:
            edited = check(file)
        except SnapshotError as error:
            worst = max(worst, complain(error, USAGE if isinstance(error, SnapshotMissing) else DAMAGED))
            continue
        if edited:
            worst = complain(f"{shown(file)}: edited after it was sealed: {', '.join(edited)}", DAMAGED)
        else:
            say(f"{shown(file)}: whole and sealed")
    return worst


def check(file: Path) -> list[str]:
    """Restore every body of a snapshot; gives what was edited after it was sealed. Raises SnapshotError."""
    data = files.read(file)
    snapshot = codec.loads(data, file=shown(file))
    for x in snapshot.run.exchanges:
        for side in (x.call, x.outcome):
            if isinstance(side, HttpCall | HttpReply | FrameCall | FramesReply):
                side.body.data  # noqa: B018  restoring it is the check
    return [] if snapshot.sealed else codec.edited(data, file=shown(file)) or ["header"]


def kit(options: argparse.Namespace) -> int:
    """`agentreplay kit FILE`."""
    from pytest_agentreplay.core.kit import kit_of
    from pytest_agentreplay.dialects import READER
    from pytest_agentreplay.report import kit as told
    from pytest_agentreplay.store.reading import load

    snapshot = load(options.file)
    found = kit_of(snapshot.run, READER, digest=snapshot.digest, sealed=snapshot.sealed)
    if options.json:
        print(json.dumps({"file": shown(options.file), **told.plain(found)}, indent=2))
    else:
        say(f"{shown(options.file)}\n{told.text(found, width=width())}")
    return SAME if found.grade.replays else CANNOT


def reseal(options: argparse.Namespace) -> int:
    """`agentreplay reseal FILE --reason WHY`."""
    file, reason = options.file, options.reason.strip()
    if not reason:
        return complain("--reason: say why the file was edited; it is kept in the file", USAGE)
    text = files.read(file)
    if codec.loads(text, file=shown(file)).sealed:
        return complain(f"{shown(file)}: is sealed as it stands", NOTHING)
    files.write_whole(file, codec.reseal(text, reason, file=shown(file)))
    say(f"{shown(file)}: sealed again: {reason}")
    return SAME


def recover(options: argparse.Namespace) -> int:
    """`agentreplay recover [--policy FILE] [JOURNAL]`."""
    from pytest_agentreplay.core.redaction.policy import joined
    from pytest_agentreplay.workflow import accept, policies, recovering

    root = root_above(Path.cwd())
    policy = joined(policies.of_words(options.policy or ()), policies.of_project(root))
    chosen = [options.journal] if options.journal is not None else accept.refused(root) if options.policy else []
    for file in chosen:
        say(recovering.recover(file.absolute(), os.environ, policy))
    if chosen:
        return SAME
    lines = accept.journals(root)
    for line in lines:
        say(line)
    return SAME if lines else complain(f"no recording was interrupted in {root}", NOTHING)


def rules(options: argparse.Namespace) -> int:
    """`agentreplay rules`."""
    from pytest_agentreplay.dialects.rules import RULES
    from pytest_agentreplay.workflow.accept import accepted_rules

    every = (*RULES, *accepted_rules(root_above(Path.cwd())))
    if options.json:
        print(json.dumps([asdict(rule) for rule in every], indent=2))
        return SAME
    for rule in every:
        say(f"{rule.action:5}  {rule.scope:16} {rule.part:6} {rule.path}\n       {rule.reason}  ({rule.source})")
    return SAME
