"""One change of the requests behind many tests is reported once, with one command that accepts it in all of them."""

import re
import shlex
import xml.etree.ElementTree as ET

import pytest

TESTS = """
import agent, pytest

@pytest.mark.parametrize("order", range(6))
def test_refund(order, agentreplay):
    assert "refund" in agent.answer(f"Where is A-{order}?")

def test_other(agentreplay):
    assert "refund" in agent.answer("Where is B-1?", top_p=1)
"""
NAMES = {f"test_shop.py::test_refund[{number}]" for number in range(6)}


@pytest.fixture(scope="module")
def changed(shared_project):
    """Seven recorded tests; since then the prompt that six of them begin with was edited, and a parameter of the last."""
    made = shared_project()
    made.furnish(TESTS)
    assert made.record().returncode == 0
    made.edit("agent.py", "Be kind.", "Be nice.")
    made.edit("test_shop.py", "top_p=1", "top_p=0.5")
    return made


@pytest.mark.parametrize("words", [[], ["-p", "xdist.plugin", "-n", "2"]], ids=["one process", "xdist"])
def test_the_change_is_shown_once_and_the_others_point_to_it(changed, words):
    done = changed.replay(*words, "--junitxml=junit.xml", COLUMNS="200")
    assert done.returncode == 1, done.stdout
    assert "7 failed" in done.stdout
    text = done.stdout.partition("= FAILURES =")[2].partition("short test summary info")[0]
    pointers = re.findall(r"^\[AR-PROMPT\] the same change as in (\S+), which shows it", text, re.MULTILINE)
    assert len(pointers) == 5
    (first,) = set(pointers)
    assert first in NAMES
    assert text.count('now       "You help customers.') == 2, "the first of the six, and the test that differs in more"
    assert "the same change in 6 tests: " in text
    summary = done.stdout.partition("short test summary info")[2]
    assert len(re.findall(r"^FAILED \S+ - \[AR-PROMPT\] turn 1/3: ", summary, re.MULTILINE)) >= 6, (
        "each says it in a line"
    )
    cases = ET.parse(changed.root / "junit.xml").iter("failure")
    assert sum("AR-PROMPT" in case.attrib["message"] for case in cases) >= 6


def test_the_footer_names_the_change_the_first_tests_and_the_command_that_accepts_it(changed):
    done = changed.replay("-q", COLUMNS="200")
    footer = done.stdout.partition("shared    [AR-PROMPT] ")[2]
    assert re.search(r"in 6 tests: (test_shop.py::test_refund\[\d\](, )?){3} and 3 more", footer), done.stdout
    command = re.search(r"agentreplay (accept --requests --all .*)", footer)[1]
    taken = changed.command(*shlex.split(command), "--dry-run")
    assert "6 to accept" in taken.stdout
    assert "1 left" in taken.stdout


def test_every_report_is_whole_with_vv(changed):
    done = changed.replay("-vv", COLUMNS="200")
    assert "the same change as in" not in done.stdout
    assert done.stdout.count("recorded: ") >= 7


def test_a_change_of_one_test_is_reported_as_ever(changed):
    done = changed.replay("-k", "test_refund and 3", COLUMNS="200")
    assert "1 failed" in done.stdout
    assert "the same change" not in done.stdout
    assert "shared    " not in done.stdout
