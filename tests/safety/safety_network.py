"""Figures of the network guard: ways out that it blocks, and real tool calls in 10,000 replays."""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import probes
from figures import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

REPLAYS = 10_000
BEST = "pytest-socket 5, pytest-recording 6 of 28"


def figures() -> Iterator[Figure]:
    """The probes at both levels, then the replays."""
    yield from blocked()
    yield tool_calls()


def blocked() -> Iterator[Figure]:
    """How many probes are blocked at L1, of those that Python tells of, and how many at L3, of all."""
    names = [*probes.here()]
    through = run(names)
    unproven = [name for name in names if not through[name, "open"]]
    for level, heard in (("L1", True), ("L3", False)):
        mine = [name for name in names if probes.PROBES[name].heard or not heard]
        left = [name for name in mine if through[name, level]]
        what = "those that Python tells of" if heard else "all, C, Rust and children too"
        ours = f"{len(mine) - len(left)} of {len(mine)}" + "".join(f"; through: {name}" for name in left)
        ours += "".join(f"; does not even come through when nothing is closed: {name}" for name in unproven)
        yield Figure(f"network probes blocked at {level} ({what})", BEST, "every one", ours, not left and not unproven)


def run(names: list[str]) -> dict[tuple[str, str], bool]:
    """Whether each probe came through at each level."""

    def half(mine: list[str]) -> dict[tuple[str, str], bool]:
        with probes.Prober() as prober:
            return {(name, level): prober.verdict(name, level).through for name in mine for level in probes.LEVELS}

    with ThreadPoolExecutor(2) as pool:
        return {key: came for part in pool.map(half, [names[::2], names[1::2]]) for key, came in part.items()}


def tool_calls(replays: int = REPLAYS) -> Figure:
    """How often a tool that pays money really runs, over fifty ways to hold and call it."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import refunds

    with tempfile.TemporaryDirectory() as folder:
        refunds.LEDGER = Path(folder) / "ledger.txt"
        fired = refunds.count(replays)
    left = "".join(f"; {name}: {times}" for name, times in fired.items() if times)
    ours = f"{sum(fired.values())} in {replays:,} replays of {len(fired)} ways to hold and call it{left}"
    return Figure(f"real tool calls in {replays:,} replays", "-", "0", ours, not any(fired.values()))
