"""What a case comes to, for each state of both lists of checks: one row, and nothing doubtful is green."""

import itertools
import string

import pytest

from pytest_agentreplay.runs.cases.verdict_rules import TABLE, find_row

OBSERVED = ("hold", "gone", "otherwise", "left", "cannot tell", "broken", "no runner", "asks live", "stopped", "none")
DESIRED = (
    "hold", "fail", "left", "cannot tell", "not run", "broken", "to read", "no runner", "asks live", "stopped", "none"
)  # fmt: skip
EXPECTED = ("reproduces", "own runner", "fixed")


def is_possible(expect, observed, desired):
    """Whether a case comes to it: `VerdictRules` says which states an expectation leaves."""
    if (observed, desired) == ("none", "none"):
        return False  # a case without checks is an error
    if expect == "fixed":
        return observed != "otherwise" and desired not in {"left", "not run", "broken"}
    if observed == "no runner" or desired == "no runner":
        return False  # without a runner its recording shows the failure
    return desired not in {"left", "not run", "broken", "none"} if expect == "own runner" else True


COMBINATIONS = [each for each in itertools.product(EXPECTED, OBSERVED, DESIRED) if is_possible(*each)]
HOLDS = {
    ("reproduces", "hold"): {"fail", "left", "not run", "to read", "asks live", "none"},
    ("own runner", "hold"): {"hold", "to read", "asks live"},
    ("own runner", "none"): {"hold"},
    ("fixed", "gone"): {"hold", "to read", "none"},
    ("fixed", "none"): {"hold"},
}


def test_a_case_holds_in_these_states_and_no_others():
    holds = {}
    for expect, observed, desired in COMBINATIONS:
        if find_row(expect, observed, desired).word == "holds":
            holds.setdefault((expect, observed), set()).add(desired)
    assert holds == HOLDS


@pytest.mark.parametrize("unknown", ["cannot tell", "broken", "no runner", "stopped"])
def test_what_shows_nothing_never_passes(unknown):
    for expect, observed, desired in COMBINATIONS:
        if unknown in {observed, desired}:
            assert find_row(expect, observed, desired).outcome in {"failed", "skipped"}, (expect, observed, desired)


def test_each_row_is_needed_and_says_what_to_type():
    used = {find_row(*each) for each in COMBINATIONS}
    assert [row for row in TABLE if row not in used] == []
    for row in TABLE:
        fields = {name for _, name, _, _ in string.Formatter().parse(row.headline) if name}
        # What could not be told has its steps below the headline: they depend on why.
        # So has a failure that is there: it depends on whether a fix has held before.
        assert row.word != "changed" or row.by == "observed" or fields & {"file", "folder", "run"}, row
