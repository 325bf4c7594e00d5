"""What a captured run hands over when it has ended: all of it raw, in memory, and not one byte written.

`capture.keeping` decides whether it is kept; what is kept is redacted, and only then encoded and written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_agentreplay.core.model import Exchange, JsonObject, RawCall, RawOutcome, RawValue


@dataclass(frozen=True, slots=True)
class EndedCapture:
    """One run of a service, ended.

    Attributes:
        id: The run's id; the name of its file.
        name: The name of the entry ("refund"), under which a project declares a runner.
        began: When it began, in nanoseconds since the epoch.
        seconds: How long it took.
        exchanges: Lanes, order and timing of its calls. Each has a stand-in for its call and outcome: the raw ones are
            in `calls` and `outcomes`, by the `start` of the exchange.
        calls: The raw calls.
        outcomes: The raw outcomes of those that ended.
        input: The arguments of the run by name; None where nobody gave any.
        output: What it returned; None where that is not known.
        failure: Type and first line of what failed it, as `{"type": ..., "message": ...}`; None where it did not fail.
        annotations: What the service noted about it.
        kit: Further facts for the header that hold nothing raw: order, lanes, starts, trace ids, draws of ids.
        cold: Why it cannot be replayed, "" where it can.
        size: The bytes that its calls and outcomes take in memory.
    """

    id: str
    name: str
    began: int
    seconds: float
    exchanges: tuple[Exchange, ...]
    calls: Mapping[int, RawCall]
    outcomes: Mapping[int, RawOutcome]
    input: RawValue | None = None
    output: RawValue | None = None
    failure: RawValue | None = None
    annotations: RawValue | None = None
    kit: JsonObject = field(default_factory=dict)
    cold: str = ""
    size: int = 0

    @property
    def failed(self) -> bool:
        """Whether the run failed: by an exception, a status of 500 and above, or because the service said so."""
        return self.failure is not None
