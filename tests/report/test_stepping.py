"""A frozen run walked by commands: where one stands, what is shown, and what cannot be done."""

import pytest

from pytest_agentreplay.report.run_stepper import HELP, Stepper
from tests.support.chat_runs import ask, run, say, tool

QUESTION = {"role": "user", "content": "Where is my order?"}
TOLD = {"role": "assistant", "content": "Which one?"}


@pytest.fixture
def stepper():
    return Stepper(
        run(
            (ask(), say("Which one?")),
            tool("lookup", {"status": "late"}, order="A-17"),
            (ask(QUESTION, TOLD, {"role": "user", "content": "A-17"}), say("It is late.")),
            (ask(QUESTION, TOLD, {"role": "user", "content": "And B-2?"}), say("Lost.")),
        )
    )


def test_steps_forward_and_back_and_shows_what_each_turn_added(stepper):
    assert stepper.count == 3
    assert "[1/3] turn 1" in stepper.show()
    assert stepper.show().startswith("test:")
    second = stepper.obey("n")
    assert second.startswith("[2/3] turn 2")
    assert "A-17" in second
    assert "Where is my order?" not in second
    assert stepper.obey("").startswith("[3/3]")
    assert stepper.obey("n") == "this is the last turn"
    assert stepper.obey("p") == second
    assert "[1/3]" in stepper.obey("p")
    assert stepper.obey("p") == "this is the first turn"


def test_goes_to_a_turn_and_to_a_text(stepper):
    assert stepper.obey("g 3").startswith("[3/3] turn 3")
    assert stepper.obey("g 9") == "there is no turn 9; this run has 1 to 3"
    assert stepper.obey("g") == "there is no turn (g needs a number); this run has 1 to 3"
    assert "[1/3]" in stepper.obey("/WHERE is")
    assert stepper.obey("/it is late").startswith("[2/3]")
    assert stepper.obey("/").startswith("[2/3]")
    assert stepper.obey("/nowhere") == "no turn holds 'nowhere'"


def test_helps_and_leaves(stepper):
    assert stepper.obey("?") == HELP
    assert stepper.obey("x") == "there is no command x; ? lists them"
    assert stepper.obey("q") is None
    assert Stepper(run()).count == 0
