"""Type-checked, never run: what is raw goes into nothing that may be stored. An ignore that is not needed is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_agentreplay.core.model import Exchange, JsonObject, RawCall, RawOutcome, RawValue

if TYPE_CHECKING:
    from pytest_agentreplay.core.redaction import Redaction


def store(call: RawCall, outcome: RawOutcome, value: RawValue, redaction: Redaction) -> tuple[Exchange, JsonObject]:
    """What a captured run is made of."""
    Exchange(call, None, 1, 2)  # type: ignore[arg-type]
    redacted = redaction.redact_call(call)
    Exchange(redacted, outcome, 1, 2)  # type: ignore[arg-type]
    kit: JsonObject = {"input": value}  # type: ignore[dict-item]
    kit = {"input": redaction.redact_value(value)}
    return Exchange(redacted, redaction.redact_outcome(redacted, outcome.native), 1, 2), kit
