"""The reports of pytest about a test: failed by our findings, with our data, and without secrets.

A report crosses xdist as plain JSON (`pytest_report_to_serializable` copies its `__dict__`), so the attributes that it
carries for us hold plain data; all others read and write them by these functions, as the types of `report.summary`.

What pytest itself shows of the test is shown without its secrets: tracebacks, captured output, warnings. pytest
keeps a failure as objects that it draws later, for the terminal, for JUnit and for other plugins. Their texts are
changed in place, and only where a secret stands in them, so that whoever draws them finds what it knows.

`xfail` excuses what the test does wrong, never that its run left the recording. pytest turns any exception of a test
into an expected failure, ours too; so its report is corrected: a finding fails the test unless the marker names
`ReplayDiverged` in `raises`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pytest

# Which of several `xfail` markers holds depends on their conditions; pytest keeps the answer here and nowhere public
# (since 6.0: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/skipping.py).
from _pytest.skipping import xfailed_key

from pytest_agentreplay.errors import ReplayDiverged
from pytest_agentreplay.plugin import keys
from pytest_agentreplay.plugin.keys import get_late_calls, get_redaction
from pytest_agentreplay.report.summary import Proof, SessionSummary, restore_plain, to_plain

if TYPE_CHECKING:
    import warnings
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from _pytest.outcomes import Exit

    from pytest_agentreplay.report.finding import Finding
    from pytest_agentreplay.runs.run_session import RunSession

    Hide = Callable[[str], str]


OUR_MODULES = "pytest_agentreplay."
SHOWN_MODULES = "pytest_agentreplay.cli.demo."  # an agent, and nobody's machinery
TEST = "agentreplay"
FIXTURES = "agentreplay_fixtures"


def find_hider(item: pytest.Item) -> Hide:
    """Return what redacts a text about `item`: the secrets of its run, and where it has none, of the environment."""
    redactions = item.stash.get(keys.REDACTIONS, None) or [get_redaction(item.config)]
    return lambda text: reduce(lambda text_so_far, redaction: redaction.hide(text_so_far), redactions, text)


def hide_report(report: pytest.TestReport, hide: Hide) -> None:
    """Take the secrets off all that `report` shows."""
    report.sections = [(title, hide(text)) for title, text in report.sections]
    report.user_properties = [
        (name, hide(value) if isinstance(value, str) else value) for name, value in report.user_properties
    ]
    if hasattr(report, "wasxfail"):
        report.wasxfail = hide(report.wasxfail)
    if report.longrepr is None:
        return
    report.longrepr = hide_in(report.longrepr, hide, set())
    text = report.longreprtext
    if (without := hide(text)) != text:  # it is drawn by somebody whom we do not know
        report.longrepr = without


def hide_in(value: Any, hide: Hide, seen: set[int]) -> Any:
    """Return a text, or what is made of texts, without secrets. The objects of pytest stay the ones that they are."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list | tuple):
        items = [hide_in(item, hide, seen) for item in value]
        changed = any(now is not was for now, was in zip(items, value, strict=True))
        return type(value)(items) if changed and type(value) in {list, tuple} else value
    if type(value).__module__ == "_pytest._code.code" and id(value) not in seen:
        seen.add(id(value))
        for name, was in list(vars(value).items()):
            if (now := hide_in(was, hide, seen)) is not was:
                object.__setattr__(value, name, now)
    return value


def leave_out_our_frames(error: BaseException | None) -> None:
    """Have pytest leave the frames of this package out of the traceback: their locals are what the agent had sent."""
    if not getattr(error, "pytrace", True):
        return  # it has no traceback to be shown, and pytest would say that all of it is hidden
    for exception in list_exception_chain(error, set()):
        traceback = exception.__traceback__
        while traceback is not None:
            names = traceback.tb_frame.f_globals
            module = str(names.get("__name__", ""))
            if module.startswith(OUR_MODULES) and not module.startswith(SHOWN_MODULES):
                names.setdefault("__tracebackhide__", True)
            traceback = traceback.tb_next


def list_exception_chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """Yield an exception and all that pytest shows with it: causes, contexts, members of a group."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(other, BaseException):
            yield from list_exception_chain(other, seen)


def hide_reason(error: Exit, hide: Hide) -> None:
    """Redact the reason given to `pytest.exit`: pytest prints it when the session ends, beside any report."""
    error.msg = hide(str(error.msg))
    error.args = tuple(hide(value) if isinstance(value, str) else value for value in error.args)


def add_redacted_notice(
    report: pytest.TestReport, failure: pytest.ExceptionInfo[BaseException] | None, claims: Mapping[str, str]
) -> bool:
    """Report that a test fails by a placeholder in a recorded reply, or lacks one of its `claims`; return whether."""
    from pytest_agentreplay.report.other_findings import describe_redacted, describe_redacted_claim

    message = str(failure.value) if failure is not None else ""
    line = describe_redacted(f"{message}\n{report.longreprtext}") or describe_redacted_claim(message, claims)
    if line:
        add_section(report, line)
    return bool(line)


def add_section(report: pytest.TestReport, text: str) -> None:
    """Add our section to a failure: to its traceback where it has one, for `--show-capture=no` and for JUnit."""
    add = getattr(report.longrepr, "addsection", None)
    if add is not None:
        add("agentreplay", text)
    else:
        report.sections.append(("agentreplay", text))


def hide_warning(message: warnings.WarningMessage, hide: Hide) -> None:
    """Take the secrets off a warning that a test has caused."""
    text = str(message.message)
    if (without := hide(text)) == text:
        return
    try:
        message.message = message.category(without)
    except Exception:  # its class wants something else than a text
        message.message = UserWarning(without)


def show_headline(report: pytest.TestReport, finding: Finding) -> None:
    """Make the short test summary show the headline of `finding`, without the name of our exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        crash.message = finding.headline


def format_for(item: pytest.Item, finding: Finding) -> str:
    """Return a finding as the terminal of the session shows it."""
    from pytest_agentreplay.report.finding import format_finding

    width = item.config.get_terminal_writer().fullwidth
    return format_finding(finding, width=width, verbosity=item.config.get_verbosity())


def make_failure(item: pytest.Item, finding: Finding, failure: BaseException | None = None) -> BaseException:
    """Return the exception that fails a test with our text, and with nothing else: no chain, no traceback is shown.

    A debugger finds the agent's frames in it, down to the line where `failure` stopped it.
    """
    item.user_properties += [(f"agentreplay.{name}", value) for name, value in finding.properties.items()]
    error = pytest.fail.Exception(format_for(item, finding), pytrace=False)
    error.__suppress_context__ = True
    error.finding = finding  # type: ignore[attr-defined]
    error.agentreplay = True  # type: ignore[attr-defined]
    if failure is not None:
        from pytest_agentreplay.intercept.session.callers import cut_traceback

        error.__traceback__ = cut_traceback(failure, str(item.config.rootpath))
    return error


def add_finding(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> bool:
    """Show the headline of the finding that failed the test, and keep its cause; return whether one did."""
    finding = getattr(call.excinfo.value, "finding", None) if call.excinfo is not None else None
    if finding is None or not report.failed:
        return False
    from pytest_agentreplay.report.finding import find_cause, map_texts

    show_headline(report, finding)
    report.__dict__["agentreplay_cause"] = to_plain(find_cause(finding, item.nodeid))
    report.__dict__["agentreplay_finding"] = map_texts(finding, find_hider(item)).plain()
    return True


def complete_report(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Correct the report of a test that opted in; give the last one the summary of its session."""
    if item.stash.get(keys.BODY, False):
        return correct_subtest(item, call, report)
    if hasattr(report, "wasxfail") or call.excinfo is not None:
        correct_xfail(item, call, report)
    has_finding, run_session = add_finding(item, call, report), item.stash.get(keys.RUN_SESSION, None)
    if run_session is None:
        return None
    if report.failed and not has_finding and run_session.mode == "replay":
        from pytest_agentreplay.runs.offline_session import OfflineSession

        assert isinstance(run_session, OfflineSession)
        run_session.note(redacted=add_redacted_notice(report, call.excinfo, run_session.list_redacted_claims()))
        finding = run_session.explain_early_stop() if report.when != "teardown" else None
        if finding is not None:  # how far the replay came; the short summary stays the test's own error
            add_section(report, format_for(item, finding))
    if report.when == "teardown":
        report.__dict__[TEST] = make_plain_summary(run_session)
        get_late_calls(item.config).add_session(run_session)
        if run_session.mode == "record":
            item.stash[keys.UNDO] = run_session.withdraw
        # Let go: it holds the run. A test that is run again opens another one.
        del item.stash[keys.RUN_SESSION]
    return None


def correct_subtest(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Correct the report of a subtest. The recording is its test's, and so is a divergence: it is told there, once."""
    failure = call.excinfo.value if call.excinfo is not None else None
    if isinstance(failure, ReplayDiverged):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, "the replay has diverged; the test itself tells it")
    elif report.failed and failure is not None:
        item.stash[keys.SUBTEST_FAILURE] = failure
        if item.stash.get(keys.PROVING, False):  # subtests are logged whoever runs them
            report.outcome, report.longrepr = "passed", None


def forget_unittest_failure(item: pytest.Item) -> None:
    """Our verdict replaces what a TestCase has kept."""
    # pytest 8.4-9: https://github.com/pytest-dev/pytest/blob/9.0.0/src/_pytest/unittest.py
    if getattr(item, "_excinfo", None):
        item._excinfo = None  # type: ignore[attr-defined]


def get_summary(report: pytest.TestReport) -> SessionSummary | None:
    """Return the summary of the test that ended with this report, if it is the last one of a test of ours."""
    plain = getattr(report, TEST, None)
    return None if plain is None else restore_plain(SessionSummary, plain)


def get_fixture_summaries(report: pytest.TestReport) -> list[SessionSummary]:
    """Return the summaries of the wider fixtures that were torn down with the test."""
    return [restore_plain(SessionSummary, plain) for plain in getattr(report, FIXTURES, ())]


def attach_summary(report: pytest.TestReport, summary: SessionSummary) -> None:
    """Have the report carry the summary of its test."""
    report.__dict__[TEST] = to_plain(summary)


def attach_fixture_summaries(report: pytest.TestReport, summaries: Sequence[SessionSummary]) -> None:
    """Have the report carry the summaries of fixtures."""
    report.__dict__[FIXTURES] = to_plain(summaries)


def make_plain_summary(run_session: RunSession) -> Any:
    """Return the summary of a session without what its redaction knows as a secret: nothing else leaves the process."""
    return run_session.redaction.hide_tree(to_plain(run_session.summarize()))


def hide_summary(run_session: RunSession) -> SessionSummary:
    """Return the same as the summary that it is."""
    return restore_plain(SessionSummary, make_plain_summary(run_session))


def add_proof(summary: SessionSummary, proofs: Mapping[str, Proof]) -> SessionSummary:
    """Return the summary with the proof of its recording, if there is one under its id."""
    if summary.recording is None or summary.test not in proofs:
        return summary
    return replace(summary, recording=replace(summary.recording, proof=proofs[summary.test]))


def format_failure(report: pytest.TestReport) -> list[str]:
    """Return the list of lines that pytest will print as the report, to be changed in place.

    They are those of the last entry of the last exception (pytest 8.4 to 9, `_pytest._code.code.ReprEntry`), which
    crosses xdist. Of a report that somebody else has made otherwise they are a list that nobody prints.
    """
    chain: Sequence[Any] = getattr(report.longrepr, "chain", ())
    entries = getattr(chain[-1][0], "reprentries", ()) if chain else ()
    lines = getattr(entries[-1], "lines", None) if entries else None
    return lines if isinstance(lines, list) else []


def correct_xfail(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Fail an expected failure that is a finding of ours, or that hides one; expect a finding that is named."""
    if item.config.option.runxfail:
        return
    error = call.excinfo.value if call.excinfo is not None else None
    excused = hasattr(report, "wasxfail")
    if isinstance(error, ReplayDiverged) or hasattr(error, "agentreplay"):
        if (holds := item.stash.get(xfailed_key, None)) is not None and is_naming_divergence(item):
            report.outcome, report.wasxfail = "skipped", holds.reason
        elif excused:
            report.outcome = "failed"
            del report.wasxfail
    elif excused and report.skipped and call.when == "call" and not is_naming_divergence(item):
        fail_hidden_divergence(item, call, report)


def fail_hidden_divergence(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Fail a test that failed as expected, and no longer made calls of its recording before it did."""
    run_session = item.stash.get(keys.RUN_SESSION, None)
    finding = (
        run_session.find_expected_failure() if run_session is not None and keys.FINDING not in item.stash else None
    )
    if finding is None or call.excinfo is None:
        return
    item.stash[keys.FINDING] = finding
    error = make_failure(item, finding).with_traceback(call.excinfo.tb)
    # Not a text: until pytest 9 the short summary has no message for one.
    report.outcome, report.longrepr = "failed", item.repr_failure(pytest.ExceptionInfo.from_exception(error))
    show_headline(report, finding)
    report.user_properties = list(item.user_properties)
    del report.wasxfail


def is_naming_divergence(item: pytest.Item) -> bool:
    """Return whether the `xfail` that holds for the test has `raises=ReplayDiverged`, or a tuple with it."""
    holds = item.stash.get(xfailed_key, None)
    raises = getattr(holds, "raises", None)
    # pytest.RaisesExc keeps its classes in an attribute (pytest 8.4 and later).
    expected = getattr(raises, "expected_exceptions", raises)
    return ReplayDiverged in (expected if isinstance(expected, tuple) else (expected,))
