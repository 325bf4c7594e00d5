"""Which layer made two recordings differ, from what each of them holds: no model is asked and nothing is run.

Rules of this module:
- The divergences of `core.align` come in the order of the run, without what merely carries an earlier one along, so the
  first is the answer. A later one is independent of it only where the very same call was answered otherwise.
- Another reply to the same request is the provider's change where the recordings name another served model, else it
  is the model's sampling. The same replies and other calls are the agent's own code.
"""

from __future__ import annotations

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

LAYERS = {Kind.REPLY: "model sampling", Kind.NOISE: "clock or random numbers", Kind.SDK: "packages", Kind.REQUEST: LOOP}
"""Layers that `Kind.layer` does not name as a line-up does; "loop" is the agent's own code."""


def changed_layers(a: Run, b: Run, reader: Reader, matching: Matching) -> list[tuple[str, bool, Divergence]]:
    """Return the layers in which `b` differs from `a`, the guilty one first, as (layer, independent, divergence).

    One is independent where it cannot be a consequence of an earlier one.
    """
    changes: list[tuple[str, bool, Divergence]] = []
    for divergence in divergences(a, b, reader, matching=matching):
        kind, recorded = divergence.kind, divergence.recorded
        layer = LAYERS.get(kind, LOOP if kind.layer == "loop" else kind.layer)
        same_call = recorded is not None and recorded.call == divergence.now
        if kind is Kind.REPLY and kit_changes(a, b, reader).keys() & {"version", "model served", "fingerprint"}:
            layer = "model"
        elif kind is Kind.RESULT and recorded is not None and same_call:
            layer = label(recorded.call, reader)
        elif kind is Kind.MODEL and divergence.differences[0].path != "$.model":
            layer = "parameters"
        changes.append((layer, same_call or not changes, divergence))
    return changes


def kit_changes(a: Run, b: Run, reader: Reader) -> dict[str, tuple[str, str]]:
    """Return what was around the two runs and differs: the fields of the replay kit, each with its two values."""
    groups, sides = {"model", "scene", "code"}, [kit_of(run, reader).fields for run in (a, b)]
    old, new = ({each.name: each.value for each in fields if each.group in groups} for fields in sides)
    return {name: (old.get(name, ""), new.get(name, "")) for name in old | new if old.get(name) != new.get(name)}
