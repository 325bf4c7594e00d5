"""One change behind several tests: one cause, one report, one command."""

from dataclasses import replace

from pytest_agentreplay.model.divergence import ABSENT, Difference, Divergence, Kind
from pytest_agentreplay.report import findings
from pytest_agentreplay.report.finding import find_cause, format_first_lines, make_shared_notices
from pytest_agentreplay.report.notices import format_footer

TESTS = [f"tests/test_shop.py::test_{name}" for name in ("c", "a", "b", "d")]
ARGS = Divergence(Kind.ARGS, "tool f: $.arguments.n changed", differences=(Difference("$.arguments.n", 1, 2),))
MISSING = Divergence(Kind.MISSING, "the test ended", differences=(Difference("call", 'tool f {"n":1}', ABSENT),))
PROMPT = replace(ARGS, kind=Kind.PROMPT)
FIXTURE = "tests/conftest.py::@answers"


def causes(divergence, tests, of=""):
    """What tells the causes of the findings of `tests`, which are those of the fixture `of` where that is given."""
    found = [
        (findings.describe_divergence(divergence, of or test, {"file": f"{of or test}.snapshot.json"}), test)
        for test in tests
    ]
    return [find_cause(finding, test) for finding, test in found]


def test_the_same_change_of_any_kind_is_one_cause():
    for divergence in (ARGS, MISSING, PROMPT):
        assert len({cause.digest for cause in causes(divergence, TESTS)}) == 1
    (other,) = causes(replace(ARGS, differences=(Difference("$.arguments.n", 1, 3),)), TESTS[:1])
    (of_another_tool,) = causes(replace(ARGS, summary="tool g: $.arguments.n changed", turn=2, turns=3), TESTS[:1])
    (later,) = causes(replace(ARGS, turn=2, turns=3), TESTS[:1])
    assert len({cause.digest for cause in (other, of_another_tool, later, *causes(ARGS, TESTS))}) == 3
    assert later.digest == causes(ARGS, TESTS)[0].digest


def test_each_test_without_a_snapshot_is_one_cause_and_a_fixture_without_one_is_that_of_all_that_share_it():
    new = Divergence(Kind.NEW, "no snapshot is recorded")
    assert len({cause.digest for cause in causes(new, TESTS)}) == 4
    assert len({cause.digest for cause in causes(new, TESTS, FIXTURE)}) == 1


def test_the_command_is_one_that_takes_this_change_in_all_tests():
    def last(divergence, tests, of=""):
        return format_first_lines(causes(divergence, tests, of))[-1].strip()

    assert last(PROMPT, TESTS[:2]).startswith(f"agentreplay accept {TESTS[1]} {TESTS[0]} --requests --reason ")
    assert last(ARGS, TESTS[:2]) == f"pytest --snapshot-record {TESTS[1]} {TESTS[0]}"
    assert last(MISSING, TESTS) == "pytest --snapshot-record --last-failed"
    assert last(MISSING, TESTS, FIXTURE) == "pytest --snapshot-record tests"


def test_the_tests_are_named_and_not_their_fixture():
    named = "the same change in 4 tests: " + ", ".join(sorted(TESTS)[:3]) + " and 1 more"
    assert format_first_lines(causes(ARGS, TESTS, FIXTURE))[1].strip() == named
    notices = make_shared_notices([causes(ARGS, TESTS[:1]), causes(MISSING, TESTS[:2])])
    lines = format_footer(notices, -2)
    assert lines[0].startswith("shared    [AR-MISSING] ")
    assert lines[1:] == [
        f"          in 2 tests: {TESTS[1]}, {TESTS[0]}",
        f"          to keep the new behaviour:   pytest --snapshot-record {TESTS[1]} {TESTS[0]}",
    ]
