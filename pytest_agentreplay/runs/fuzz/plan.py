"""PlanResult run by pytest: a plan is handed to a session of it, which writes each result as soon as it is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_agentreplay import clocks
from pytest_agentreplay.model.paths import get_test_id
from pytest_agentreplay.runs.fuzz.trials import TrialResult, read_result
from pytest_agentreplay.snapshots.store import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_agentreplay.runs.fuzz.trials import Trial

LOOK = 0.2  # seconds between two looks at the results
ENDING = 5.0  # seconds that pytest has for its end when the time is up
TAIL = 3000  # characters of what pytest printed, where no trial was judged


class PlanResult(NamedTuple):
    """What a session of pytest has shown: the results, items that came to none (with the reason), what it printed.

    `interrupted` says that somebody has ended it, or its time was up; `state` what the test leaves behind, in a line.
    """

    results: tuple[TrialResult, ...]
    unjudged: tuple[str, ...]
    printed: str
    code: int
    interrupted: bool = False
    state: str = ""

    @property
    def reason(self) -> str:
        """Why there is no result: what kept the first item from being judged, else what pytest printed last."""
        return next(iter(self.unjudged), "") or self.printed.strip()


def run_trials(
    root: Path,
    test: str,
    trials: Sequence[Trial],
    *,
    words: Sequence[str] = (),
    seconds: float = 0,
    show: Callable[[Sequence[TrialResult], float], None] | None = None,
    apart: bool = False,
) -> PlanResult:
    """Return what came of the trials of a test, or of a case file, run by pytest in `root` with more `words`.

    `seconds` end the session (0: none do). `show` is given the results so far, and the seconds spent. What an interrupt
    leaves is returned. With `apart` each has a process of its own, whether the test leaves state or not.
    """
    with TemporaryDirectory() as folder:
        plan, into = Path(folder) / "plan.json", Path(folder) / "results.jsonl"
        data = {"test": test, "trials": [trial.plain() for trial in trials], "into": str(into), "apart": apart}
        files.write_whole(plan, json.dumps(data))
        node = test if "::" not in test else get_test_id(test).partition("[")[0]
        command = [sys.executable, "-m", "pytest", node, "-q", "--tb=line", "--agentreplay-mode=model"]
        # Past the project's own flags: no failure ends the session, and none is remembered as one of the project.
        command += ["--maxfail=0", "-o", f"cache_dir={folder}/cache", f"--agentreplay-neighbours={plan}", *words]
        process = subprocess.Popen(  # noqa: S603  a test of the user's and the user's own words
            command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        printed, interrupted = watch(process, into, seconds, show)
        rows = [*read_rows(into)]
        results = tuple(read_result(row) for row in rows if "trial" in row)
        unjudged = tuple(f"{row['unjudged']}: {row['why']}" for row in rows if "unjudged" in row)
        state = next((row["state"] for row in rows if "state" in row), "")
        text = printed.decode("utf-8", "replace")[-TAIL:]
        return PlanResult(results, unjudged, text, process.returncode or 0, interrupted, state)


def watch(
    process: subprocess.Popen[bytes],
    into: Path,
    seconds: float,
    show: Callable[[Sequence[TrialResult], float], None] | None,
) -> tuple[bytes, bool]:
    """Wait for the end of a process, showing what it has written; return what it printed, and whether it was ended."""
    began = clocks.perf_counter()
    try:
        while True:
            try:
                return process.communicate(timeout=LOOK)[0], False
            except subprocess.TimeoutExpired:
                spent = clocks.perf_counter() - began
                if show is not None:
                    show([read_result(row) for row in read_rows(into) if "trial" in row], spent)
                if seconds and spent > seconds:
                    return end(process), True
    except KeyboardInterrupt:
        return end(process), True


def end(process: subprocess.Popen[bytes]) -> bytes:
    """End a process, by force where it does not end by itself; return what it printed."""
    process.terminate()
    try:
        return process.communicate(timeout=ENDING)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


def read_rows(file: Path) -> Iterator[Any]:
    """Yield the whole lines of a file of results; none where there is no file yet."""
    data = files.read_file(file) if files.exists(file) else b""
    yield from (json.loads(line) for line in data.split(b"\n")[:-1])
