"""The word about other people's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_agentreplay.cases.words.said import Said, unknown

if TYPE_CHECKING:
    from pytest_agentreplay.cases.evidence import Evidence


def no_identity_but(wanted: Any, evidence: Evidence) -> Said:  # noqa: ARG001
    """No record of somebody else reaches the output."""
    return unknown("not yet")
