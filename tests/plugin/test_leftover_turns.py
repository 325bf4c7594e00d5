"""A test that stops early has turns left over in its recording: that is a divergence, whatever the test says of itself."""

import pytest

TESTS = """
import agent

def test_whole(agentreplay):
    assert agent.answer("Where is A-17?")

def test_swallows(agentreplay):
    try:
        assert agent.answer("Where is B-2?")
    except BaseException:
        pass

def test_tools_alone(agentreplay):
    agent.lookup_order("A-1")
    agent.lookup_order("A-2")
    agent.refund("A-2", 5.0)
"""
EARLY = {
    "the last turns": ("test_whole", '    assert agent.answer("Where is A-17?")', '    assert agent.ask([{"role": "system", "content": agent.PROMPT}, {"role": "user", "content": "Where is A-17?"}])'),
    "every turn": ("test_whole", '    assert agent.answer("Where is A-17?")', "    assert True"),
    "all, in a body that swallows": ("test_swallows", '        assert agent.answer("Where is B-2?")', "        raise SystemExit"),
    "a tool call": ("test_tools_alone", '    agent.refund("A-2", 5.0)\n', ""),
    "all tool calls": ("test_tools_alone", '    agent.lookup_order("A-1")\n    agent.lookup_order("A-2")\n    agent.refund("A-2", 5.0)\n', "    pass\n"),
}  # fmt: skip


@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["here", "xdist"])
def test_calls_that_were_not_made_fail_a_test_that_passes(project, words):
    project.plugins += ("xdist.plugin",)
    project.write(test_shop=TESTS)
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    project.server.stop()
    assert project.replay(*words).returncode == 0
    for what, (test, old, new) in EARLY.items():
        project.write(test_shop=TESTS)
        project.edit("test_shop.py", old, new)
        done = project.replay(*words)
        assert done.returncode == 1, what
        assert "1 failed, 2 passed" in done.stdout, what
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
        assert line.startswith(f"FAILED test_shop.py::{test} - [AR-MISSING]"), what
