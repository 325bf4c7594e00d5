"""Which layers make a run drift: a search over runs in which some layers are released and the others are recorded.

Rules of this module:
- With nothing released only the agent's own code can differ, so that cell comes first and ends the search if it fails.
- Each layer is released alone. Where none of them fails alone, all are released together, and each that is not needed
  for the failure is pinned again: what is left fails, and nothing can be taken from it.
- Only a cell that drifted convicts. One that decided nothing, or that nobody paid for, is reported and proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_agentreplay.core.live.result import Word

Released: TypeAlias = frozenset[str]

LOOP = "loop code"
"""The agent's own code: what is left when every layer is pinned. It cannot be pinned itself."""
CELLS = 32
"""How many cells are run at most: all sets of five layers."""


@dataclass(slots=True)
class LineUp:
    """What a line-up came to.

    `cells` has the outcome of each set of released layers, in the order in which they were run; None stands for a cell
    that was not run. `guilty` holds the smallest sets of layers that make the run drift: each layer that does so alone,
    else one set of several. `word` is "same" where the run is the recorded one with all layers released.
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


def smallest_guilty_set(
    suspects: Sequence[str], outcome_of: Callable[[Released], Word | None], *, most: int = CELLS
) -> LineUp:
    """Search for the layers that make a run drift; `suspects` come in the order in which they are released.

    `outcome_of` runs a cell: None says that it was not run, for want of budget. It is called once for each cell.
    """
    lineup = LineUp()

    def drifts(released: Released) -> bool:
        if released not in lineup.cells:
            lineup.cells[released] = outcome_of(released) if len(lineup.cells) < most else None
        return lineup.cells[released] == "drifted"

    nothing, everything = frozenset[str](), frozenset(suspects)
    if drifts(nothing):
        lineup.guilty = [frozenset({LOOP})]
    elif lineup.cells[nothing] == "same":
        lineup.guilty = [single for name in suspects if drifts(single := frozenset({name}))]
        if not lineup.guilty and drifts(everything):
            for name in suspects:
                everything -= {name} if drifts(everything - {name}) else set()
            lineup.guilty = [everything]
    lineup.word = "drifted" if lineup.guilty else "same" if lineup.cells.get(everything) == "same" else lineup.word
    return lineup
