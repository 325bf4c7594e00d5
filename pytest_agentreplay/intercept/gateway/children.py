"""Children that get the gateway's variables without being told in the test: those named in `agentreplay_children`.

`child_start` asks for them at `subprocess.Popen`, which asyncio and anyio start their children by too.
`os.posix_spawn`, `os.exec`, `os.system` and loops in C (uvloop) go other ways: the guard refuses what they start.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pytest_agentreplay.intercept.network.child_events import short_name, split_words
from pytest_agentreplay.intercept.session import interceptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytest_agentreplay.intercept.gateway.gateway import Gateway

_declared: tuple[Sequence[str], Callable[[], Gateway]] | None = None


@contextmanager
def declare_children(patterns: Sequence[str], gateway: Callable[[], Gateway]) -> Iterator[None]:
    """Run a block in which each child whose command line is one of `patterns` gets the variables of `gateway()`."""
    global _declared  # noqa: PLW0603  Popen has no self of ours to find it by
    before, _declared = _declared, (patterns, gateway)
    try:
        yield
    finally:
        _declared = before


def variables(arguments: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The environment for a child that Popen was `asked` for; None where it stays as it is."""
    interception = interceptions.find_interception()
    if _declared is None or interception is None or interception.is_over():
        return None
    patterns, gateway = _declared
    if not any(fnmatchcase(line, pattern) for line in lines(arguments["args"]) for pattern in patterns):
        return None
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in (arguments.get("env") or os.environ).items()}
    return None if gateway().serves(environ) else environ | gateway().env_for(environ)


def lines(command: Any) -> tuple[str, str]:
    """A command as people write it: the program without its folder, then every word without one."""
    words = split_words(command)
    program, *rest = words
    return (" ".join([short_name(program), *rest]), " ".join(short_name(word) for word in words))
