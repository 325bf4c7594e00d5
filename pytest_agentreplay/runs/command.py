"""One command, run to its end or to its time limit: what it said, bounded, and nothing of it left behind."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from pytest_agentreplay import clocks
from pytest_agentreplay.errors import RunnerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

KEPT = 4 << 20
"""Bytes of each output that are kept, its beginning; the rest is read and counted."""
PATIENCE = 2.0
"""Seconds that the outputs of a command that has ended may stay open, held by its children."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended: its exit code, None for one that ran out of time, and what it said."""

    code: int | None
    stdout: bytes
    stderr: bytes
    seconds: float


def words_of(command: str) -> list[str]:
    """The words of a command line as this system's people type it. Raises RunnerError for what cannot be split."""
    try:
        words = windows_words(command) if os.name == "nt" else shlex.split(command)
    except ValueError as wrong:
        raise RunnerError(f"--runner-cmd: {command!r} cannot be split into words: {wrong}") from None
    if not words:
        raise RunnerError('--runner-cmd: is empty; write it like "python agent.py"')
    return words


def windows_words(command: str) -> list[str]:
    r"""Words as cmd has them: double quotes hold one together, a backslash is part of a path."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.escape, lexer.quotes, lexer.commenters = True, "", '"', ""
    return list(lexer)


def run(
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
    threading.Thread(target=feed, args=(child.stdin, stdin), daemon=True).start()
    try:
        code: int | None = child.wait(limit or None)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        end = clocks.monotonic()
        if child.poll() is not None:
            for output in outputs:
                output.join(max(0.0, end + PATIENCE - clocks.monotonic()))
        kill(child)
    for output in outputs:
        output.join(PATIENCE)
    return CommandResult(code, outputs[0].text(), outputs[1].text(), end - began)


def kill(child: subprocess.Popen[bytes]) -> None:
    """End a command and whatever it has started."""
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


def feed(pipe: IO[bytes], stdin: bytes) -> None:
    """Hand the input over; who does not read it has no need of it."""
    with suppress(OSError, ValueError):
        pipe.write(stdin)
    with suppress(OSError, ValueError):
        pipe.close()


class Output:
    """One output of a command, read as it comes: the beginning is kept, and the size of the rest."""

    def __init__(self, pipe: IO[bytes]) -> None:
        """Begin to read."""
        self._pipe = pipe
        self._parts: list[bytes] = []
        self._kept = self._size = 0
        self._thread = threading.Thread(target=self._read_pipe, daemon=True)
        self._thread.start()

    def _read_pipe(self) -> None:
        with self._pipe, suppress(OSError, ValueError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                self._size += len(part)
                if room := KEPT - self._kept:
                    self._parts.append(part[:room])
                    self._kept += len(part[:room])

    def join(self, seconds: float) -> None:
        """Wait for its end."""
        self._thread.join(seconds)

    def text(self) -> bytes:
        """What is kept, and how much is not."""
        left = self._size - self._kept
        return b"".join(self._parts) + (f"\n[{left:,} more bytes are left out]\n".encode() if left else b"")
