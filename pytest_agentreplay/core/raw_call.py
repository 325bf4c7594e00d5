"""A call before redaction: it never leaves the session, so no secret reaches a backend, a journal or a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agentreplay.core.model import Call


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as the agent made it, secrets included; `Redactor.redact_call` alone makes a `Call` of it.

    A backend takes a `Call`, so that mypy refuses to hand it one of these.
    """

    native: Call
