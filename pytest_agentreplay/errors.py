"""The exceptions that users see.

    AgentReplayError (Exception)
    ├── SettingsError            a flag, ini key, marker or environment value that is invalid
    │   ├── LiveRefused          a case asks the real model, which the command line alone can allow
    │   └── PolicyError          a redaction policy that cannot be read or meant; it is never left out
    ├── SnapshotError            a snapshot that cannot be used; it is never taken for absent
    │   ├── SnapshotMissing      there is no file where the test's snapshot belongs
    │   ├── SnapshotUnreadable   damaged, conflict-marked, not ours, or too hostile to read
    │   ├── SnapshotTooNew       written by a later format; says which version reads it
    │   ├── SnapshotEdited       readable, but not the content that was sealed
    │   └── SnapshotMisplaced    it belongs to another test
    ├── CaseError                a case, or a file of one, that cannot be read or meant; it fails its item
    ├── RunnerError              the runner of a case hung, crashed, wrote nothing, or wrote what is no result
    ├── TraceError               a trace that cannot be imported
    │   ├── TraceUnknown         no format that we know, or several that fit: name it with --from
    │   └── TraceIncomplete      what is needed was not captured; says which setting of that tool brings it
    ├── CannotWrite              the disk, the tree or the last scan refused the file; the old one is intact
    ├── CannotSign               ssh-keygen is not there, or does not sign or check a lock
    ├── CannotFreeze             a value that would not come back equal and of the same type
    ├── CannotRedirect           a tool that cannot be intercepted where the agent holds it
    └── Leak                     the last scan found a known secret; nothing was written

    ReplayDiverged (BaseException)    the brake: agents swallow Exceptions, and a miss must not become a retry

Every message answers: what, where (file and place), and the one command or line that comes next. Whatever of a file
or of a live reply stands in it is visible, and only that: pytest prints messages as they are.
This module imports nothing of ours, so everyone may import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from typing import Self


def visible(text: str) -> str:
    """`text` with whatever a terminal would act on as an escape; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


class AgentReplayError(Exception):
    """Base of all errors of pytest_agentreplay that are safe to show as they are."""

    def __init__(self, message: str = "") -> None:
        """Keep the message, made visible."""
        super().__init__(visible(message))


class SettingsError(AgentReplayError):
    """A flag, ini key, marker or environment value that is invalid."""


class LiveRefused(SettingsError):
    """A case asks the real model, which the command line alone can allow."""


class PolicyError(SettingsError):
    """A redaction policy, or a file of tolerances, that cannot be read or is invalid.

    Attributes:
        file: The file, as shown to people.
        place: Line and column, where they are known.
    """

    def __init__(self, message: str, *, file: str, place: str = "") -> None:
        """Keep `file` (as shown to people) and `place` beside the message."""
        self.file = file
        self.place = place
        where = f"{file}:{place}" if place else file
        super().__init__(f"{where}: {message}")


class _InFile(Exception):
    """What errors of one file have in common: the file, a place in it, and a message of one line."""

    _before_place = ": "

    def __init__(self, message: str, *, file: str, place: str = "") -> None:
        """Keep `file` (as shown to people) and `place` beside the message."""
        self.file = file
        self.place = place
        where = f"{file}{self._before_place}{place}" if place else file
        super().__init__(visible(f"{where}: {message}").replace("\n", "\\n"))


class SnapshotError(_InFile, AgentReplayError):
    """A snapshot that cannot be used.

    Attributes:
        file: The file, as shown to people.
        place: An offset, exchange or key, where one is known.
    """


class SnapshotMissing(SnapshotError):
    """There is no file where the test's snapshot belongs."""


class SnapshotUnreadable(SnapshotError):
    """Damaged, conflict-marked, not ours, or too hostile to read."""


class SnapshotTooNew(SnapshotError):
    """Written by a later format than this version reads."""


class SnapshotEdited(SnapshotError):
    """Readable, but not the content that was sealed."""


class SnapshotMisplaced(SnapshotError):
    """The snapshot of another test.

    Attributes:
        test: The test that the file states.
    """

    def __init__(self, message: str, *, file: str, test: str = "") -> None:
        """Keep the `test` that the file states beside the message."""
        self.test = test
        super().__init__(message, file=file)


class CaseError(_InFile, AgentReplayError):
    """A case, or a file of one, that cannot be read or is invalid.

    Attributes:
        file: The file, as shown to people.
        place: Line and column, where they are known.
    """

    _before_place = ":"


class RunnerError(AgentReplayError):
    """The runner of a case hung, crashed, or wrote no result."""


class TraceError(_InFile, AgentReplayError):
    """A trace that cannot be imported.

    Attributes:
        file: The file, as shown to people.
        place: A row, span or key, where one is known.
    """


class TraceUnknown(TraceError):
    """A trace in no format that is known, or one that several formats fit."""


class TraceIncomplete(TraceError):
    """What an import needs was not captured; the message says which setting of that tool brings it."""


class CannotWrite(AgentReplayError):
    """A file could not be written whole. The one that was there before is intact."""


class CannotSign(AgentReplayError):
    """A lock that ssh-keygen does not sign, or whose signature cannot be checked here."""


class CannotFreeze(AgentReplayError):
    """A value that would not come back equal and of the same type.

    Attributes:
        path: The JSON path inside the value.
        kind: The name of the type.
    """

    def __init__(self, message: str, *, path: str, kind: str) -> None:
        """Keep the JSON path inside the value and the type's name beside the message."""
        self.path = path
        self.kind = kind
        super().__init__(message)


class CannotRedirect(AgentReplayError):
    """A tool that cannot be intercepted where the agent holds it."""

    def __init__(self, message: str) -> None:
        """Begin the message with its code."""
        super().__init__(f"[AR-REDIRECT] {message}")


class Leak(AgentReplayError):
    """The last scan found a known secret in what was about to be written."""


class ReplayDiverged(BaseException):
    """The run does something else than its recording. Raised at the interception, and again at the end of the test.

    Derives from BaseException because retry loops and agents catch Exceptions. The backend keeps the divergence: code
    that catches this exception does not change the verdict.

    Attributes:
        divergence: The `Divergence`.
    """

    outcome: ClassVar[type[ReplayDiverged] | None] = None
    """The subclass that is raised instead while pytest runs; pytest cleans up after outcomes of its own only."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make the exception that the surroundings can handle."""
        del kwargs
        return super().__new__(cast("type[Self]", ReplayDiverged.outcome or cls), *args)

    def __init__(self, message: str, divergence: Any = None) -> None:
        """Carry the `Divergence` value, typed loosely because this module imports nothing of ours."""
        self.divergence = divergence
        super().__init__(visible(message))
