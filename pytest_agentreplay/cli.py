"""Door 2: the command line, glue only. `agentreplay VERB ...`, also `python -m pytest_agentreplay`.

Exit codes: 0 same or done, 1 diverged or failed, 2 usage, 4 snapshot damaged or tampered, 5 nothing to do,
125 cannot run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pytest_agentreplay.errors import AgentReplayError, SnapshotError, SnapshotMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.codec import Snapshot
    from pytest_agentreplay.core.divergence import Divergence

SAME, DIVERGED, USAGE, DAMAGED, NOTHING, CANNOT = 0, 1, 2, 4, 5, 125
PYTEST_CODES = {0: SAME, 1: DIVERGED, 2: DIVERGED, 3: DIVERGED, 4: USAGE, 5: NOTHING}

VERBS = """everyday
  demo      show the main job on an embedded model: record, replay offline, first divergent turn
  show      print a snapshot as a readable transcript
  diff      every place where two snapshots part
  bisect    the first divergent turn between two snapshots
  replay    run the test that a snapshot belongs to, offline
  accept    take a pending run, changed requests, or one rule for all snapshots

files
  verify    check that snapshots are whole, sealed, and restore to their exact bytes
  reseal    seal a snapshot that was edited on purpose, with the reason
  recover   list the journals of interrupted recordings, or make a pending run of one
  rules     the fields that are not compared, and why
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; gives the exit code."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except SnapshotMissing as error:
        return complain(error, USAGE)
    except SnapshotError as error:
        return complain(error, DAMAGED)
    except AgentReplayError as error:
        return complain(error, CANNOT if options.verb in {"demo", "replay"} else USAGE)
    except BrokenPipeError:  # the reader of `agentreplay show | head` has left
        sys.stderr.close()
        return SAME


def script() -> NoReturn:
    """The console script."""
    sys.exit(main())


def build_parser() -> argparse.ArgumentParser:
    """The verbs and their arguments."""
    parser = argparse.ArgumentParser(
        prog="agentreplay",
        description="Frozen agent runs: look at snapshots, compare them, replay and accept them.",
        epilog=VERBS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", help="one of the verbs below")

    def verb(name: str, run: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, description=about)
        added.set_defaults(run=run)
        return added

    demo = verb("demo", do_demo, "Record, replay offline and diverge, on an embedded loopback model, without a key.")
    demo.add_argument("--dir", type=Path, default=Path("agentreplay-demo"), help="folder for the demo's files")
    show = verb("show", do_show, "Print a snapshot as a readable transcript.")
    show.add_argument("file", type=Path)
    show.add_argument("--turn", type=int, help="only this turn")
    diff = verb("diff", do_diff, "Print every place where two snapshots part.")
    bisect = verb("bisect", do_bisect, "Print the first divergent turn between two snapshots.")
    for two, first, second in ((diff, "a", "b"), (bisect, "baseline", "failing")):
        two.add_argument(first, type=Path)
        two.add_argument(second, type=Path)
        two.add_argument("--json", action="store_true", help="print plain data")
    replay = verb("replay", do_replay, "Run the test that a snapshot belongs to, offline.")
    replay.add_argument("file", type=Path)
    replay.add_argument("words", nargs=argparse.REMAINDER, metavar="PYTEST-ARGUMENTS", help="handed to pytest")
    accept = verb("accept", do_accept, "Take what a test does now, or one rule for all snapshots.")
    accept.add_argument("what", nargs="?", type=Path, help="a snapshot, or a pending run")
    accept.add_argument("--requests", action="store_true", help="take changed requests under the recorded replies")
    accept.add_argument("--rule", metavar="PATH=REASON", help="leave a body field out of the comparison, everywhere")
    accept.add_argument("--reason", default="", help="why every recorded reply still holds (with --requests)")
    verify = verb("verify", do_verify, "Check that snapshots are whole, sealed, and restore to their exact bytes.")
    verify.add_argument("paths", nargs="+", type=Path)
    reseal = verb("reseal", do_reseal, "Seal a snapshot that was edited on purpose.")
    reseal.add_argument("file", type=Path)
    reseal.add_argument("--reason", required=True)
    recover = verb("recover", do_recover, "List the journals of interrupted recordings, or recover one.")
    recover.add_argument("journal", nargs="?", type=Path)
    rules = verb("rules", do_rules, "Print the fields that are not compared, and why.")
    rules.add_argument("--json", action="store_true", help="print plain data")
    return parser


def complain(error: Exception, code: int) -> int:
    """Say an error in a line on stderr; gives `code`."""
    from pytest_agentreplay.report.escape import safe

    print(f"agentreplay: {safe(str(error))}", file=sys.stderr)
    return code


def say(text: str) -> None:
    """Print what may hold recorded text."""
    from pytest_agentreplay.report.escape import safe

    print(safe(text))


def width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def read(file: Path) -> Snapshot:
    """The snapshot in `file`. Raises SnapshotError."""
    from pytest_agentreplay import codec
    from pytest_agentreplay.store import files

    return codec.loads(files.read(file), file=str(file))


def do_demo(options: argparse.Namespace) -> int:
    """`agentreplay demo`."""
    from pytest_agentreplay.demo.walk import walk

    fine = walk(options.dir.resolve(), lambda line: print(line, flush=True), width=max(60, width() - 5))
    return SAME if fine else DIVERGED


def do_show(options: argparse.Namespace) -> int:
    """`agentreplay show FILE`."""
    from pytest_agentreplay.dialects import READER
    from pytest_agentreplay.report.transcript import show

    snapshot = read(options.file)
    say(show(snapshot.run, READER, turn=options.turn, width=width()))
    for note in snapshot.notes:
        say(f"note: {note}")
    if not snapshot.sealed:
        say("note: this snapshot was edited after it was sealed (agentreplay verify says where)")
    return SAME


def parted(first: Path, second: Path) -> tuple[Divergence, ...]:
    """Every divergence between two snapshots."""
    from pytest_agentreplay.core.align import divergences
    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.dialects import READER, RULES
    from pytest_agentreplay.workflow.accept import accepted_rules

    matching = Matching(READER, (*RULES, *accepted_rules(Path.cwd())))
    return divergences(read(first).run, read(second).run, READER, matching=matching)


def do_diff(options: argparse.Namespace) -> int:
    """`agentreplay diff A B`."""
    return tell(parted(options.a, options.b), options.a, options.b, as_json=options.json)


def do_bisect(options: argparse.Namespace) -> int:
    """`agentreplay bisect BASELINE FAILING`."""
    found = parted(options.baseline, options.failing)[:1]
    return tell(found, options.baseline, options.failing, as_json=options.json)


def tell(found: tuple[Divergence, ...], first: Path, second: Path, *, as_json: bool) -> int:
    """Print divergences for people or as data; gives the exit code."""
    from pytest_agentreplay.report import findings
    from pytest_agentreplay.report.terminal import text

    told = [findings.compared(divergence, str(first), str(second)) for divergence in found]
    if as_json:
        print(json.dumps({"same": not told, "divergences": [finding.plain() for finding in told]}, indent=2))
    elif not told:
        say(f"same: {first.name} and {second.name} hold the same run")
    for finding in () if as_json else told:
        say(text(finding, width=width()) + "\n")
    return DIVERGED if told else SAME


def do_replay(options: argparse.Namespace) -> int:
    """`agentreplay replay FILE`."""
    return run_pytest(read(options.file).run.header.test, "--replay=model", *options.words)


def run_pytest(*words: str) -> int:
    """Run pytest as a child with `words`; gives our exit code for its own."""
    done = subprocess.run([sys.executable, "-m", "pytest", *words], check=False)  # noqa: S603  the user's own words
    return PYTEST_CODES.get(done.returncode, CANNOT)


def do_accept(options: argparse.Namespace) -> int:
    """`agentreplay accept ...`."""
    from pytest_agentreplay.store.shown import shown
    from pytest_agentreplay.workflow import accept

    if options.rule is not None:
        path, _, reason = options.rule.partition("=")
        say(accept.rule(Path.cwd(), path.strip(), reason.strip()))
        return SAME
    if options.what is None:
        pending = accept.pending(Path.cwd())
        for file in pending:
            say(f"agentreplay accept {shown(file)}")
        return SAME if pending else complain(AgentReplayError("no run is pending here"), NOTHING)
    if options.requests:
        return run_pytest(
            "-q", read(options.what).run.header.test, f"--agentreplay-adopt={options.reason or 'accepted'}"
        )
    say(accept.take(Path.cwd(), options.what))
    return SAME


def do_verify(options: argparse.Namespace) -> int:
    """`agentreplay verify PATH...`: files, or folders that hold them."""
    targets = [
        file for path in options.paths for file in (sorted(path.rglob("*.snapshot.json")) if path.is_dir() else [path])
    ]
    if not targets:
        return complain(
            AgentReplayError("there is no *.snapshot.json below " + ", ".join(map(str, options.paths))), NOTHING
        )
    worst = SAME
    for file in targets:
        try:
            edited = check(file)
        except SnapshotError as error:
            worst = complain(error, DAMAGED)
            continue
        if edited:
            worst = complain(AgentReplayError(f"{file}: edited after it was sealed: {', '.join(edited)}"), DAMAGED)
        else:
            say(f"{file}: whole and sealed")
    return worst


def check(file: Path) -> list[str]:
    """Restore every body of a snapshot; gives what was edited after it was sealed. Raises SnapshotError."""
    from pytest_agentreplay import codec
    from pytest_agentreplay.core.model import HttpCall, HttpReply
    from pytest_agentreplay.store import files

    data = files.read(file)
    snapshot = codec.loads(data, file=str(file))
    for x in snapshot.run.exchanges:
        for side in (x.call, x.outcome):
            if isinstance(side, HttpCall | HttpReply):
                side.body.data  # noqa: B018  restoring it is the check
    return [] if snapshot.sealed else codec.edited(data, file=str(file)) or ["header"]


def do_reseal(options: argparse.Namespace) -> int:
    """`agentreplay reseal FILE --reason WHY`."""
    from pytest_agentreplay import codec
    from pytest_agentreplay.store import files

    text = files.read(options.file)
    files.write_whole(options.file, codec.reseal(text, options.reason, file=str(options.file)))
    say(f"{options.file}: sealed again: {options.reason}")
    return SAME


def do_recover(options: argparse.Namespace) -> int:
    """`agentreplay recover [JOURNAL]`."""
    from pytest_agentreplay.workflow import accept

    if options.journal is None:
        lines = accept.journals(Path.cwd())
        for line in lines:
            say(line)
        return SAME if lines else complain(AgentReplayError("no recording was interrupted here"), NOTHING)
    say(accept.recover(Path.cwd(), options.journal, os.environ))
    return SAME


def do_rules(options: argparse.Namespace) -> int:
    """`agentreplay rules`."""
    from dataclasses import asdict

    from pytest_agentreplay.dialects.rules import RULES
    from pytest_agentreplay.workflow.accept import accepted_rules

    rules = (*RULES, *accepted_rules(Path.cwd()))
    if options.json:
        print(json.dumps([asdict(rule) for rule in rules], indent=2))
        return SAME
    for rule in rules:
        say(f"{rule.action:5}  {rule.scope:16} {rule.part:6} {rule.path}\n       {rule.reason}  ({rule.source})")
    return SAME
