"""A child process that speaks lines: the real one listened to, or one that was never started."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.intercept.session.patching import find_exception
from pytest_agentreplay.intercept.streams.dialogue import (
    MessageReader,
    Opening,
    RecordingDialogue,
    ReplayingDialogue,
    is_end_of_stream,
    program_address,
)
from pytest_agentreplay.intercept.tools.tool_recording import run_stepwise
from pytest_agentreplay.model.exchanges import Closed, Failure
from pytest_agentreplay.providers import stream_json
from pytest_agentreplay.values.failure import failure_of, raise_able

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_agentreplay.intercept.session.interceptions import Interception


async def open_program(interception: Interception, command: Any, start: Callable[[], Any]) -> Any:
    """Return the process that `command` names: the recorded one, or what `start` gives, listened to."""
    opening = Opening.enter(interception, program_address(map(str, command)), "process")
    intercepted = opening.intercepted
    if not intercepted.forward:
        opening.raise_failure()
        return ReplayedProcess(ReplayingDialogue(opening, stream_json))
    try:
        process = await run_stepwise(intercepted, start())
    except ReplayDiverged:
        raise
    except BaseException as error:
        intercepted.settle(failure_of(error), suspended=True)
        raise
    return RecordedProcess(process, RecordingDialogue(opening))


class Cut:
    """Whole lines of what comes in pieces."""

    def __init__(self) -> None:
        """Nothing came yet."""
        self.rest = b""

    def lines(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes."""
        *complete, self.rest = (self.rest + data).split(b"\n")
        return complete


class RecordedProcess:
    """A real process, both sides of it listened to. What else is asked of it is the real one's."""

    def __init__(self, real: Any, taking: RecordingDialogue) -> None:
        self._real = real
        self._taking = taking
        self.told_to_end = False
        self.ended = False
        self.stdin = None if real.stdin is None else Written(real.stdin, self, taking)
        self.stdout = None if real.stdout is None else RecordedRead(real.stdout, self, taking)

    async def wait(self) -> int:
        """Wait until it has ended."""
        code: int = await self._real.wait()
        self.note_end()
        return code

    def terminate(self) -> None:
        """End it."""
        self.told_to_end = True
        self._real.terminate()

    def kill(self) -> None:
        """End it at once."""
        self.told_to_end = True
        self._real.kill()

    def note_end(self) -> None:
        """Record that it has ended, or will write nothing more."""
        self._taking.end(Closed(self._real.returncode, by_agent=self.told_to_end and not self.ended))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class RecordedSide:
    """One side of a real process, listened to. What else is asked of it is the real one's."""

    def __init__(self, real: Any, process: RecordedProcess, taking: RecordingDialogue) -> None:
        self._real = real
        self._process = process
        self._taking = taking
        self._cut = Cut()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Written(RecordedSide):
    """The input of a real process: each line is noted before it leaves."""

    async def send(self, data: bytes) -> None:
        """Write."""
        for line in self._cut.lines(data):
            self._taking.say(line)
        try:
            await self._real.send(data)
        except Exception as error:
            self._taking.unsaid(failure_of(error))
            raise

    async def aclose(self) -> None:
        """There is no more input."""
        self._process.told_to_end = True
        await self._real.aclose()


class RecordedRead(RecordedSide):
    """The output of a real process: each line is noted as it is read."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """What comes next."""
        try:
            data: bytes = await self._real.receive(max_bytes)
        except Exception as error:
            if is_end_of_stream(error):
                if self._cut.rest:
                    self._taking.hear(self._cut.rest)
                    self._cut.rest = b""
                self._process.ended = not self._process.told_to_end
            raise
        for line in self._cut.lines(data):
            self._taking.hear(line)
        return data


class ReplayedProcess:
    """A process that was never started: it says what the recorded one said, and is its own input and output."""

    stderr = None
    pid = 0

    def __init__(self, giving: ReplayingDialogue) -> None:
        self._anyio = sys.modules["anyio"]
        self._giving = giving
        self._event = self._anyio.Event()
        giving.wake = self._awake
        self._cut = Cut()
        self.returncode: int | None = None
        self.stdin = PlayedInput(self)
        self.stdout = PlayedOutput(self)

    def _awake(self) -> None:
        self._event.set()

    async def write(self, data: bytes) -> None:
        """Take lines of the agent."""
        for line in self._cut.lines(data):
            intercepted = self._giving.say(line)
            if isinstance(intercepted.outcome, Failure):
                raise raise_able(intercepted.outcome, find_exception)
        await self._anyio.lowlevel.checkpoint()

    async def read_line(self) -> bytes:
        """Return the next line, when its time has come."""
        await self._anyio.lowlevel.checkpoint()
        while not self._giving.due:
            if self._giving.over or self.returncode is not None:
                self.end()
                raise self._anyio.EndOfStream
            await self._wait_for_change()
        return self._giving.due.popleft() + b"\n"

    async def wait(self) -> int:
        """Wait until it has ended."""
        while self.returncode is None:
            if self._giving.over:
                self.end()
                break
            await self._wait_for_change()
        return self.returncode or 0

    async def _wait_for_change(self) -> None:
        self._event = self._anyio.Event()
        await self._event.wait()

    def end(self, code: int = 0) -> None:
        """It says no more."""
        if self.returncode is None:
            closed = self._giving.closed
            self.returncode = code if closed is None or closed.code is None else closed.code
        self._event.set()

    def terminate(self) -> None:
        """End it."""
        self.end(-signal.SIGTERM)

    kill = terminate

    async def aclose(self) -> None:
        """End it."""
        self.end()
        await self._anyio.lowlevel.checkpoint()


class PlayedInput:
    """The input of a process that was never started."""

    def __init__(self, process: ReplayedProcess) -> None:
        self._process = process

    async def send(self, data: bytes) -> None:
        """Write."""
        await self._process.write(data)

    async def aclose(self) -> None:
        """There is no more input: it ends, as the recorded one did."""
        self._process.end()

    async def send_eof(self) -> None:
        """There is no more input."""
        self._process.end()


class PlayedOutput(MessageReader):
    """The output of a process that was never started."""

    def __init__(self, process: ReplayedProcess) -> None:
        self._process = process

    async def receive(self, max_bytes: int = 65536) -> bytes:  # noqa: ARG002  a line is never cut
        """What comes next."""
        return await self._process.read_line()

    async def aclose(self) -> None:
        """Nobody reads on."""
