"""Which runs are kept, as the call of `capture.start` or the environment says it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agentreplay.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pytest_agentreplay.capture.ended_capture import EndedCapture
    from pytest_agentreplay.core.model import Json, RawValue

Keep: TypeAlias = "str | float | Callable[[KeptRun], Any]"

SWITCH, PLACE = "AGENTREPLAY_CAPTURE", "AGENTREPLAY_CAPTURE_TO"


@dataclass(frozen=True, slots=True)
class KeptRun:
    """An ended run, as a function that decides whether it is kept sees it. Do not change what it holds.

    Attributes:
        id: Its id.
        name: Its name.
        failed: Whether it failed.
        seconds: How long it took.
        calls: How many calls it made.
        input: Its input, None where nobody gave any.
        output: What it returned, None where that is not known.
        failure: Type and message of its failure, None where it did not fail.
        annotations: What the service noted about it.
    """

    id: str
    name: str
    failed: bool
    seconds: float
    calls: int
    input: Json = field(repr=False)
    output: Json = field(repr=False)
    failure: Json = field(repr=False)
    annotations: Json = field(repr=False)


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Which runs are kept: those that failed, all, a share of them, or those for which a function returns true."""

    word: str = "failed"
    rate: float = 0.0
    decide: Callable[[KeptRun], Any] | None = None

    def find_reason(self, ended: EndedCapture) -> str:
        """Return why a run is kept, "" where it is not; by its id and end alone, in constant time."""
        match self.word:
            case "failed":
                return "failed" if ended.failed else ""
            case "rate":
                return "rate" if draw(ended.id) < self.rate else ""
            case word:
                return word


def draw(identity: str) -> float:
    """Return a number from 0 to 1 for an id: the same in each service, so that those that share ids keep the same."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:7]) / (1 << 56)


def parse_keep(keep: Keep) -> KeepRule:
    """Return the rule of `capture.start(keep=...)`. Raises SettingsError."""
    if callable(keep):
        return KeepRule("function", decide=keep)
    if keep in {"failed", "all"}:
        return KeepRule(str(keep))
    try:
        rate = float(keep) if not isinstance(keep, bool) else -1.0
    except (TypeError, ValueError):
        rate = -1.0
    if 0 <= rate <= 1:
        return KeepRule("rate", rate)
    raise SettingsError(f'keep takes "failed", "all", a rate from 0 to 1, or a function of the run, not {keep!r}')


def choose_capture(
    store: str | Path, keep: Keep, environ: Mapping[str, str] = os.environ
) -> tuple[str | Path, Keep] | None:
    """Return where runs are kept and which, as the environment or else the call says; None where capture is off.

    Raises SettingsError for a value of the environment that is none.
    """
    switch = environ.get(SWITCH, "").strip().lower()
    if switch == "off":
        return None
    if switch:
        try:
            parse_keep(switch)
        except SettingsError:
            raise SettingsError(f"{SWITCH} takes off, failed, all or a rate from 0 to 1, not {switch!r}") from None
    return environ.get(PLACE) or store, switch or keep


def view(ended: EndedCapture) -> KeptRun:
    """Return what a function that decides sees of a run."""

    def native(value: RawValue | None) -> Json:
        return None if value is None else value.native

    values = map(native, (ended.input, ended.output, ended.failure, ended.annotations))
    return KeptRun(ended.id, ended.name, ended.failed, ended.seconds, len(ended.exchanges), *values)
