"""A pytest of its own, with another hash seed, that replays the tests that a session has just recorded.

What moves with the process (`hash()`, the order of a set, `os.getpid()`) is the same in the process that recorded, so a
replay there cannot show it. The results come back in files, line by line, so that a process that dies loses one test.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.runs import command as child
from pytest_agentreplay.store import files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from pytest_agentreplay.runs.command import CommandResult

    Row = dict[str, Any]

FLAG = "--agentreplay-proof"
"""The option of ours that names the plan; the process that has it replays the plan's tests and nothing else."""

MEASURED = ("COV_CORE_", "COVERAGE_PROCESS_")
"""Variables by which pytest-cov and coverage measure child processes too."""


@dataclass
class ProofResults:
    """What the processes have written, by test; `missing` says why the others were not replayed."""

    by_test: dict[str, Row] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def replay(
    tests: Sequence[Row], plan: Row, words: Sequence[str], *, environ: Mapping[str, str], folder: Path
) -> ProofResults:
    """Replay `tests` in a process of their own, in a further one those that came after a test that ended the first.

    Each row of `tests` has the keys "test", "outcome" and "broken" (see `recordings.replay`). `words` are the command
    line of pytest up to `FLAG`.
    """
    results, left = ProofResults(), list(tests)
    while left:
        with tempfile.TemporaryDirectory(prefix="agentreplay-", ignore_cleanup_errors=True) as made:
            rows, ended = one_process(left, plan, words, environ=environ, folder=folder, made=Path(made))
        results.missing |= {row["missing"]: row["why"] for row in rows if "missing" in row}
        results.by_test |= {row["test"]: row for row in rows if "proof" in row}
        done = {*results.by_test, *results.missing}
        running = next((row["started"] for row in reversed(rows) if "started" in row), None)
        if running is not None and running not in done:
            why = f"the process ended in this test ({status(ended)})"
            results.by_test[running] = {"proof": {"replays": False, "why": why}, "parted": ""}
            done.add(running)
        rest = [row for row in left if row["test"] not in done]
        if len(rest) == len(left) or running is None:
            results.missing |= {row["test"]: f"no process replayed it ({status(ended)})" for row in rest}
            break
        left = rest
    return results


def one_process(
    tests: Sequence[Row], plan: Row, words: Sequence[str], *, environ: Mapping[str, str], folder: Path, made: Path
) -> tuple[list[Row], CommandResult]:
    """Run pytest once; return the rows that it has written, and how it ended."""
    file, into = made / "plan.json", made / "results.jsonl"
    files.write_whole(file, json.dumps({**plan, "tests": list(tests), "into": str(into)}))
    command = [*interpreter(folder), "-m", "pytest", *words, *neutral(plan, made), f"{FLAG}={file}", *plan["rest"]]
    with undebugged():
        try:
            ended = child.run(command, environ=environment(environ), folder=folder, stdin=b"", limit=0)
        except RunnerError as error:
            ended = child.CommandResult(None, b"", str(error).partition(": ")[2].encode(), 0)
    rows = [json.loads(line) for line in files.read(into).splitlines()] if into.is_file() else []
    return rows, ended


def neutral(plan: Row, made: Path) -> list[str]:
    """Return the words that must be known before options are read, and those that are set in ini files."""
    settings = {"cacheprovider": ("cache_dir", made / "cache"), "logging-plugin": ("log_file", "")}
    ini = [word for name in plan["has"] if name in settings for word in ("-o", "{}={}".format(*settings[name]))]
    return [*plan["flags"], *ini]


def interpreter(folder: Path) -> list[str]:
    """Return Python's command line, with the flags of this process."""
    # Private, and as old as multiprocessing, which starts its children with it.
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    here = {"", str(folder)}.isdisjoint(sys.path)  # `pytest` leaves the current directory out of the path
    return [sys.executable, *flags, *(["-P"] if here and "-P" not in flags and "-I" not in flags else [])]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the process: another hash seed, and nobody who measures or debugs it."""
    kept = {name: value for name, value in environ.items() if not name.startswith(MEASURED)}
    # Zero is no seed but the absence of one. An unset variable is a random seed, which is 1 in one of 2 ** 32 cases.
    return kept | {"PYTHONHASHSEED": "2" if kept.get("PYTHONHASHSEED") == "1" else "1"}


def undebugged() -> AbstractContextManager[object]:
    """Return a block in which a debugger of an IDE does not follow into child processes.

    pydevd (debugpy, PyCharm) rewrites the command lines of all Python children, unless it is asked not to.
    """
    monkey = sys.modules.get("_pydev_bundle.pydev_monkey")
    skip = getattr(monkey, "skip_subprocess_arg_patch", None)
    return nullcontext() if skip is None else skip()


def status(ended: CommandResult) -> str:
    """Return how a process ended, with the last line that it wrote as an error."""
    lines = [line.strip() for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    code = "it cannot be started" if ended.code is None else f"exit status {ended.code}"
    return f"{code}: {lines[-1]}" if lines else code
