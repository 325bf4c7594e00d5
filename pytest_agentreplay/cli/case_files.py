"""The verbs `case lint`: what is wrong with cases or a policy; `case export`: one for another tool, or as one file."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cases.schema.model import schema
from pytest_agentreplay.cli.redacting import check_policy, chosen_policy
from pytest_agentreplay.cli.verbs import Exit, Options, Verbs, complain, find_root, say, say_data, say_result
from pytest_agentreplay.model.paths import quote_word
from pytest_agentreplay.report.escape import escape_line
from pytest_agentreplay.runs.case_files import export as exporting
from pytest_agentreplay.runs.case_files.bundling import packed_case
from pytest_agentreplay.runs.case_files.case_linting import Linted, cases_in, lint_case
from pytest_agentreplay.runs.key_audit_run import list_project_rules
from pytest_agentreplay.runs.live.tolerance_file import project_tolerances
from pytest_agentreplay.snapshots.kit import plural
from pytest_agentreplay.snapshots.store import files, format_path
from pytest_agentreplay.traces.exporting import TARGETS

if TYPE_CHECKING:
    from collections.abc import Iterator


def add_verbs(verbs: Verbs) -> None:
    """Declare `case lint` and `case export`."""
    lint_verb = verbs.add("case lint", lint, json=True, policy=True)
    what = "cases, or folders of them (default: cases); or a policy file, and snapshots to look at (default: all)"
    lint_verb.paths(what)
    lint_verb.flag("--schema", "print the JSON Schema of case.yaml, for editors")
    lint_verb.value("--baseline", "FILE", "fail where the policy is weaker than this one", type=Path)
    export_verb = verbs.add("case export", export, policy=True)
    export_verb.value("case", "CASE", "a case's folder, or its case.yaml", type=Path)
    export_verb.add_argument("--to", required=True, choices=[*TARGETS, "bundle"], help="the tool, or one file to share")
    export_verb.add_argument("-o", "--out", type=Path, metavar="FILE", help="the file, or a folder (default: this one)")
    export_verb.flag("--force", "write over a file that holds something else")


def is_policy(path: Path) -> bool:
    """Return whether a path is meant as a policy file: no folder, and no case."""
    return path.name != "case.yaml" and os.path.lexists(path) and (path.is_symlink() or not path.is_dir())


def lint(options: Options) -> int:
    """`agentreplay case lint [CASE...] [--policy P] [--json] [--schema]`, `... lint POLICY [--baseline FILE]`."""
    if options.schema:
        say_data(schema())
        return Exit.SAME
    cases = [path for path in options.paths if path.name == "case.yaml"]
    policies = [path for path in options.paths if is_policy(path)]
    if cases and policies and len(options.paths) == len(cases) + len(policies):  # as pre-commit hands files over
        parts = [cases, *([policy] for policy in policies)]
        return max(lint(argparse.Namespace(**{**vars(options), "paths": part})) for part in parts)
    if options.baseline is not None or (options.paths and is_policy(options.paths[0])):
        if options.json or not options.paths:
            return complain("a policy is checked alone: agentreplay case lint POLICY [--baseline FILE]")
        return check_policy(options.paths[0], options.baseline, options.paths[1:])
    root = find_root()
    tolerances = project_tolerances(root)
    list_project_rules(root)  # raises for one without a reason
    paths = options.paths or [root / "cases"]
    chosen, _ = chosen_policy(options.policy)
    every = [lint_case(folder, chosen, os.environ) for folder in dict.fromkeys(cases_in(paths))]
    if not every and tolerances:
        say(f"no case, {len(tolerances)} tolerance{'s' * (len(tolerances) != 1)}: 0 errors")
        return Exit.SAME
    if not every:
        return complain(f"there is no case.yaml below {', '.join(map(format_path, paths))}", Exit.NOTHING)
    data = [{"case": format_path(case.folder), "complaints": [*map(asdict, case.complaints)]} for case in every]
    say_result(options, {"cases": data}, format_complaints(every))
    if any(case.damaged for case in every):
        return Exit.DAMAGED
    return Exit.DIVERGED if any(case.fails for case in every) else Exit.SAME


def format_complaints(every: list[Linted]) -> Iterator[str]:
    """Yield each complaint on a line, and how many there are."""
    yield from (str(complaint).replace("\n", " ") for case in every for complaint in case.complaints)
    levels = [complaint.level for case in every for complaint in case.complaints]
    counts = (plural(levels.count(level), level) for level in ("error", "warning"))
    yield f"{plural(len(every), 'case')}: {', '.join(counts)}"


def export(options: Options) -> int:
    """`agentreplay case export CASE --to TARGET [-o FILE] [--force]`."""
    if options.to == "bundle":
        return pack_bundle(options)
    if options.policy:
        return complain("--policy redacts the copies in a bundle: add --to bundle")
    out = exporting.export_case(options.case, options.to)
    where = options.out if options.out is not None else Path()
    written = exporting.write(exporting.place(out, where), force=options.force)
    for file, changed in written:
        say(escape_line(f"{format_path(file)}: {'written' if changed else 'unchanged'}"))
    for loss in out.losses:
        say(escape_line(f"    lost: {loss}"))
    return Exit.SAME


def pack_bundle(options: Options) -> int:
    """`agentreplay case export CASE --to bundle -o FILE [--policy WHAT]`."""
    if options.out is None:
        return complain("say where the bundle goes: agentreplay case export CASE --to bundle -o case.zip")
    policy, _ = chosen_policy(options.policy)
    made = packed_case(options.case, policy, os.environ, redact=bool(options.policy))
    for place in made.findings:
        complain(place, Exit.DIVERGED)
    if made.findings:
        return complain(f"{format_path(options.case)}: not packed; {remedy(options)}", Exit.DIVERGED)
    files.write_whole(options.out, made.data)
    for place in made.redacted:
        say(f"{place}, redacted in the bundle")
    for name in made.left:
        say(f"{format_path(options.case)}/{name}: is no file of a case, and stays out")
    say(f"{format_path(options.out)}: {len(made.names)} files, {len(made.data):,} bytes, sha256 {made.digest[:16]}")
    return Exit.SAME


def remedy(options: Options) -> str:
    """Return what to do about findings that keep a case from being packed."""
    case, out = quote_word(format_path(options.case)), quote_word(format_path(options.out))
    if options.policy:
        return "edit what the policy did not reach, or have a policy file name it"
    return f"edit what was found, or have it redacted: agentreplay case export {case} --to bundle -o {out} --policy pii"
