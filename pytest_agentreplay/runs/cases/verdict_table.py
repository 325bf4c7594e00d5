"""The one table that says what a case comes to, given its `expect` and what each list of checks came to.

The states of the observed checks:
    hold          the failure recurs
    gone          at least one of them fails today
    otherwise     the same, and the agent ended with an error that the recording does not have
    left          today's run left its recording, so they say nothing
    cannot tell   the agent dies before it asks, reaches past the recording, or no check could be made
    broken        they do not hold on the recording of the failure itself
The states of the desired checks:
    hold, fail    on today's run
    left          as above; only where the case does not need them to hold
    cannot tell   as above; also a run that left its recording where the case needs them to hold
    not run       nobody runs the agent, and on the recording they fail, as they should
    broken        nobody runs the agent, and on the recording of the failure they hold
    to read       all of them are for people
Of either: no runner, asks live (the real model is needed and not allowed), stopped (a live run ended early), none.

A case needs the desired checks where it expects `fixed`, or where they have a runner of their own ("own runner").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_agentreplay.report.verdict import Outcome, State, Word


class Row(NamedTuple):
    """One row: what it matches ("*" is all, "a|b" either), and what follows. `by` is the list that decides."""

    expect: str
    observed: str
    desired: str
    word: Word
    state: State
    outcome: Outcome
    by: str
    headline: str


OPEN = "reproduces|own runner"
LINT = ". Run agentreplay lint {file}"
FIX = ". Set expect: fixed in {file}"
COMPARE = ". Compare with agentreplay show {run}"
WHETHER = "cannot tell whether the failure reproduces: {observed}"
WHETHER_FIXED = "cannot tell whether it is fixed: {desired}"

TABLE = tuple(
    Row(*row)
    for row in (  # the first that matches
        # What is wrong with the case itself.
        ("*", "broken", "*", "broken", "", "failed", "observed",
         "broken case: the observed checks do not hold on its own recording ({observed})" + LINT),
        ("*", "*", "broken", "broken", "", "failed", "desired",
         "broken case: all desired checks hold on the recording of the failure, so they do not show a fix" + LINT),
        ("*", "no runner", "*", "no runner", "", "failed", "observed", "{observed}"),
        ("*", "*", "no runner", "no runner", "", "failed", "desired", "{desired}"),
        # The failure is back. No doubt about the desired checks makes that better.
        ("fixed", "hold", "*", "changed", "reproduces", "failed", "observed",
         "FAILURE REPRODUCED: {observed}, served {served}"),
        # An agent that reaches past its recording, or dies at once, shows nothing.
        ("*", "cannot tell", "*", "cannot tell", "", "failed", "observed", WHETHER),
        ("*", "*", "cannot tell", "cannot tell", "", "failed", "desired", WHETHER_FIXED),
        # The failure has gone, and the case does not say so yet.
        (OPEN, "otherwise", "*", "changed", "fails differently", "failed", "observed",
         "fails differently: {observed}, and the agent ends with an error" + COMPARE),
        (OPEN, "gone", "hold", "changed", "fixed", "failed", "observed",
         "the failure no longer reproduces; all desired checks hold{by}" + FIX),
        ("reproduces", "left", "hold", "changed", "fixed", "failed", "observed",
         "today's run left its recording; all desired checks hold{by}" + FIX),
        ("reproduces", "none|asks live|stopped", "hold", "changed", "fixed", "failed", "desired",
         "all desired checks hold{by}" + FIX),
        (OPEN, "gone", "fail", "changed", "fails differently", "failed", "observed",
         "fails differently: {observed}, {desired}" + COMPARE),
        (OPEN, "gone", "*", "changed", "no longer reproduces", "failed", "observed",
         "the failure no longer reproduces ({observed}); {desired}" + FIX),
        ("reproduces", "hold", "hold", "changed", "reproduces", "failed", "desired",
         "the failure reproduces, and all desired checks hold as well, so they do not show a fix" + LINT),
        ("*", "left", "*", "cannot tell", "", "failed", "observed", WHETHER),
        ("own runner|fixed", "*", "fail", "changed", "not fixed", "failed", "desired",
         "not fixed: {desired}. Fix the agent, then run agentreplay replay {folder}"),
        ("*", "stopped", "*", "cannot tell", "", "failed", "observed", WHETHER),
        ("*", "*", "stopped", "cannot tell", "", "failed", "desired", WHETHER_FIXED),
        # The case holds.
        (OPEN, "hold", "*", "holds", "reproduces", "passed", "observed",
         "the failure reproduces: {observed}, served {served}"),
        ("*", "asks live", "*", "asks live", "", "skipped", "observed", "{observed}"),
        ("*", "*", "asks live", "asks live", "", "skipped", "desired", "{desired}"),
        ("fixed", "gone", "hold", "holds", "fixed", "passed", "desired", "fixed{by}: {desired}, served {served}"),
        ("fixed", "gone", "to read|none", "holds", "fixed", "passed", "observed",
         "fixed{by}: the failure does not reproduce ({observed}); {desired}"),
        ("own runner|fixed", "none", "hold", "holds", "fixed", "passed", "desired",
         "fixed{by}: {desired}, served {served}"),
        # Nothing says what went wrong, so nothing can recur.
        ("*", "none", "to read", "to read", "", "skipped", "desired", "{desired}, and there are no others"),
        ("reproduces", "none", "fail|left|not run", "not fixed yet", "", "expected", "desired",
         "not fixed yet: {desired}"),
    )
)  # fmt: skip


def find_row(expect: str, observed: str, desired: str) -> Row:
    """Return the first row that matches. Raises LookupError where none does, which no case comes to."""
    given = expect, observed, desired
    for row in TABLE:
        if all(pattern == "*" or value in pattern.split("|") for pattern, value in zip(row[:3], given, strict=True)):
            return row
    raise LookupError(given)
