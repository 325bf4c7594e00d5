"""Which layers of a run are frozen, and which are live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

ModelAxis: TypeAlias = Literal["frozen", "live"]
ToolsAxis: TypeAlias = Literal["frozen", "verify", "live"]


@dataclass(frozen=True, slots=True)
class Axes:
    """One cell of the matrix: is the model asked for real, and do tools that only read run for real.

    `tools` is "frozen" (recorded results), "verify" (read tools run too, the agent gets the recorded results) or "live"
    (the agent gets what read tools return now). A tool that writes never runs in any cell. `released` are the layers
    that a line-up releases in this run ("model", "prompt", "tool:NAME", "retrieval", "clock", "random"), None in any
    other run.
    """

    model: ModelAxis = "frozen"
    tools: ToolsAxis = "frozen"
    released: frozenset[str] | None = None

    @property
    def cell(self) -> str:
        """Return the name of the cell: "FF", "FL", "LF" or "LL", the model first; "verify" counts as live tools."""
        return ("L" if self.model == "live" else "F") + ("F" if self.tools == "frozen" else "L")

    def releases(self, layer: str) -> bool:
        """Return whether a tool or retrieval runs, where it only reads: "tool:NAME", "retrieval"."""
        return self.tools == "live" if self.released is None else layer in self.released
