"""The verbs about cases that are there: share one as a file, and say what the cold ones lack."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agentreplay.cli.casework import CASES, kept, summary
from pytest_agentreplay.cli.redacting import chosen_policy
from pytest_agentreplay.cli.saying import DAMAGED, DIVERGED, NOTHING, SAME, USAGE, complain, say, say_data
from pytest_agentreplay.core.paths import quoted
from pytest_agentreplay.errors import CaseError
from pytest_agentreplay.store.display_path import format_path
from pytest_agentreplay.store.projects import root_above

if TYPE_CHECKING:
    import argparse


def bundle(options: argparse.Namespace) -> int:
    """`agentreplay bundle CASE -o FILE`, `agentreplay bundle --open FILE --out DIR`."""
    from pytest_agentreplay.case_files.bundling import open_bundle, packed_case
    from pytest_agentreplay.case_files.case_writer import lay
    from pytest_agentreplay.cases.case import FILE
    from pytest_agentreplay.cases.schema.parse import headline
    from pytest_agentreplay.report.escape import escape_line
    from pytest_agentreplay.store import files

    if options.open is not None:
        if options.out is None or options.case is not None:
            return complain("say where it goes: agentreplay bundle --open FILE --out DIR", USAGE)
        try:
            contents = open_bundle(options.open)
        except CaseError as error:
            return complain(error, DAMAGED)
        laid = lay(options.out, contents, force=options.force)
        kept(format_path(options.out), laid.kept)
        if (known := headline(contents[FILE]).id) != options.out.absolute().name:
            say(
                f"{format_path(options.out)}: its id is {escape_line(known)}, and lint wants the folder to be called so"
            )
        say(
            f"{format_path(options.out)}: {summary(laid.written, laid.same)}\n"
            f"next:\n  pytest {quoted(format_path(options.out))}"
        )
        return SAME
    if options.case is None or options.out is None:
        return complain("say of which case, and where it goes: agentreplay bundle cases/x -o x.zip", USAGE)
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
    return f"edit what was found, or have it redacted in the bundle: agentreplay bundle {case} -o {out} --policy pii"


def cold(options: argparse.Namespace) -> int:
    """`agentreplay cold [PATH...] [--by model|hour|tenant|tool] [--json]`."""
    from pytest_agentreplay.case_files.failures import survey

    places = options.paths or [root_above(Path.cwd()) / CASES]
    if missing := [path for path in options.paths if not os.path.lexists(path)]:
        return complain(f"there is no {format_path(missing[0])}", USAGE)
    found = survey(places, options.by)
    for why in found.unread:
        complain(why, SAME)
    if options.json:
        say_data(found.plain())
    else:
        for line in found.lines():
            say(line)
    return SAME if found.cold else complain(f"no case in {', '.join(map(format_path, places))} is cold", NOTHING)
