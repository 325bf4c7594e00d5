"""Commands that are run to their end or time limit: those of a user, and the pytest that proves new recordings.

What moves with the process (`hash()`, the order of a set, `os.getpid()`) is the same in the process that recorded, so a
replay there cannot show it. The proof is therefore a pytest of its own, with another hash seed. Its results come back
in a file, line by line, so that a process that dies loses one test.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pytest_agentreplay import clocks
from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = dict[str, Any]


# Bytes of each output that are kept, its beginning; the rest is read, so that the command goes on, and counted.
OUTPUT_LIMIT = 4 << 20
# Seconds that the outputs of a command that has ended may stay open, held by its children.
PATIENCE = 2.0


# The option of ours that names the plan; the process that has it replays the plan's tests and nothing else.
FLAG = "--agentreplay-proof"

# Variables by which pytest-cov and coverage measure child processes too.
MEASURED = ("COV_CORE_", "COVERAGE_PROCESS_")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended: its exit code, None for one that ran out of time, and what it said."""

    code: int | None
    stdout: bytes
    stderr: bytes
    seconds: float


def split_command(command: str) -> list[str]:
    """Return the words of a command line in the form of this system. Raises RunnerError for what cannot be split."""
    try:
        words = split_windows_command(command) if os.name == "nt" else shlex.split(command)
    except ValueError as wrong:
        raise RunnerError(f"--runner-cmd: {command!r} cannot be split into words: {wrong}") from None
    if not words:
        raise RunnerError('--runner-cmd: is empty; write it like "python agent.py"')
    return words


def split_windows_command(command: str) -> list[str]:
    r"""Return words as cmd has them: double quotes join one, a backslash is part of a path."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.escape, lexer.quotes, lexer.commenters = True, "", '"', ""
    return list(lexer)


def run_command(
    command: Sequence[str], *, environ: Mapping[str, str], folder: Path, stdin: bytes, limit: float
) -> CommandResult:
    """Run `command` in `folder`, with `stdin` on its standard input. It and its children are dead afterwards.

    `limit` are the seconds that it may take, 0 for as many as it takes.

    Raises RunnerError where it cannot be started.
    """
    began = clocks.monotonic()
    group = {"creationflags": 0x200} if os.name == "nt" else {"start_new_session": True}  # CREATE_NEW_PROCESS_GROUP
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        child = subprocess.Popen(command, env=dict(environ), cwd=folder, **pipes, **group)  # type: ignore[call-overload]  # noqa: S603  the user's own words
    except (OSError, ValueError) as wrong:
        raise RunnerError(f"--runner-cmd: cannot run {command[0]}: {wrong}") from None
    outputs = [Output(child.stdout), Output(child.stderr)]
    # In a thread: a command that reads nothing blocks whoever writes more than a pipe holds.
    threading.Thread(target=write_input, args=(child.stdin, stdin), daemon=True).start()
    try:
        code: int | None = child.wait(limit or None)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        end = clocks.monotonic()
        # Its children may hold the outputs open: after a moment they are killed with it, which closes them.
        if child.poll() is not None:
            for output in outputs:
                output.join(max(0.0, end + PATIENCE - clocks.monotonic()))
        kill_group(child)
    for output in outputs:
        output.join(PATIENCE)
    return CommandResult(code, outputs[0].kept_text(), outputs[1].kept_text(), end - began)


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a command and whatever it has started."""
    if sys.platform == "win32":
        if child.poll() is None:
            command = ["taskkill", "/F", "/T", "/PID", str(child.pid)]
            subprocess.run(command, capture_output=True, check=False)  # noqa: S603  words of our own
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(OSError):
        child.kill()
    with suppress(subprocess.TimeoutExpired):
        child.wait(PATIENCE)


def write_input(pipe: IO[bytes], stdin: bytes) -> None:
    """Write the input; a command that does not read it has no need of it."""
    with suppress(OSError, ValueError), pipe:
        pipe.write(stdin)


class Output:
    """One output of a command, read as it comes: the beginning is kept, and the size of the rest."""

    def __init__(self, pipe: IO[bytes]) -> None:
        """Begin to read."""
        self._pipe = pipe
        self._kept = bytearray()
        self._size = 0
        self._thread = threading.Thread(target=self._read_pipe, daemon=True)
        self._thread.start()

    def _read_pipe(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                self._size += len(part)
                self._kept += part[: OUTPUT_LIMIT - len(self._kept)]

    def join(self, seconds: float) -> None:
        """Wait for its end."""
        self._thread.join(seconds)

    def kept_text(self) -> bytes:
        """Return what is kept, and how much is not."""
        left = self._size - len(self._kept)
        return bytes(self._kept) + (f"\n[{left:,} more bytes are left out]\n".encode() if left else b"")


@dataclass
class ProofResults:
    """What the processes have written, by test; `missing` says why the others were not replayed.

    `reads` are the lines that read the shifted clock (`shifted_clock.ShiftedClock.reads`), of processes with failures.
    """

    by_test: dict[str, Row] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    reads: dict[str, str] = field(default_factory=dict)


def prove_recordings(
    tests: Sequence[Row], plan: Row, words: Sequence[str], *, environ: Mapping[str, str], folder: Path
) -> ProofResults:
    """Replay `tests` in a process of their own, in a further one those that came after a test that ended the first.

    Each row of `tests` has the keys "test", "outcome" and "broken" (see `proofs.replay_recording`). `words` are the
    command line of pytest up to `FLAG`. A plan may name the condition of the proof that is taken back ("without", see
    `proof_conditions`), or the only lines for which the clock is shifted ("lines").
    """
    results, left = ProofResults(), list(tests)
    while left:
        with tempfile.TemporaryDirectory(prefix="agentreplay-", ignore_cleanup_errors=True) as made:
            rows, ended = run_pytest(left, plan, words, environ=environ, folder=folder, made=Path(made))
        results.missing |= {row["missing"]: row["why"] for row in rows if "missing" in row}
        results.by_test |= {row["test"]: row for row in rows if "proof" in row}
        results.reads |= {line: what for row in rows for line, what in row.get("reads", {}).items()}
        done = {*results.by_test, *results.missing}
        running = next((row["started"] for row in reversed(rows) if "started" in row), None)
        if running is not None and running not in done:
            why = f"the process ended in this test ({describe_exit(ended)})"
            results.by_test[running] = {"proof": {"replays": False, "why": why}, "parted": ""}
            done.add(running)
        # Another process goes on with the tests after the one that ended the first; each time one less is left.
        rest = [row for row in left if row["test"] not in done]
        if len(rest) == len(left) or running is None:
            results.missing |= {row["test"]: f"no process replayed it ({describe_exit(ended)})" for row in rest}
            break
        left = rest
    return results


def run_pytest(
    tests: Sequence[Row], plan: Row, words: Sequence[str], *, environ: Mapping[str, str], folder: Path, made: Path
) -> tuple[list[Row], CommandResult]:
    """Run pytest once; return the rows that it has written, and how it ended."""
    file, into = made / "plan.json", made / "results.jsonl"
    files.write_whole(file, json.dumps({**plan, "tests": list(tests), "into": str(into)}))
    options = [*words, *list_neutral_options(plan, made), f"{FLAG}={file}", *plan["rest"]]
    command = [*make_interpreter_command(folder), "-m", "pytest", *options]
    with drop_debugger():
        try:
            ended = run_command(command, environ=make_proof_environment(environ), folder=folder, stdin=b"", limit=0)
        except RunnerError as error:
            ended = CommandResult(None, b"", str(error).partition(": ")[2].encode(), 0)
    rows = [json.loads(line) for line in files.read_file(into).splitlines()] if into.is_file() else []
    return rows, ended


def list_neutral_options(plan: Row, made: Path) -> list[str]:
    """Return the words that must be known before options are read, and those that are set in ini files."""
    settings = {"cacheprovider": ("cache_dir", made / "cache"), "logging-plugin": ("log_file", "")}
    ini = [word for name in plan["has"] if name in settings for word in ("-o", "{}={}".format(*settings[name]))]
    return [*plan["flags"], *ini]


def make_interpreter_command(folder: Path) -> list[str]:
    """Return Python's command line, with the flags of this process."""
    # Private, and as old as multiprocessing, which starts its children with it:
    # https://github.com/python/cpython/blob/3.13/Lib/multiprocessing/util.py
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    here = {"", str(folder)}.isdisjoint(sys.path)  # `pytest` leaves the current directory out of the path
    return [sys.executable, *flags, *(["-P"] if here and "-P" not in flags and "-I" not in flags else [])]


def make_proof_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the process: another hash seed, and nobody who measures or debugs it."""
    kept = {name: value for name, value in environ.items() if not name.startswith(MEASURED)}
    # Zero is no seed but the absence of one: whoever sets it has sets in one order, here and in each replay.
    # An unset variable is a random seed, which is 1 in one of 2 ** 32 cases.
    return kept | {"PYTHONHASHSEED": {"0": "0", "1": "2"}.get(kept.get("PYTHONHASHSEED", ""), "1")}


def drop_debugger() -> AbstractContextManager[object]:
    """Return a block in which a debugger of an IDE does not follow into child processes.

    pydevd (debugpy, PyCharm) rewrites the command lines of all Python children, unless it is asked not to.
    """
    # Private, of debugpy 1.8: https://github.com/fabioz/PyDev.Debugger/blob/main/_pydev_bundle/pydev_monkey.py
    monkey = sys.modules.get("_pydev_bundle.pydev_monkey")
    skip = getattr(monkey, "skip_subprocess_arg_patch", None)
    return nullcontext() if skip is None else skip()


def describe_exit(ended: CommandResult) -> str:
    """Return how a process ended, with the last line that it wrote as an error."""
    lines = [line.strip() for line in ended.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    code = "it cannot be started" if ended.code is None else f"exit status {ended.code}"
    return f"{code}: {lines[-1]}" if lines else code
