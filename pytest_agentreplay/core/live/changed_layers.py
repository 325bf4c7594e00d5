"""Which layer made two recordings differ, from what each of them holds: no model is asked and nothing is run.

Rules of this module:
- The divergences of `core.align` come in the order of the run, without what merely carries an earlier one along, so the
  first is the answer. A later one is independent of it only where the very same call was answered otherwise.
- Another reply to the same request is the provider's change where the recordings name another served model, else it
  is the model's sampling. The same replies and other calls are the agent's own code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_agentreplay.core.align import divergences
from pytest_agentreplay.core.divergence import Kind
from pytest_agentreplay.core.kit import kit_of
from pytest_agentreplay.core.live.lineup import LOOP
from pytest_agentreplay.core.turns import label

if TYPE_CHECKING:
    from pytest_agentreplay.core.divergence import Divergence
    from pytest_agentreplay.core.matching import Matching
    from pytest_agentreplay.core.model import Run
    from pytest_agentreplay.core.reading import Reader

PROVIDER = frozenset({"version", "model served", "provider", "region", "fingerprint"})
"""Fields of the replay kit that say which model answered; the agent chooses none of them."""
LAYERS = {
    Kind.REPLY: "model sampling",
    Kind.NOISE: "clock or random numbers",
    Kind.SDK: "packages",
    Kind.REQUEST: LOOP,
}
"""Layers that `Kind.layer` does not name as a line-up does; "loop" is the agent's own code."""


@dataclass(frozen=True, slots=True)
class ChangedLayer:
    """A layer that differs, where, and whether that cannot be a consequence of an earlier difference."""

    layer: str
    divergence: Divergence
    independent: bool


def changed_layers(a: Run, b: Run, reader: Reader, *, matching: Matching | None = None) -> tuple[ChangedLayer, ...]:
    """Return the layers in which `b` differs from `a`, the guilty one first."""
    served = any(name in PROVIDER for name, _, _ in kit_changes(a, b, reader))
    return tuple(
        ChangedLayer(
            layer_of(divergence, reader, served=served),
            divergence,
            at == 0 or (divergence.recorded is not None and divergence.recorded.call == divergence.now),
        )
        for at, divergence in enumerate(divergences(a, b, reader, matching=matching))
    )


def layer_of(divergence: Divergence, reader: Reader, *, served: bool) -> str:
    """Return the suspect that a divergence names; `served` says whether another model answered."""
    kind, recorded = divergence.kind, divergence.recorded
    match kind:
        case Kind.REPLY if served:
            return "model"
        case Kind.RESULT if recorded is not None and recorded.call == divergence.now:
            return label(recorded.call, reader)
        case Kind.MODEL if divergence.differences and divergence.differences[0].path != "$.model":
            return "parameters"
    return LAYERS.get(kind, LOOP if kind.layer == "loop" else kind.layer)


def kit_changes(a: Run, b: Run, reader: Reader) -> tuple[tuple[str, str, str], ...]:
    """Return what was around the two runs and differs: a field of the replay kit, and its two values."""
    sides = [
        {each.name: each.value for each in kit_of(run, reader).fields if each.group in {"model", "scene", "code"}}
        for run in (a, b)
    ]
    return tuple((name, old, new) for name, old in sides[0].items() if old != (new := sides[1][name]))
