"""hypothesis: one test id and many runs have no recording. The test says so at once, and what to do instead."""

import pytest

from tests.support.finished import ended

pytestmark = pytest.mark.env("main")

TESTS = """
import pytest, agent
from hypothesis import given, settings, strategies as st

def text():
    return lambda test: settings(max_examples=2, deadline=None)(given(st.text(max_size=3))(test))

@pytest.mark.agentreplay
@text()
def test_opted_in(question):
    agent.answer(question)

@text()
def test_by_fixture(agentreplay, question):
    agent.answer(question)

@pytest.mark.agentreplay(mode="off")
@text()
def test_left_out(question):
    assert isinstance(question, str)

def test_ordinary(agentreplay):
    agent.answer("Where is A-17?")
"""
FOLDER = "from test_shop import given, st\n\n@given(st.none())\ndef test_plain(nothing):\n    pass\n"
SAID = "Failed: a hypothesis test cannot be recorded or replayed: it is one test and many runs."


def test_a_property_is_refused_with_advice(shop):
    project = shop(TESTS, "_hypothesis_pytestplugin", COLUMNS="160")
    project.write(test_folder=FOLDER)
    folder = ("test_folder.py", "-o", "agentreplay_paths=.")
    for start, words, refused in [(project.record, (), 2), (project.replay, folder, 3)]:
        done = ended(start("-W", "ignore::pytest.PytestWarning", "test_shop.py", *words), 1)
        assert done.stdout.count(f" - {SAID}") == refused, done.stdout
        assert "@pytest.mark.parametrize" in done.stdout
        assert '@pytest.mark.agentreplay(mode="off")' in done.stdout
        assert f"2 passed, {refused} errors" in done.stdout.splitlines()[-1], (
            "an ordinary test beside it, and the one left out"
        )
    assert project.ledger.count("lookup A-17") == 1, "no example was run"
    assert project.run("--replay=off", "-k", "opted_in or left_out").returncode == 0
