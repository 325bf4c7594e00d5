"""The last scan: no text of a run is written that holds a secret we know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay import codec
from pytest_agentreplay.errors import Leak

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Run
    from pytest_agentreplay.core.redaction import Redaction


def checked(redaction: Redaction, run: Run, file: str) -> str:
    """The text of `run`, after the last scan. Raises Leak, and names no value."""
    text = codec.dumps(run)
    leaks = redaction.leaks(text.encode())
    if leaks:
        raise Leak(
            f"{file}: not written, because a known secret ({', '.join(leaks)}) would be in it, in an encoding that "
            "redaction does not reach.\nPass the value as it appears to agentreplay.secret(...), and record again."
        )
    return text
