"""`agentreplay export`: a case in the form of another tool, or as one file to share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.redacting import chosen_policy
from pytest_agentreplay.cli.saying import DIVERGED, SAME, USAGE, complain, say
from pytest_agentreplay.model.paths import quoted
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.runs.case_files import export as exporting
from pytest_agentreplay.snapshots.store import files
from pytest_agentreplay.snapshots.store.display_path import format_path
from pytest_agentreplay.traces.exporting import TARGETS

if TYPE_CHECKING:
    import argparse

    from pytest_agentreplay.cli.verb_table import Verbs


def add_verbs(verbs: Verbs) -> None:
    """Declare `export`."""
    about = "write a case for another tool: pytest, promptfoo, OpenAI Evals, OTLP; or as one file to share"
    export_verb = verbs.add("export", export, about, policy=True)
    export_verb.value("case", "CASE", "a case's folder, or its case.yaml", type=Path)
    export_verb.add_argument("--to", required=True, choices=[*TARGETS, "bundle"], help="the tool, or one file to share")
    export_verb.add_argument("-o", "--out", type=Path, metavar="FILE", help="the file, or a folder (default: this one)")
    export_verb.flag("--force", "write over a file that holds something else")


def export(options: argparse.Namespace) -> int:
    """`agentreplay export CASE --to TARGET [-o FILE] [--force]`."""
    if options.to == "bundle":
        return pack_bundle(options)
    if options.policy:
        return complain("--policy redacts the copies in a bundle: add --to bundle", USAGE)
    out = exporting.exported(options.case, options.to)
    where = options.out if options.out is not None else Path()
    written = exporting.write(exporting.place(out, where), force=options.force)
    for file, changed in written:
        say(escape_line(f"{format_path(file)}: {'written' if changed else 'unchanged'}"))
    for loss in out.losses:
        say(escape_line(f"    lost: {loss}"))
    return SAME


def pack_bundle(options: argparse.Namespace) -> int:
    """`agentreplay export CASE --to bundle -o FILE [--policy WHAT]`."""
    from pytest_agentreplay.runs.case_files.bundling import packed_case

    if options.out is None:
        return complain("say where the bundle goes: agentreplay export CASE --to bundle -o case.zip", USAGE)
    policy, _ = chosen_policy(options.policy)
    made = packed_case(options.case, policy, os.environ, redact=bool(options.policy))
    for place in made.found:
        complain(place, DIVERGED)
    if made.found:
        return complain(f"{format_path(options.case)}: not packed; {remedy(options)}", DIVERGED)
    files.write_whole(options.out, made.data)
    for place in made.redacted:
        say(f"{place}, redacted in the bundle")
    for name in made.left:
        say(f"{format_path(options.case)}/{name}: is no file of a case, and stays out")
    say(f"{format_path(options.out)}: {len(made.names)} files, {len(made.data):,} bytes, sha256 {made.digest[:16]}")
    return SAME


def remedy(options: argparse.Namespace) -> str:
    """What to do about findings that keep a case from being packed."""
    case, out = quoted(format_path(options.case)), quoted(format_path(options.out))
    if options.policy:
        return "edit what the policy did not reach, or have a policy file name it"
    return f"edit what was found, or have it redacted: agentreplay export {case} --to bundle -o {out} --policy pii"
