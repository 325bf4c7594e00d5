"""One line of the table of safety figures: what was measured beside what it has to reach."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`best` is what the best of today's tools do, `reach` what we set out to, `ours` what was measured just now."""

    name: str
    best: str
    reach: str
    ours: str
    met: bool
