"""What a helper says does not hang on pytest's rewriting of asserts, which meets a plugin in some installs only."""

import re

TEST = """
import agent
import pytest
from pytest_agentreplay import assert_same_run, load

@pytest.mark.parametrize("number", range(4))
def test_refund(agentreplay, number):
    agent.answer("Where is A-17?")
    run = agentreplay.run
    if agentreplay.mode == "replay" and agent.SAY:
        [
            lambda: run.assert_tool_calls(["lookup_order"]),
            lambda: run.assert_turn(2, tool="lookup_order"),
            lambda: assert_same_run(run, agent.asked_again(load)),
            lambda: run.assert_tool_calls(["lookup_order", "refound"]),
        ][number]()
"""

AGAIN = """
SAY = False

def asked_again(load):
    import dataclasses
    run = load(next(pathlib.Path(__file__).parent.rglob("*.snapshot.json"))).run
    return dataclasses.replace(run, exchanges=run.exchanges[:-1])
"""

SAID = [
    "AssertionError: tool call 2 was not expected",
    "AssertionError: turn 2",
    "AssertionError: runs part at turn 3/3",
    "AssertionError: tool call 2 is another one",
]


def errors(done):
    """What each failing test was told, by test."""
    assert done.returncode == 1, done.stdout + done.stderr
    parts = re.split(r"^_+ test_refund\[(\d)\] _+$", done.stdout, flags=re.MULTILINE)[1:]
    return [re.findall(r"^E   .*", text, re.MULTILINE) for text in parts[1::2]]


def test_helpers_say_the_same_with_and_without_rewriting(project):
    project.write(test_shop=TEST)
    (project.root / "agent.py").write_text((project.root / "agent.py").read_text(encoding="utf-8") + AGAIN, "utf-8")
    recorded = project.record()
    assert recorded.stdout.count("   replays") == 4, recorded.stdout
    project.edit("agent.py", "SAY = False", "SAY = True")
    rewritten, plain = errors(project.replay("-vv")), errors(project.replay("-vv", "--assert=plain"))
    assert rewritten == plain
    for said, lines in zip(SAID, rewritten, strict=True):
        assert said in lines[0], lines
        assert len(lines) > 1, "the nearest, what was there"
