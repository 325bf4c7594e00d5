"""What live runs prove: the sequential test, its errors and its cost, worked out exactly; intervals; paired results.

The figures in the tables come from experiments that another implementation ran. Here no run is drawn at random but
where a test says so: `outcomes` and `ever` add up the chances of every way that runs can go.
"""

import math
from collections import Counter
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentreplay.backends.statistics import (
    PairedSummary,
    SequentialTest,
    anytime_interval,
    clean_runs_needed,
    pass_k,
    sign_test,
)
from pytest_agentreplay.errors import SettingsError

TABLE = {
    (0.95, 0.80): (34, {1.0: 14, 0.95: 24, 0.80: 21, 0.3: 4}, 0.012),
    (0.90, 0.70): (30, {1.0: 9, 0.90: 18, 0.70: 18, 0.3: 5}, 0.013),
    (0.99, 0.90): (38, {1.0: 24, 0.99: 30, 0.90: 23, 0.3: 3}, 0.010),
    (0.95, 0.85): (67, {1.0: 21, 0.95: 42, 0.85: 40, 0.3: 4}, 0.012),
}
"""p0 and p1: the fixed sample size, the mean runs for a true pass rate, and the inconclusive share at p0."""


def outcomes(test, rate):
    """Return the mean number of runs at a true pass rate, and how likely each verdict is."""
    going, mean, chance = {0: 1.0}, 0.0, Counter()
    for runs in range(1, test.cap + 1):
        later = Counter()
        for passes, weight in going.items():
            later[passes + 1] += weight * rate
            later[passes] += weight * (1 - rate)
        going = {}
        for passes, weight in later.items():
            verdict = test.verdict(passes, runs)
            if verdict is None:
                going[passes] = weight
            else:
                chance[verdict] += weight
                mean += runs * weight
    assert not going
    return mean, chance


@pytest.mark.parametrize(("p0", "p1"), TABLE)
def test_sequential_test_takes_the_runs_and_makes_the_errors_of_the_table(p0, p1):
    fixed, means, inconclusive = TABLE[p0, p1]
    test = SequentialTest(p0, p1)
    assert test.cap == 2 * fixed
    for rate, mean in means.items():
        assert outcomes(test, rate)[0] == pytest.approx(mean, rel=0.20), rate
    assert outcomes(test, p0)[1]["inconclusive"] == pytest.approx(inconclusive, rel=0.20)
    assert outcomes(test, p0)[1]["drifted"] <= test.alpha
    assert outcomes(test, p1)[1]["same"] <= test.beta


def verify(test, rate, random):
    """Return the verdict of one verification, whose runs are drawn."""
    passes = runs = 0
    while (verdict := test.verdict(passes, runs)) is None:
        passes, runs = passes + (random.random() < rate), runs + 1
    return verdict


def test_verifications_without_drift_raise_no_more_false_alarms_than_promised(record_property):
    test, random = SequentialTest(), Random(31)
    verdicts = Counter(verify(test, test.p0, random) for _ in range(5_000))
    low, high = anytime_interval(verdicts["drifted"], 5_000)
    record_property("false alarms at p0", f"{verdicts['drifted'] / 5_000:.4f} [{low:.4f}, {high:.4f}]")
    assert low <= outcomes(test, test.p0)[1]["drifted"] <= high <= test.alpha
    assert verify(test, 1.0, random) == "same"


def test_a_verdict_needs_evidence_and_the_last_run_gives_one():
    test = SequentialTest()
    assert [test.verdict(n, n) for n in (0, 13, 14)] == [None, None, "same"]
    assert [test.verdict(0, n) for n in (1, 2, 3)] == [None, None, "drifted"]
    assert (test.verdict(60, 67), test.verdict(61, 68)) == (None, "inconclusive")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p0": 0.8, "p1": 0.9}, "p0 = 0.8 and p1 = 0.9 make no test: p0, the pass rate without drift, must be above"),
        ({"p0": 0.8}, "for example agentreplay_live = p0=0.95 p1=0.80"),
        ({"p0": 1.0}, "both between 0 and 1"),
        ({"p1": 0.0}, "both between 0 and 1"),
        ({"p1": math.nan}, "p1 = nan make no test"),
        ({"alpha": 0.5}, "alpha = 0.5 is no share of errors: it must be above 0 and below 0.5"),
        ({"beta": 0}, "beta = 0 is no share of errors"),
    ],
)
def test_parameters_that_make_no_test_are_refused(parameters, message):
    with pytest.raises(SettingsError) as refused:
        SequentialTest(**parameters)
    assert message in str(refused.value)


@cache
def wilson_interval(passes, runs, z=1.96):
    rate, spread = passes / runs, z * math.sqrt(passes * (runs - passes) / runs + z * z / 4)
    return (rate * runs + z * z / 2 - spread) / (runs + z * z), (rate * runs + z * z / 2 + spread) / (runs + z * z)


def ever_excluded(interval, rate, runs):
    """Return how likely the interval leaves out the true rate at least once, when looked at after each run."""
    going = {0: 1.0}
    for count in range(1, runs + 1):
        later = Counter()
        for passes, weight in going.items():
            later[passes + 1] += weight * rate
            later[passes] += weight * (1 - rate)
        going = {p: weight for p, weight in later.items() if interval(p, count)[0] <= rate <= interval(p, count)[1]}
    return 1 - sum(going.values())


@pytest.mark.parametrize("rate", [0.5, 0.8, 0.95])
def test_the_interval_may_be_looked_at_after_every_run_and_a_wilson_interval_may_not(rate):
    assert ever_excluded(cache(anytime_interval), rate, 100) <= 0.05
    assert ever_excluded(wilson_interval, rate, 100) > 0.15


@pytest.mark.parametrize(
    ("passes", "runs", "low", "high"),
    [(1, 1, 0.03, 1), (5, 5, 0.38, 1), (10, 10, 0.58, 1), (20, 20, 0.74, 1), (18, 20, 0.59, 1), (59, 59, 0.89, 1)],
)
def test_interval_has_the_edges_of_the_table(passes, runs, low, high):
    assert anytime_interval(passes, runs) == pytest.approx((low, high), abs=0.006)


@given(st.integers(0, 400).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_interval_holds_what_was_seen_and_is_the_mirror_of_its_opposite(counts):
    passes, runs = counts
    low, high = anytime_interval(passes, runs)
    assert 0 <= low <= (passes / runs if runs else 0.5) <= high <= 1
    assert anytime_interval(runs - passes, runs) == pytest.approx((1 - high, 1 - low), abs=1e-9)


def test_pass_k_is_the_share_of_choices_of_k_runs_that_all_passed():
    assert pass_k(3, 4, 2) == 3 / 6
    assert pass_k(9, 10, 8) == pytest.approx(0.2)
    assert (pass_k(14, 14, 8), pass_k(2, 14, 8)) == (1, 0)
    assert (pass_k(4, 4, 5), pass_k(4, 4, 0)) == (None, None)


def test_clean_runs_needed_has_the_figures_of_the_table():
    assert [clean_runs_needed(rate) for rate in (0.5, 0.3, 0.2, 0.1, 0.05)] == [5, 9, 14, 29, 59]


def test_sign_test_is_exact_and_two_sided():
    assert [round(sign_test(*pair), 3) for pair in ((5, 0), (6, 0), (0, 6), (8, 1), (10, 2))] == [
        0.062, 0.031, 0.031, 0.039, 0.039,
    ]  # fmt: skip
    assert sign_test(0, 0) == sign_test(3, 3) == 1


def test_pairs_are_counted_from_passes_and_from_pass_rates():
    assert PairedSummary.of([(False, True), (True, True), (True, False), (False, True)]) == PairedSummary(2, 1, 1)
    assert PairedSummary.of([(0.8, 0.9)] * 6).p_value == sign_test(6, 0)
