"""What people read of many live runs: the report of the run that decides, and a line for each test."""

from pytest_agentreplay.backends.statistics import LivePlan, judge
from pytest_agentreplay.compare.live_result import Drift, LiveResult
from pytest_agentreplay.report.finding import format_finding
from pytest_agentreplay.report.live_reports import describe_live_verdict, format_verdicts

TEST = "tests/test_shop.py::test_refund"
DRIFT = Drift("model", "$.tools[1].name", "equal", "another tool was called", "refund", "apologize", 2, default=True)
SPENT = {"calls": 2, "tokens": {"input": 1000, "output": 200}, "cost": 0.015, "model": "m-1", "seconds": 2.0}
FACTS = {"file": "", "recorded": "2026-11-01"}


def results(words, cell="LF"):
    stopped = {"x": "the model answered 503 Service Unavailable"}
    drifts = {"d": (DRIFT,)}
    return [
        LiveResult(TEST, cell, drifts=drifts.get(word, ()), stopped=stopped.get(word, ""), **SPENT) for word in words
    ]


def verdict_of(words, **runs):
    every = [LiveResult(TEST, "FF"), *results(words)]
    return judge(every, LivePlan({"FF": 1, "LF": len(words), **runs})) | {"evidence": ["served m-1 -> m-1b"]}, every


def test_the_report_of_the_run_that_decides():
    verdict, every = verdict_of("ssssdssdsd")
    finding = describe_live_verdict(verdict, every, FACTS, None)
    assert finding.properties == {"code": "AR-DRIFT", "verdict": "drifted", "layer": "model"}
    shown = format_finding(finding)
    assert max(map(len, shown.splitlines())) <= 80
    assert len(shown.splitlines()) <= 24
    assert (
        shown
        == """\
[AR-DRIFT] MODEL DRIFT in 3 of 10 live runs: another tool was called

  $.tools[1].name   another tool was called
    recorded  refund
    now       apologize

  all frozen    1 of 1 same, pass rate 0.02 to 1.00
  model live    7 of 10 same, pass rate 0.27 to 0.96, pass^8 0.00
  spent         20 calls, 12,000 tokens, $0.1500
  tolerance     equal, a shipped default: no tolerance of yours names this place
  ran           model LIVE, tools frozen; 2 model calls, 1000 + 200 tokens, 2.0
                s
  snapshot       (recorded 2026-11-01)
  changed       served m-1 -> m-1b

  run it again:
    pytest --replay=live tests/test_shop.py::test_refund
  keep the new behaviour:
    pytest --snapshot-record tests/test_shop.py::test_refund"""
    )


def test_the_report_of_runs_that_prove_nothing():
    verdict, every = verdict_of("sssxx")
    assert (
        format_finding(describe_live_verdict(verdict, every, FACTS, None))
        == """\
[AR-LIVE] INCONCLUSIVE, the same in 3 of 3 live runs: the model answered 503
  Service Unavailable

  all frozen    1 of 1 same, pass rate 0.02 to 1.00
  model live    3 of 3 same, pass rate 0.23 to 1.00, 2 stopped
  spent         10 calls, 6,000 tokens, $0.0750
  nothing was compared, and nothing was written: the run counts neither for nor
    against
  changed       served m-1 -> m-1b

  run it again:
    pytest --replay=live tests/test_shop.py::test_refund"""
    )


def test_a_line_of_80_columns_for_each_test_and_the_totals():
    drifted, same = verdict_of("ssssdssdsd")[0], verdict_of("sss")[0]
    same["test"] = "tests/agents/checkout/test_a_module_with_a_long_name.py::test_what_nobody_reads"
    lines = format_verdicts([drifted, same])
    assert all(len(line) <= 80 for line in lines)
    assert lines == [
        "live  drifted      model          7/10  0.27-0.96  .../test_shop.py::test_refund",
        "live  same                         3/3  0.23-1.00  ...py::test_what_nobody_reads",
        "live  1 drifted, 1 same; 26 calls, 15,600 tokens, $0.1950",
    ]
    assert format_verdicts([]) == []
