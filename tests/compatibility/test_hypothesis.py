"""hypothesis: one test id and many runs have no recording. The test says so at once, and what to do instead."""

import pytest

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

SAID = "Failed: a hypothesis test cannot be recorded or replayed: it is one test and many runs."


@pytest.fixture(scope="module")
def properties(shop):
    return shop(TESTS, "_hypothesis_pytestplugin", COLUMNS="160")


@pytest.mark.parametrize("way", ["record", "replay"])
def test_a_property_is_refused_with_advice(properties, way):
    done = getattr(properties, way)("-W", "ignore::pytest.PytestWarning")
    assert done.returncode == 1, done.stdout
    assert done.stdout.count(f" - {SAID}") == 2, done.stdout
    assert "@pytest.mark.parametrize" in done.stdout
    assert '@pytest.mark.agentreplay(mode="off")' in done.stdout
    assert "2 passed, 2 errors" in done.stdout.splitlines()[-1], "an ordinary test beside it, and the one left out"
    assert properties.ledger.count("lookup A-17") <= 1, "no example was run"


def test_a_folder_of_properties_says_it_too(properties):
    with (properties.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("agentreplay_paths = .\n")
    properties.write(
        test_folder="from test_shop import given, st\n@given(st.none())\ndef test_plain(nothing):\n    pass\n"
    )
    assert SAID in properties.replay("test_folder.py").stdout


def test_with_everything_off_properties_run(properties):
    done = properties.run("--replay=off", "-k", "opted_in or left_out")
    assert done.returncode == 0, done.stdout
