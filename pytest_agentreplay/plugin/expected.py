"""Expected failures: `xfail` excuses what the test does wrong, never that its run left the recording.

pytest turns any exception of a test into an expected failure, ours too. So the report is corrected after pytest has
made it: a finding fails the test unless the marker names `ReplayDiverged` in `raises`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Which of several `xfail` markers holds depends on their conditions; pytest keeps the answer here and nowhere public
# (since 6.0: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/skipping.py).
from _pytest.skipping import xfailed_key

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.plugin.stash import FINDING, RUN_SESSION

if TYPE_CHECKING:
    import pytest


def correct_report(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Fail an expected failure that is a finding of ours, or that hides one; expect a finding that is named."""
    if item.config.option.runxfail:
        return
    error = call.excinfo.value if call.excinfo is not None else None
    excused = hasattr(report, "wasxfail")
    if isinstance(error, ReplayDiverged) or hasattr(error, "finding") or hasattr(error, "agentreplay"):
        if (holds := item.stash.get(xfailed_key, None)) is not None and names_divergence(item):
            report.outcome, report.wasxfail = "skipped", holds.reason
        elif excused:
            report.outcome = "failed"
            del report.wasxfail
    elif excused and report.skipped and call.when == "call" and not names_divergence(item):
        fail_hidden(item, call, report)


def fail_hidden(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Fail a test that failed as expected, and no longer made calls of its recording before it did."""
    run_session = item.stash.get(RUN_SESSION, None)
    finding = run_session.failed_as_expected() if run_session is not None and FINDING not in item.stash else None
    if finding is None or call.excinfo is None:
        return
    import pytest

    from pytest_agentreplay.plugin.session_glue import failed, show_headline

    item.stash[FINDING] = finding
    error = failed(item, finding).with_traceback(call.excinfo.tb)
    # Not a text: until pytest 9 the short summary has no message for one.
    report.outcome, report.longrepr = "failed", item.repr_failure(pytest.ExceptionInfo.from_exception(error))
    show_headline(report, finding)
    report.user_properties = list(item.user_properties)
    del report.wasxfail


def names_divergence(item: pytest.Item) -> bool:
    """Whether the `xfail` that holds for the test names our exception: `raises=ReplayDiverged`, or a tuple with it."""
    holds = item.stash.get(xfailed_key, None)
    raises = getattr(holds, "raises", None)
    # pytest.RaisesExc keeps its classes in an attribute (pytest 8.4 and later).
    expected = getattr(raises, "expected_exceptions", raises)
    return ReplayDiverged in (expected if isinstance(expected, tuple) else (expected,))
