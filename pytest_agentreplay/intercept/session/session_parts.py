"""Parts of a session: what it knows of the tools of its test, and what it saw beside calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import CodeType

    from pytest_agentreplay.core.serialize import Codec


class ToolRegistry:
    """The tools of a test.

    Attributes:
        codecs: Those that the test has registered.
        uncompared: What of recorded arguments is compared by class alone: by tool, path and class, why.
        seen: Names of tools that a patch intercepts, whether they were called or not.
        live: Shown names of tools that run for real, in a replay too.
        read_tools: Shown names of tools that change nothing; "*" stands for any letters.
    """

    def __init__(self) -> None:
        self.codecs: list[Codec] = []
        self.uncompared: dict[tuple[str, str, str], str] = {}
        self.seen: set[str] = set()
        self.live: set[str] = set()
        self.read_tools: tuple[str, ...] = ()

    def reads(self, name: str) -> bool:
        """Return whether a tool of this name was declared to change nothing."""
        if not self.read_tools:
            return False
        from pytest_agentreplay.core.tolerance import is_named

        return any(is_named(name, pattern) for pattern in self.read_tools)

    def clear(self) -> None:
        """Forget what another run has seen."""
        self.seen.clear()
        self.uncompared.clear()


class Observations:
    """What a session sees beside its calls.

    Attributes:
        servers: Recorded exchanges in which a server of this process made calls.
        serving: Numbers of the exchanges in which such a server has made calls of its own.
        passed: Hosts and paths of requests that stayed inside the process.
        importing: Modules of the project that made requests while they were imported.
        callers: Functions from which a call was let through.
        trace: Ids of the first span that was open around a recorded call.
    """

    def __init__(self) -> None:
        self.servers: frozenset[int] = frozenset()
        self.serving: set[int] = set()
        self.passed: set[tuple[str, str]] = set()
        self.importing: set[str] = set()
        self.callers: set[CodeType] = set()
        self.trace: dict[str, str] = {}
