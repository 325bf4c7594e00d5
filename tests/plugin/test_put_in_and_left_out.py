"""A call that was put in, left out, moved or changed: four different reports, with the real SDKs."""

import pytest

SHOP = """
import os
import anthropic, openai

CHANGED = bool(os.environ.get("CHANGED"))
SYSTEM = "You help the customers of a bookshop. Be brief and kind."
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}]

def say(*messages, system=None, model="gpt-5", **more):
    told = [{"role": "system", "content": system}] if system else []
    told += [{"role": "user", "content": message} for message in messages]
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0) as client:
        return client.chat.completions.create(model=model, messages=told, **more)

def sort(*letters):
    return [say(f"Sort this letter: {letter}") for letter in letters]

def swapped():
    sort(*(["tax", "rent", "gas"] if CHANGED else ["rent", "tax", "gas"]))

def left_out():
    sort(*(["tax", "gas"] if CHANGED else ["rent", "tax", "gas"]))

def guard(question="Where is A-17?"):
    if CHANGED:
        say(f"Is this safe? {question}", system="You are a guard. Answer yes or no.")
    say(question, system=SYSTEM, tools=TOOLS)

def title(question="Where is A-17?"):
    if CHANGED:
        say(f"A title of three words for: {question}", model="gpt-5-nano")
    say(question, system=SYSTEM, tools=TOOLS)

def claude_guard():
    asked = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Where is A-17?"}]}
    with anthropic.Anthropic(base_url=os.environ["MODEL_URL"], api_key="k", max_retries=0) as claude:
        if CHANGED:
            claude.messages.create(**asked, system="You are a guard. Answer yes or no.")
        claude.messages.create(**asked, system=SYSTEM, tools=[{"name": "look_up", "input_schema": {"type": "object"}}])

def changed():
    say("Where is A-17?", system=SYSTEM, **({} if CHANGED else {"tools": TOOLS}))
"""
NAMES = ("swapped", "left_out", "guard", "title", "claude_guard", "changed")
TESTS = "import shop\n" + "".join(f"\ndef test_{name}(agentreplay):\n    shop.{name}()\n" for name in NAMES)
LETTER = "model gpt-5, last message: Sort this letter: "
HERE = "called, which is not recorded here"
TOLD = {
    "swapped": f"[AR-ORDER] turn 2/3: {LETTER}tax came before {LETTER}rent, which is recorded first",
    "left_out": f"[AR-MISSING] turn 1/3: {LETTER}rent was not called before {LETTER}tax",
    "guard": f"[AR-EXTRA] turn 1/1: model gpt-5 {HERE}",
    "title": f"[AR-EXTRA] turn 1/1: model gpt-5-nano {HERE}",
    "claude_guard": f"[AR-EXTRA] turn 1/1: model claude-x {HERE}",
    "changed": "[AR-SCHEMA] turn 1/1: model gpt-5: $.tools dropped",
}


@pytest.fixture
def told(project):
    """The report of each test by its name, and what the replay has printed."""
    (project.root / "test_shop.py").unlink()
    project.server._replies = lambda body, number: f"Fine ({number})."
    project.write(shop=SHOP, test_changes=TESTS)
    project.environ["COLUMNS"] = "250"
    recorded = project.record("--agentreplay-no-prove")
    assert recorded.returncode == 0, recorded.stdout
    project.server.stop()
    assert project.replay().returncode == 0
    done = project.replay(CHANGED="yes")
    summary = done.stdout.partition("short test summary info")[2]
    lines = [line.partition(" - ") for line in summary.splitlines() if line.startswith("FAILED ")]
    return {test.rpartition("::test_")[2]: said for test, _, said in lines}, done.stdout


def test_put_in_left_out_moved_and_changed_calls_are_four_different_things(told):
    summary, output = told
    assert summary == TOLD
    assert "turn 1 agrees" not in output, "what comes too early has nothing before it that agrees"
    assert output.count("agentreplay accept ") == 1, "offered for the changed call alone"
