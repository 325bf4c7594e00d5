"""A test that stops early has turns left over in its recording: that is a divergence, whatever the test says of itself."""

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

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


ASSERTS = """
import agent

def test_shop(agentreplay):
    first = agent.ask([{"role": "system", "content": agent.PROMPT}, {"role": "user", "content": "Where is A-17?"}])
    assert not first.get("content")
    assert "refund" in agent.answer("Pay A-17 back.")
"""
ERRORS = {
    "an assertion": (
        '    assert not first.get("content")\n',
        '    assert first.get("content") == "late"\n',
        "assert None == 'late'",
        "stopped after turn 1 of 4; turn 2 would have been: model m-1, last message: Pay A-17 back.",
        4,
    ),
    "an exception of the agent": (
        'TOOLS[call["function"]["name"]]',
        '{"refund": refund}[call["function"]["name"]]',
        "KeyError: 'lookup_order'",
        'stopped in turn 2 of 4; the next call would have been: tool lookup_order {"order_id":"A-17"}',
        3,
    ),
    "an error before the first call": (
        "    first = agent.ask(",
        '    raise RuntimeError("no basket")\n    first = agent.ask(',
        "RuntimeError: no basket",
        "stopped before turn 1 of 4; turn 1 would have been: model m-1, last message: Where is A-17?",
        5,
    ),
}


@pytest.mark.parametrize("words", [(), ("-n", "1", "--show-capture=no", "--tb=short")], ids=["here", "xdist"])
def test_beside_the_error_of_a_test_stands_how_far_its_replay_came(project, words):
    project.plugins += ("xdist.plugin",)
    project.environ["COLUMNS"] = "160"
    project.write(test_shop=ASSERTS)
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    for what, (old, new, error, far, more) in ERRORS.items():
        file = "agent.py" if "agent" in what else "test_shop.py"
        project.edit(file, old, new)
        done = project.offline(*words)
        project.edit(file, new, old)
        assert done.returncode == 1, what
        assert done.stdout.splitlines()[-2] == f"FAILED test_shop.py::test_shop - {error}", what
        section = done.stdout.partition(" agentreplay -")[2]
        assert f"[AR-MISSING] {far}\n" in section, done.stdout
        assert f"  {more} more recorded calls not made\n" in section, done.stdout
        assert "agentreplay show " in section, what
    assert "AR-MISSING" not in project.offline(*words).stdout


def test_a_test_that_fails_after_its_last_recorded_call_is_told_nothing_more(project):
    assert project.record("--agentreplay-no-prove").returncode == 0
    project.edit("test_shop.py", '["lookup_order", "refund"]', '["refund"]')
    done = project.offline()
    assert done.returncode == 1
    assert "AR-MISSING" not in done.stdout
