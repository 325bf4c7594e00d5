"""Which runs are kept, as the call of `capture.start` or the environment says it."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_agentreplay.runs.capture.ended_capture import EndedCapture

    Keep: TypeAlias = str | float | Callable[["KeptRun"], Any]

MAX_BYTES = 16 << 20
"""Bytes of the calls of a run beyond which only its head is kept: a file is read again up to 32 MB."""
RING_BYTES, RING_RUNS = 64 << 20, 1_000

SWITCH, PLACE = "AGENTREPLAY_CAPTURE", "AGENTREPLAY_CAPTURE_TO"


class KeptRun:
    """An ended run, as a function that decides whether it is kept sees it. What it holds is not to be changed.

    Attributes:
        id: Its id.
        name: Its name.
        failed: Whether it failed.
        seconds: How long it took.
        calls: How many calls it made.
        input: Its input, None where nobody gave any; so are the next ones.
        output: What it returned.
        failure: Type and message of its failure.
        annotations: What the service noted about it.
    """

    def __init__(self, ended: EndedCapture) -> None:
        """Unwrap what is raw: the function is the service's own."""
        self.id, self.name, self.failed, self.seconds = ended.id, ended.name, ended.failed, ended.seconds
        self.calls = len(ended.exchanges)
        values = (ended.input, ended.output, ended.failure, ended.annotations)
        self.input, self.output, self.failure, self.annotations = (value and value.native for value in values)


def parse_keep(keep: Keep) -> Callable[[EndedCapture], str]:
    """Return what gives the reason for which a run is kept, "" for one that is not. Raises SettingsError.

    Each is a matter of the run's id and end alone; what a function of the service says is asked later ("function").
    """
    if callable(keep):
        return lambda _: "function"
    if keep == "failed":
        return lambda ended: "failed" if ended.failed else ""
    if keep == "all":
        return lambda _: "all"
    try:
        rate = -1.0 if isinstance(keep, bool) else float(keep)
    except (TypeError, ValueError):
        rate = -1.0
    if not 0 <= rate <= 1:
        raise SettingsError(f'keep takes "failed", "all", a rate from 0 to 1, or a function of the run, not {keep!r}')
    return lambda ended: "rate" if draw(ended.id) < rate else ""


def draw(identity: str) -> float:
    """Return a number from 0 to 1 for an id: the same in each service, so that those that share ids keep the same."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6]) / (1 << 48)


def choose_capture(
    store: str | Path, keep: Keep, environ: Mapping[str, str] = os.environ
) -> tuple[str | Path, Keep] | None:
    """Return where runs are kept and which, as the environment or else the call says; None where capture is off.

    Raises SettingsError for a value of the environment that is none.
    """
    switch = environ.get(SWITCH, "").strip().lower()
    if switch == "off":
        return None
    try:
        parse_keep(switch or "all")
    except SettingsError:
        raise SettingsError(f"{SWITCH} takes off, failed, all or a rate from 0 to 1, not {switch!r}") from None
    return environ.get(PLACE) or store, switch or keep
