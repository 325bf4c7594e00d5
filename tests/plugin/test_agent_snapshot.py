"""`assert run == agent_snapshot`: syrupy's life of a snapshot, with our transcript and our words for a difference."""

from __future__ import annotations

import pytest

CONFTEST = """
import pytest
from pytest_agentreplay.core.model import Exchange, Header, Run, ToolCall, ToolReply
from pytest_agentreplay.cases.view import RunView
from pytest_agentreplay.dialects import READER
from pytest_agentreplay.transcript import wrap

@pytest.fixture
def run():
    calls = [("lookup_order", {"order_id": 7}, "shipped"), ("refund", {"order_id": RESULT}, "done")]
    run = Run(Header("t"), tuple(
        Exchange(ToolCall(name, arguments), ToolReply(result), 2 * n, 2 * n + 1)
        for n, (name, arguments, result) in enumerate(calls)
    ))
    return RunView(lambda: run, READER)

@pytest.fixture
def told(snapshot, request):
    return wrap(snapshot, update=request.config.getoption("--take"))

def pytest_addoption(parser):
    parser.addoption("--take", action="store_true")

RESULT = 7
"""

TEST = """
def test_order(run, told):
    assert run == told

def test_other(snapshot):
    assert VALUE == snapshot

VALUE = 1
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_shop=TEST)

    def run(*arguments):
        pytester.syspathinsert()
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "syrupy", *arguments)

    assert run("--snapshot-update").ret == 0
    return pytester, run


def change(pytester, file, old, new):
    path = pytester.path / file
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_the_transcript_is_a_file_of_its_own(suite):
    pytester, run = suite
    text = (pytester.path / "__snapshots__" / "test_shop" / "test_order.run.txt").read_text(encoding="utf-8")
    assert text.startswith("turn 0  before the first model call\n  ran lookup_order(")
    result = run()
    result.assert_outcomes(passed=2)
    assert result.ret == 0


def test_a_difference_is_told_by_its_turn(suite):
    pytester, run = suite
    change(pytester, "conftest.py", "RESULT = 7", "RESULT = 8")
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*first divergent turn: turn 0  before the first model call",
            'E*-   ran refund({"order_id":7})',
            'E*+   ran refund({"order_id":8})',
        ]
    )
    assert result.stdout.str().count("shipped") <= 2  # neither repr spells the run out


def test_recording_takes_the_transcripts_of_its_own_tests_alone(suite):
    pytester, run = suite
    change(pytester, "conftest.py", "RESULT = 7", "RESULT = 8")
    change(pytester, "test_shop.py", "VALUE = 1", "VALUE = 2")
    run("--take").assert_outcomes(passed=1, failed=1)
    run().assert_outcomes(passed=1, failed=1)
    change(pytester, "test_shop.py", "VALUE = 2", "VALUE = 1")
    run().assert_outcomes(passed=2)


def test_a_transcript_that_is_not_there_is_a_failure(suite):
    pytester, run = suite
    (pytester.path / "__snapshots__" / "test_shop" / "test_order.run.txt").unlink()
    result = run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E*Snapshot 'test_order' does not exist!*"])


def test_what_is_no_run_is_said(suite):
    pytester, run = suite
    change(pytester, "test_shop.py", "run == told", "'a text' == told")
    run().stdout.fnmatch_lines(["E*TypeError: expected a run, `agentreplay.run` or a loaded snapshot, not str"])


def lines(recorded, now):
    from pytest_agentreplay.transcript import difference  # syrupy is loaded with it

    return list(difference(recorded, now))


def test_the_difference_of_two_transcripts(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    one = "turn 1  gpt-5\n  user: hi\n  answers: a\n\nturn 2  gpt-5\n  answers: b\n"
    assert lines(one, one) == []
    assert lines(one, one.replace("answers: a", "answers: x").replace("answers: b", "answers: y")) == [
        "first divergent turn: turn 1  gpt-5",
        "    user: hi",
        "-   answers: a",
        "+   answers: x",
        "  ... and 1 later turn differs",
    ]
    shorter = one.partition("\n\n")[0] + "\n"
    assert lines(one, shorter)[:2] == ["first divergent turn: turn 2  gpt-5", "- recorded, but the run ended before it"]
    assert lines(shorter, one)[:2] == ["first divergent turn: turn 2  gpt-5", "+ one turn more than recorded"]


def test_a_large_difference_is_cut_and_cheap(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    old = "turn 1  a\n" + "".join(f"  old {n}\n" for n in range(20_000))
    new = "turn 1  a\n" + "".join(f"  new {n}\n" for n in range(20_000))
    found = lines(old, new)
    assert len(found) == 14
    assert found[-1] == "  ... 39988 more lines differ in this turn"
