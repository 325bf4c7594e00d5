"""What many live runs of a test prove: the word, the layer, and how often a model without drift is accused."""

import random

import pytest

from pytest_agentreplay.backends.statistics import LivePlan, SequentialTest, anytime_interval, attribute, judge
from pytest_agentreplay.compare.live_result import Drift, LiveResult

DRIFT = (Drift("model", "$.tools", "equal", "other tools", [1], [2]),)
LIVE = {"FF": 1, "LF": 68}


def run(cell, *, same=True, stopped="", **more):
    return LiveResult("t", cell, drifts=() if same or stopped else DRIFT, stopped=stopped, **more)


def runs(cell, words):
    """Results by letters: s same, d drifted, x stopped, b stopped by the budget."""
    stopped = {"x": "the model answered 500", "b": "budget: calls=5 allows no further call"}
    return [run(cell, same=word == "s", stopped=stopped.get(word, "")) for word in words]


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("FF=d", ("drifted", "agent")),
        ("FF=x", ("inconclusive", "")),
        ("FF=s LF=s", ("same", "")),
        ("FF=s LF=d", ("drifted", "model")),
        ("FF=s FL=d", ("drifted", "tool")),
        ("FF=s FL=s LF=s LL=s", ("same", "")),
        ("FF=s FL=d LF=s LL=d", ("drifted", "tool")),
        ("FF=s FL=s LF=d LL=d", ("drifted", "model")),
        ("FF=s FL=d LF=d LL=d", ("drifted", "tool and model")),
        ("FF=s FL=s LF=s LL=d", ("drifted", "interaction")),
        ("FF=s FL=d LF=s LL=s", ("drifted", "tolerance")),
        ("FF=s FL=x LF=s LL=d", ("drifted", "model or tool")),
        ("FF=s FL=s LF=x LL=s", ("inconclusive", "")),
        ("LL=d", ("drifted", "model or tool")),
    ],
)
def test_the_layer_follows_from_the_cells(words, verdict):
    word = {"s": "same", "d": "drifted", "x": "inconclusive"}
    cells = dict(each.split("=") for each in words.split())
    assert attribute({cell: word[letter] for cell, letter in cells.items()}) == verdict
    results = [result for cell, letter in cells.items() for result in runs(cell, letter)]
    judged = judge(results, LivePlan(dict.fromkeys(cells, 1)))
    assert (judged["word"], judged["layer"]) == verdict


def test_when_a_number_of_runs_decides():
    """Fixed: all of them, by the rates p0 and p1. Auto: as soon as the sequential test says so."""
    for words, fixed in (
        ("s" * 19, None),
        ("s" * 19 + "d", "same"),
        ("s" * 17 + "ddd", "inconclusive"),
        ("ssss" * 4 + "dddd", "drifted"),
    ):
        verdict = judge(runs("LF", words), LivePlan({"LF": 20}))
        assert (verdict and verdict["word"]) == fixed, words
    auto = LivePlan({"LF": 68}, auto=True)
    for words, word in (
        ("s" * 13, None),
        ("s" * 14, "same"),
        ("dd", None),
        ("ddd", "drifted"),
        ("sssssddssdd", "drifted"),
    ):
        verdict = judge(runs("LF", words), auto)
        assert (verdict and verdict["word"]) == word, words


def test_a_run_that_proves_nothing_is_never_green_and_counts_neither_for_nor_against():
    auto = LivePlan({"LF": 68}, auto=True)
    assert judge(runs("LF", "s" * 13 + "x"), auto) is None
    verdict = judge(runs("LF", "x" + "s" * 14), auto)
    assert (verdict["word"], verdict["cells"]["LF"]["passes"], verdict["cells"]["LF"]["stopped"]) == ("same", 14, 1)
    assert verdict["cells"]["LF"]["interval"] == anytime_interval(14, 14)
    for words, plan in (
        ("ssxx", auto),
        ("sssb", auto),
        ("x", LivePlan({"LF": 1})),
        ("s" * 5, LivePlan({"LF": 5}, auto=True)),
    ):
        assert judge(runs("LF", words), plan)["word"] == "inconclusive", words


def test_nothing_live_is_waited_for_where_the_frozen_run_is_red():
    verdict = judge(runs("FF", "d"), LivePlan({"FF": 1, "FL": 9, "LF": 9, "LL": 9}))
    assert (verdict["word"], verdict["layer"], [*verdict["cells"]]) == ("drifted", "agent", ["FF"])


def test_the_verdict_adds_up_what_was_spent():
    spent = {"calls": 2, "tokens": {"input": 70, "output": 30}, "cost": 0.25}
    verdict = judge([run("FF"), run("LF", **spent), run("LF", same=False, **spent)], LivePlan({"FF": 1, "LF": 2}))
    assert (verdict["calls"], verdict["tokens"], verdict["cost"], verdict["word"]) == (4, 200, 0.5, "drifted")


def verification(rate, chance, plan):
    """The word of one live verification of a model with this pass rate."""
    results = [run("FF")]
    while (verdict := judge(results, plan)) is None:
        results.append(run("LF", same=chance.random() < rate))
    return verdict["word"], len(results) - 1


def test_200_verifications_without_drift_raise_no_more_false_alarms_than_promised(capsys):
    test, chance = SequentialTest(), random.Random(31)
    plan = LivePlan({"FF": 1, "LF": test.cap}, test, auto=True)
    words, lengths = zip(*(verification(test.p0, chance, plan) for _ in range(200)), strict=True)
    alarms = words.count("drifted")
    low, high = anytime_interval(200 - alarms, 200)
    with capsys.disabled():
        print(
            f"\n200 verifications at p0 {test.p0}: {alarms} false alarms, share {1 - high:.3f} to {1 - low:.3f}, {words.count('inconclusive')} inconclusive, mean {sum(lengths) / 200:.1f} runs"
        )
    assert 1 - high <= test.alpha
    assert alarms <= 17, "more than 17 of 200 has a probability below 1 % at the promised 5 %"
    assert sum(lengths) / 200 == pytest.approx(24, rel=0.2), "the mean of the design's table"
    missed = [verification(test.p1, chance, plan)[0] for _ in range(200)].count("same")
    assert missed <= 31, "more than 31 of 200 has a probability below 1 % at the promised 10 %"
