"""Which ends of an agent are crashes, and which calls violate an invariant."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agentreplay.core.matching import Matching
from pytest_agentreplay.core.model import ToolCall
from pytest_agentreplay.core.perturbation import Perturbation
from pytest_agentreplay.dialects import READER, RULES
from pytest_agentreplay.fuzz import invariants
from pytest_agentreplay.fuzz.invariants import MOST_RETRIES, Violation, find_crash, find_violations
from pytest_agentreplay.fuzz.shrinking import FuzzFailure, find_cause, group_failures, shrink
from pytest_agentreplay.fuzz.trials import Trial, TrialResult
from tests.support import exchanges

MATCHING = Matching(READER, RULES)
ROOT = Path(__file__).parent
REFUND = ToolCall("refund", {"order": "A-1"})


def find(before, now, *neighbour):
    """The names of the invariants that calls violate; tools that change something begin with "re"."""
    effects = lambda call: isinstance(call, ToolCall) and call.name.startswith("re")  # noqa: E731
    return [each.invariant for each in find_violations(before, now, neighbour, MATCHING, effects)]


def ask(text, *messages):
    return exchanges.call({"model": "m", "messages": [{"role": "user", "content": text}, *messages]})


def test_what_changes_something_is_done_as_often_as_recorded_and_with_recorded_arguments():
    other = ToolCall("refund", {"order": "A-2"})
    assert find([REFUND], [REFUND]) == find([REFUND], []) == []
    assert find([REFUND], [REFUND, REFUND]) == ["repeated effect"]
    assert find([REFUND], [other]) == ["unrecorded effect"]
    # What was never called has no arguments to be held against, and what only reads may be repeated.
    assert find([REFUND], [REFUND, ToolCall("report", {"to": "ops"}), ToolCall("lookup"), ToolCall("lookup")]) == []


def test_under_another_clock_one_day_is_taken_for_one_day():
    clock = Perturbation("clock", 1, "2028-02-29T00:00:00+00:00")

    def report(first, last, at="2026-11-27T09:00:00Z"):
        return ToolCall("report", {"from": first, "to": last, "at": at})

    recorded = [report("2026-11-27", "2026-11-27")]
    assert find(recorded, [report("2028-02-29", "2028-02-29", "2028-02-29T00:00:01Z")], clock) == []
    assert find(recorded, [report("2028-02-28", "2028-02-29")], clock) == ["unrecorded effect"]
    assert find(recorded, [report("2028-02-29", "2028-02-29")]) == ["unrecorded effect"]


def test_a_secret_goes_nowhere_else():
    secret = "[[redacted:key:1]]"
    known = ToolCall("login", {"key": secret})
    assert find([known], [known]) == []
    assert find([known], [known, ToolCall("note", {"text": f"key {secret}"})]) == ["secret in a new place"]


def test_a_request_is_one_that_a_service_takes():
    use = {"role": "assistant", "tool_calls": [exchanges.chat_use("call_1", "lookup", "{}")]}
    result, orphan = ({"role": "tool", "tool_call_id": name, "content": "x"} for name in ("call_1", "call_2"))
    assert find([ask("a")], [ask("a", use, result)]) == []
    assert find([ask("a")], [ask("a", use, orphan)]) == ["valid request"]
    assert find([ask("a", use, orphan)], [ask("a", use, orphan)]) == []


def test_a_request_is_not_repeated_for_ever():
    assert find([ask("a")], [ask("a")] * (MOST_RETRIES + 1)) == []
    assert find([ask("a")], [ask("a")] * (MOST_RETRIES + 2)) == ["bounded retries"]


def raise_on_purpose():
    raise ValueError("no such order")


def assert_on_purpose():
    assert not "x", "on purpose"


def misread():
    return {}["status"]


def misread_json():
    return json.loads("{")


@pytest.mark.parametrize(
    ("function", "crashes"),
    [(raise_on_purpose, False), (assert_on_purpose, False), (misread, True), (misread_json, True)],
)
def test_an_error_that_python_raises_is_a_crash_and_one_that_the_code_raises_is_not(function, crashes):
    with pytest.raises(Exception) as caught:
        function()
    crash = find_crash(caught.value, ROOT, None)
    assert (crash is not None) is crashes
    if crash is not None:
        assert f"in {function.__name__} (test_invariants.py:" in crash.text
        assert find_crash(ExceptionGroup("several", [caught.value]), ROOT, None) == crash


def test_an_error_inside_a_library_or_of_the_test_itself_is_no_crash(monkeypatch):
    with pytest.raises(KeyError) as caught:
        misread()
    assert find_crash(caught.value, ROOT, misread.__code__) is None
    assert find_crash(caught.value, ROOT / "elsewhere", None) is None
    monkeypatch.setattr(invariants, "LIBRARIES", (Path(__file__).parent.name,))
    assert find_crash(caught.value, ROOT, None) is None
    assert find_crash(None, ROOT, None) is None
    assert find_crash(RuntimeError("a client's error"), ROOT, None) is None


def test_failures_are_grouped_by_cause_and_shrunk_to_the_fewest_perturbations():
    timeout, split, order = (
        Perturbation("timeout", 3),
        Perturbation("split-stream", 1, 5),
        Perturbation("clock", 2, "x"),
    )
    twice = Violation("repeated effect", 'refund(order="A-1") was called 2 times, recorded 1')
    thrice = Violation("repeated effect", 'refund(order="A-1") was called 3 times, recorded 1')
    crash = Violation("no crash", "KeyError in read (shop.py:3): 'x'")
    assert find_cause(twice) == find_cause(thrice) != find_cause(crash)
    results = [
        TrialResult(Trial(1, (split, timeout, order)), (twice,)),
        TrialResult(Trial(2, (split, timeout)), (thrice,)),
        TrialResult(Trial(3, (split,)), ()),
        TrialResult(Trial(4, (order,)), (crash,)),
    ]
    failures = group_failures(results)
    assert failures == [FuzzFailure(crash, (order,), 1), FuzzFailure(thrice, (split, timeout), 2)]

    def run(trials):
        for trial in trials:
            yield TrialResult(trial, (twice,) if timeout in trial.neighbour else ())

    assert shrink(failures[1], [], Trial(0, ()), run) == FuzzFailure(twice, (timeout,), 2)


def test_operators_that_show_the_same_violation_by_themselves_are_causes_of_their_own():
    wrong, cut, reset, timeout, piece = (
        Perturbation("wrong-types", 1),
        Perturbation("cut-stream", 1, 5),
        Perturbation("connection-reset", 2),
        Perturbation("timeout", 2),
        Perturbation("split-stream", 1, 1),
    )
    other = Violation("unrecorded effect", "refund(order=7) is not recorded with these arguments")
    crash = Violation("no crash", "KeyError in read (shop.py:3): 'x'")
    shown = [(wrong,), (cut,), (cut, piece), (reset,), (timeout,), (piece, timeout), (piece,)]
    results = [TrialResult(Trial(number, neighbour), (other,)) for number, neighbour in enumerate(shown)]
    groups = {failure.neighbour: failure.shown_by for failure in group_failures(results)}
    assert groups == {(wrong,): 1, (cut,): 2, (reset,): 2, (piece,): 2}
    crashes = [TrialResult(Trial(number, neighbour), (crash,)) for number, neighbour in enumerate(shown)]
    assert [failure.shown_by for failure in group_failures(crashes)] == [len(shown)]


def test_hypothesis_and_pytest_are_not_needed_to_judge():
    code = "import sys, pytest_agentreplay.fuzz.invariants; print({'pytest', 'hypothesis'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
