"""`xfail` in all its forms excuses what a test does wrong, and no divergence; its reason is shown without secrets."""

import pytest

from tests.support.small_projects import edited, furnished, passed, summary

AGENT = """
import os
import httpx2

SECOND = True
PROMPT = "Be brief."

def ask(question):
    httpx2.post(os.environ["MODEL_URL"] + "/v1/x", json={"system": PROMPT, "question": question})

def answer():
    try:
        ask("one?")
        if SECOND:
            ask("two?")
    except BaseException:
        pass
    raise ValueError("known bug")
"""

TESTS = """
import unittest
import agent, pytest
from pytest_agentreplay import ReplayDiverged

def forms(**marks):
    return pytest.mark.parametrize("form", [pytest.param(name, marks=mark, id=name) for name, mark in marks.items()])

xfail = pytest.mark.xfail

@forms(
    plain=xfail(reason="a known bug"), strict=xfail(strict=True), raises=xfail(raises=ValueError),
    anything=xfail(raises=(ValueError, BaseException)),
)
def test_expected(form, agentreplay):
    agent.answer()

@forms(
    alone=xfail(raises=ReplayDiverged, strict=True), among_others=xfail(raises=(ReplayDiverged, ValueError)),
    without_hold=[xfail, xfail(False, raises=ReplayDiverged)],
)
def test_named(form, agentreplay):
    agent.ask("one?")

def test_call(agentreplay):
    try:
        agent.answer()
    except ValueError:
        pytest.xfail("a known bug")

def test_dynamic(request, agentreplay):
    request.applymarker(pytest.mark.xfail)
    agent.answer()

@pytest.fixture
def answered(agentreplay):
    agent.ask("one?")
    yield
    agent.ask("bye?")

@pytest.mark.xfail
def test_fixture(answered):
    agent.answer()

@pytest.fixture
def leaving(agentreplay):
    yield
    agent.ask("one?")

@pytest.mark.xfail
def test_teardown(leaving):
    raise ValueError("known bug")

@pytest.mark.agentreplay
class TestCase(unittest.TestCase):
    @unittest.expectedFailure
    def test_unittest(self):
        agent.answer()

@xfail(run=False)
def test_never_run(agentreplay):
    agent.ask("one?")
"""
FORMS = {f"expected[{form}]" for form in ("plain", "strict", "raises", "anything")}
NAMES = {*FORMS, "call", "dynamic", "fixture", "teardown", "TestCase::test_unittest"}


@pytest.fixture(scope="module")
def expecting(shared_project):
    project = furnished(shared_project(), agent=AGENT, test_expecting=TESTS)
    recorded = project.record()
    assert len(project.files) == len(NAMES) + 3, recorded.stdout
    return project


def told(done):
    """The code that each test was told that failed or ended in an error."""
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stdout
    return {name: said.partition("]")[0] for name, said in summary(done).items()}


def test_an_expected_failure_that_fails_as_recorded_stays_one(expecting):
    assert f"{len(NAMES) + 1} xfailed" in passed(expecting.offline("-k", "not named")).stdout


def test_a_divergence_fails_the_test_unless_its_marker_names_the_exception(expecting):
    with edited(expecting, "agent.py", "Be brief.", "Be short."):
        done = expecting.offline(COLUMNS="200")
    assert told(done) == dict.fromkeys({*NAMES, "named[without_hold]"}, "[AR-REQUEST"), done.stdout
    assert "4 xfailed" in done.stdout


def test_a_call_that_is_no_longer_made_fails_the_test(expecting):
    with edited(expecting, "agent.py", "SECOND = True", "SECOND = False"):
        done = expecting.offline("-k", "not named and not teardown", COLUMNS="200")
    assert told(done) == dict.fromkeys(NAMES - {"teardown"}, "[AR-MISSING"), done.stdout
    assert "as recorded on" not in done.stdout


SECRET = "sk-live-0123456789abcdef"

REASONS = """
import os, warnings
import agent, pytest

KEY = os.environ["MODEL_API_KEY"]

def test_xfail(agentreplay):
    pytest.xfail(f"no good: {KEY}")

@pytest.mark.xfail(reason=f"bad {KEY}")
def test_marker(agentreplay):
    assert False

@pytest.mark.xfail(reason=f"bad {KEY}")
def test_unexpected_pass(agentreplay):
    pass

@pytest.mark.xfail(reason=f"bad {KEY}", strict=True)
def test_strict(agentreplay):
    pass

@pytest.mark.xfail(reason=f"bad {KEY}", run=False)
def test_never_run(agentreplay):
    pass

def test_skip(agentreplay):
    pytest.skip(f"not here: {KEY}")

@pytest.mark.skip(reason=f"bad {KEY}")
def test_skip_marker(agentreplay):
    pass

def test_fail(agentreplay):
    pytest.fail(f"bad: {KEY}", pytrace=False)

def test_warning(agentreplay):
    warnings.warn(f"odd: {KEY}")

def test_exit(agentreplay):
    pytest.exit(f"enough of {KEY}")
"""


def test_no_reason_shows_a_secret(project):
    project.write(test_shop=REASONS)
    done = project.replay("-rA", "-v", "--junitxml=junit.xml", "-W", "default")
    junit = (project.root / "junit.xml").read_text(encoding="utf-8")
    for word in ("no good", "bad", "not here", "odd", "enough of"):
        assert f"{word}" in done.stdout, done.stdout
    assert "no good: [[redacted:key:1]]" in junit
    assert SECRET not in done.stdout + done.stderr + junit
