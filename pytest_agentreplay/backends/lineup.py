"""Which layers make a run drift, by runs in which some are released and the others recorded, or from two recordings.

Rules of this module:
- With nothing released only the agent's own code can differ, so that cell comes first and ends the search if it fails.
- Each layer is released alone. Then all that did not fail alone are released together, and each that is not needed for
  a failure is pinned again: what is left fails, and nothing can be taken from it. So on without these, until nothing
  fails; but with the model, which may carry several changes.
- Only a cell that drifted convicts. One that decided nothing, or that nobody paid for, is reported and proves nothing.
- The divergences of two recordings come in the order of the run, without what merely carries an earlier one along, so
  the first is the answer. A later one is independent of it only where the very same call was answered otherwise.
- Another reply to the same request is the provider's change where the recordings name another served model, else it
  is the model's sampling. The same replies and other calls are the agent's own code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from pytest_agentreplay.compare.align import divergences
from pytest_agentreplay.compare.kit_fields import make_kit
from pytest_agentreplay.model.divergence import Divergence, Kind
from pytest_agentreplay.model.turns import label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.compare.live_result import Word
    from pytest_agentreplay.compare.matching import Matching
    from pytest_agentreplay.model.exchanges import Run
    from pytest_agentreplay.model.reading import Reader

Released: TypeAlias = frozenset[str]

LOOP = "loop code"
"""The agent's own code: what is left when every layer is pinned. It cannot be pinned itself."""
LAYERS = {Kind.REPLY: "model sampling", Kind.NOISE: "clock or random numbers", Kind.SDK: "packages", Kind.REQUEST: LOOP}
"""Layers that `Kind.layer` does not name as a line-up does; "loop" is the agent's own code."""


@dataclass(slots=True)
class LineUp:
    """What a line-up came to.

    `cells` has the outcome of each set of released layers, in the order in which they were run; None stands for a cell
    that was not run. `guilty` holds the smallest sets of layers that make the run drift: each layer that does so alone,
    then sets of several. `word` is "same" where the run is the recorded one with all layers released.
    """

    cells: dict[Released, Word | None] = field(default_factory=dict)
    guilty: list[Released] = field(default_factory=list)
    word: Word = "inconclusive"

    def describe(self) -> str:
        """Return the answer in one sentence."""
        match self.word:
            case "inconclusive":
                return "undecided: no layer could be convicted, and not all could be cleared"
            case "same":
                return "no layer is guilty: with all of them released the run is the recorded one"
        return f"guilty: {'; '.join(map(self._describe_set, self.guilty))}"

    def _describe_set(self, guilty: Released) -> str:
        """Return one set in words. A live model that alone changes nothing only carries what another layer changed."""
        carried = len(guilty) > 1 and "model" in guilty and self.cells.get(frozenset({"model"})) == "same"
        names = sorted(name.replace(":", " ") for name in guilty - ({"model"} if carried else set()))
        through = " (seen through the live model, which alone changes nothing)" if carried else ""
        return " and ".join(names) + (" together" if len(names) > 1 else "") + through


def smallest_guilty_set(suspects: Sequence[str], outcome_of: Callable[[Released], Word | None]) -> LineUp:
    """Search for the layers that make a run drift; `suspects` come in the order in which they are released.

    `outcome_of` runs a cell: None says that it was not run, for want of budget. It is called once for each cell.
    """
    lineup = LineUp()

    def drifts(released: Released) -> bool:
        if released not in lineup.cells:
            lineup.cells[released] = outcome_of(released)
        return lineup.cells[released] == "drifted"

    nothing, everything = frozenset[str](), frozenset(suspects)
    if drifts(nothing):
        lineup.guilty = [frozenset({LOOP})]
    elif lineup.cells[nothing] == "same":
        lineup.guilty = [single for name in suspects if drifts(single := frozenset({name}))]
        rest = everything.difference(*lineup.guilty)
        while len(rest) > 1 and drifts(rest):
            guilty = rest
            for name in suspects:
                guilty -= {name} if drifts(guilty - {name}) else set()
            lineup.guilty.append(guilty)
            rest -= guilty - {"model"}
    lineup.word = "drifted" if lineup.guilty else "same" if lineup.cells.get(everything) == "same" else lineup.word
    return lineup


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
    groups, sides = {"model", "scene", "code"}, [make_kit(run, reader).fields for run in (a, b)]
    old, new = ({each.name: each.value for each in fields if each.group in groups} for fields in sides)
    return {name: (old.get(name, ""), new.get(name, "")) for name in old | new if old.get(name) != new.get(name)}
