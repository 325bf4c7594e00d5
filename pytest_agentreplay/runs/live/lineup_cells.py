"""Live runs of tests by pytest, in a process of its own; and the cells of a line-up as such, within one budget.

Rules of this module:
- The first cell is a plain replay. What differs there is the agent's own code, unless it is the system text alone: that
  can be pinned, and changes nothing as long as recorded replies are served, so then the run itself counts.
- Cells without a live model run once: nothing in them is sampled.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_agentreplay.compare.live_result import WRITES, LiveResult
from pytest_agentreplay.errors import RunnerError
from pytest_agentreplay.model.paths import get_test_id
from pytest_agentreplay.runs.own_pytest import prepare_pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_agentreplay.backends.lineup import Released


Done = TypeVar("Done")


def run_live(run: Callable[[str, str], Done]) -> tuple[Done, dict[str, Any]]:
    """Call `run` with the flags of a pytest with a live model; return also the verdicts and results of that pytest."""
    with TemporaryDirectory() as folder:
        into = Path(folder, "live.json")
        done = run("--agentreplay-mode=live", f"--agentreplay-live-into={into}")
        return done, json.loads(into.read_bytes()) if into.is_file() else {"verdicts": [], "results": []}


class CellRuns:
    """Runs cells of `test` in `root`: `runs` of each where the model is live, with no more than `budget` by unit.

    `show` is called with the row of each cell: what was released, outcome, runs, what they took, and why it is so.
    `layers` are what the first cell can have released, and the tools that never run, `state` is what the
    test leaves behind, in a line.
    """

    def __init__(
        self, root: Path, test: str, runs: str, budget: Mapping[str, float], show: Callable[[dict[str, Any]], None]
    ) -> None:
        """Nothing is run yet."""
        self.root, self.test, self.runs, self.budget, self.show = root, test, runs, budget, show
        self.rows: dict[Released, dict[str, Any]] = {}
        self.layers: tuple[str, ...] = ()
        self.state = ""

    @property
    def suspects(self) -> list[str]:
        """The layers that can be released, the model last: only its runs cost something."""
        return ["clock", "random", *(name for name in self.layers if not name.startswith(WRITES)), "model"]

    def outcome_of(self, released: Released) -> Any:
        """Return the word that a cell came to, None where the budget does not allow it. Raises RunnerError."""
        if released not in self.rows:
            row = {"released": sorted(released), "runs": 0, "calls": 0, "tokens": 0, "cost": None, "why": ""}
            self.rows[released] = row | (self._run_live(released) if released else self._run_first())
            self.show(self.rows[released])
        return self.rows[released]["outcome"]

    def _run_first(self) -> dict[str, Any]:
        replay = self._run_pytest("--agentreplay-mode=model")
        why = next(iter(re.findall(r"\[AR-\w+\].*", replay.stdout)), "the test fails") if replay.returncode else ""
        row = {} if why and not why.startswith("[AR-PROMPT]") else self._run_live(frozenset())
        if why and "prompt" not in self.layers:
            return {"outcome": "drifted", "runs": 1, "why": why}
        return row | ({"why": why} if why else {})

    def _run_live(self, released: Released) -> dict[str, Any]:
        rows = [row | {"usd": row["cost"]} for row in self.rows.values()]
        left = {unit: limit - sum(row.get(unit) or 0 for row in rows) for unit, limit in self.budget.items()}
        if min(left.values(), default=1) <= 0:
            return {"outcome": None, "why": "the budget is spent"}
        words = [f"--replay-runs={self.runs if 'model' in released else 1}"]
        words += [f"--replay-budget={' '.join(f'{unit}={left[unit]:.9f}' for unit in left)}"] if left else []
        words += [f"--agentreplay-release={'|'.join(sorted(released))}"]
        done, data = run_live(lambda *live: self._run_pytest(*live, *words))
        self.state = self.state or next(iter(data.get("states", ())), "")
        if not data["verdicts"] and self.state:
            raise RunnerError(self.state)
        if not data["verdicts"]:
            raise RunnerError(f"{self.test}: nothing ran live: {done.stdout.strip()[-300:]}")
        verdict, results = data["verdicts"][0], [LiveResult.of(result) for result in data["results"]]
        self.layers = self.layers or results[0].layers
        drifts = [drift for result in results for drift in result.drifts]
        why = next(filter(None, [*(each.stopped for each in results), *(drift.summary for drift in drifts)]), "")
        # recorded replies cost nothing
        took = {name: verdict[name] for name in ("calls", "tokens", "cost") if "model" in released}
        return {"outcome": verdict["word"], "runs": len(results), "why": why, **took}

    def _run_pytest(self, *words: str) -> subprocess.CompletedProcess[str]:
        command, environ = prepare_pytest(self.root, [get_test_id(self.test), "-q", *words])
        done = subprocess.run(  # noqa: S603  a test of the user's
            command, cwd=self.root, env=environ, check=False, capture_output=True, text=True, errors="replace"
        )
        if done.returncode not in {0, 1}:
            raise RunnerError(f"{self.test}: pytest ended with {done.returncode}: {done.stderr or done.stdout[-300:]}")
        return done
