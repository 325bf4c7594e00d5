"""How a divergence is told: at its turn, and beside the error of its test how far the replay came.

Which content of a request counts is shown by tests/core: test_canon, test_content, test_matching.
"""

import re

from tests.support.small_projects import passed, summary

TESTS = """
import os
import agent

NOW = os.environ.get("PROGRAM") == "changed"

def first():
    return agent.ask([{"role": "system", "content": agent.PROMPT}, {"role": "user", "content": "Where is A-17?"}])

def prompt(monkeypatch):
    monkeypatch.setattr(agent, "PROMPT", agent.PROMPT.replace("brief", "short") if NOW else agent.PROMPT)

def test_prompt(agentreplay, monkeypatch):
    prompt(monkeypatch)
    agent.answer("Where is A-17?")

def test_prompt_swallowed(agentreplay, monkeypatch):
    prompt(monkeypatch)
    try:
        agent.answer("Where is A-17?")
    except:
        pass

def test_edited_later(agentreplay):
    agent.lookup_order("A-1")
    agent.ask([{"role": "system", "content": "Comment in one line."}])

def test_state_of_a_tool(agentreplay):
    agent.lookup_order("A-1")
    agent.ask([{"role": "system", "content": f"{0 if NOW else 1} orders were read."}])

def test_watched(agentreplay):
    headers = {"openai-organization": "org-b" if NOW else "org-a"}
    agent.httpx2.post(os.environ["MODEL_URL"] + "/v1/things", json={"messages": []}, headers=headers)

def test_arguments(agentreplay):
    agent.lookup_order("a-17" if NOW else "A-17")

def test_last_turns(agentreplay):
    first() if NOW else agent.answer("Where is A-17?")

def test_every_turn(agentreplay):
    assert NOW or agent.answer("Where is A-17?")

def test_all_swallowed(agentreplay):
    try:
        if NOW:
            raise SystemExit
        agent.answer("Where is B-2?")
    except BaseException:
        pass

def test_tool_call(agentreplay):
    agent.lookup_order("A-1")
    if not NOW:
        agent.refund("A-2", 5.0)

def test_all_tool_calls(agentreplay):
    if not NOW:
        agent.lookup_order("A-1")
        agent.refund("A-2", 5.0)

def test_assertion(agentreplay):
    said = first()
    assert said.get("content") == ("late" if NOW else None)
    agent.answer("Pay A-17 back.")

def test_exception(agentreplay, monkeypatch):
    monkeypatch.setattr(agent, "TOOLS", {} if NOW else agent.TOOLS)
    agent.answer("Pay A-17 back.")

def test_error_before_the_first_call(agentreplay):
    if NOW:
        raise RuntimeError("no basket")
    agent.answer("Pay A-17 back.")

def test_assertion_after_the_last_call(agentreplay):
    assert ("nothing" if NOW else "refund") in agent.answer("Pay A-17 back.")
"""
MISSING = {"last_turns", "every_turn", "all_swallowed", "tool_call", "all_tool_calls"}
NEXT = "model m-1, last message: Pay A-17 back."
FAR = {
    "assertion": ("assert None == 'late'", f"after turn 1 of 4; turn 2 would have been: {NEXT}", 4),
    "exception": ("KeyError: 'lookup_order'", "in turn 1 of 3; the next call would have been: tool lookup_order", 3),
    "error_before_the_first_call": ("RuntimeError: no basket", f"before turn 1 of 3; turn 1 would have been: {NEXT}", 4),
}  # fmt: skip
"""The error of the test, how far its replay came, and how many recorded calls were left then."""


def test_each_divergence_is_named_at_its_turn_and_beside_an_error_stands_how_far_the_replay_came(shared_project):
    project = shared_project()
    project.furnish(TESTS)
    passed(project.record(COLUMNS="160"))
    project.edit("test_shop.py", "in one line", "in two lines")
    done = project.offline("-p", "xdist.plugin", "-n", "2", "--show-capture=no", PROGRAM="changed", COLUMNS="160")
    assert done.returncode == 1
    said = summary(done)
    parts = re.split(r"^_{3,} test_(\w+) _{3,}$", done.stdout.rpartition("- agentreplay -")[0], flags=re.MULTILINE)
    reports = {name: " ".join(report.split()) for name, report in zip(parts[1::2], parts[2::2], strict=True)}
    codes = {name: line.partition(": ")[0] for name, line in said.items() if line.startswith("[AR-")}
    assert codes.pop("arguments").startswith("[AR-ARGS]")
    assert "A-17 -> a-17" in reports["arguments"].replace('"', "")
    assert {codes.pop(name) for name in ("prompt", "prompt_swallowed")} == {"[AR-PROMPT] turn 1/3"}
    assert {codes.pop(name) for name in ("edited_later", "state_of_a_tool")} == {"[AR-PROMPT] turn 1/1"}
    assert "likely cause the prompt was edited: test_shop.py holds the words of now" in reports["edited_later"]
    assert "likely cause state that a frozen tool changes" in reports["state_of_a_tool"]
    told = reports["prompt"] + reports["prompt_swallowed"]  # of one change, the second points to the first
    assert re.search(r"brief.* short.* pytest --snapshot-record test_shop.py::test_prompt", told)
    assert {name: code.partition("]")[0] for name, code in codes.items()} == dict.fromkeys(MISSING, "[AR-MISSING")
    for name, (error, far, more) in FAR.items():
        assert said[name] == error
        assert f"[AR-MISSING] stopped {far}" in reports[name]
        assert f" {more} more recorded calls not made " in reports[name]
        assert "agentreplay show " in reports[name]
    assert "AR-MISSING" not in reports["assertion_after_the_last_call"]
    assert "watched" not in said
    assert re.search(r"drift     1 of \d+ calls served differ in fields that are not compared", done.stdout)
    assert "headers.openai-organization x1 " in done.stdout
