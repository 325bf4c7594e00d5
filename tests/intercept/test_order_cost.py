"""What the recorded order costs does not grow with the number of calls: lines are counted, not time."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def lines_per_call(tmp_path, monkeypatch):
    """Lines of the ordering machinery that run for each call of a crowd of tasks: (recording, replaying)."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import ordering

    def measure(calls, tasks):
        crowd = ordering.Crowd(tmp_path / f"{calls}", ordering.in_tasks, calls, tasks)
        recording = ordering.counted(crowd.record) / calls
        return recording, ordering.counted(lambda: crowd.replay("recorded")) / calls

    return measure


def test_a_call_costs_the_same_in_a_long_run(lines_per_call):
    """Four times the calls, the same work for each; the machine may give some rounds of the loop more."""
    short, long = lines_per_call(50, 10), lines_per_call(200, 10)
    assert 0 < long[0] <= 1.5 * short[0]
    assert 0 < long[1] <= 1.5 * short[1]
