"""Requests as a replay compares them: what is declared equal in another environment, what was put in, moved or left out."""

import pytest

from tests.support.small_projects import edited, furnished, passed, recorded, summary

AGENT = """
import os
import httpx2, openai

ENVIRON = {name: os.environ.get(name, other) for name, other in (
    ("HOST", "127.0.0.1"), ("PROJECT", "desk-project"), ("REGION", "us-east-1"), ("ACCOUNT", "111111111111"),
    ("PROMPT", "hi"), ("MODEL", "m-1"),
)}
PORT = os.environ["MODEL_URL"].rpartition(":")[2]

def ask():
    base = "http://{HOST}:{port}/v1/projects/{PROJECT}/locations/{REGION}".format(port=PORT, **ENVIRON)
    client = openai.OpenAI(base_url=base, api_key="sk-test", max_retries=0)
    profile = "arn:aws:bedrock:{REGION}:{ACCOUNT}:inference-profile/{MODEL}".format(**ENVIRON)
    return client.chat.completions.create(
        model=profile, messages=[{"role": "user", "content": ENVIRON["PROMPT"]}]
    ).choices[0].message.content

def look():
    url = "http://{HOST}:{port}/v1/projects/{PROJECT}/locations/{REGION}/orders".format(port=PORT, **ENVIRON)
    return httpx2.get(url, headers={"accept": "application/json; account=" + ENVIRON["ACCOUNT"]}).json()["path"]
"""

TEST = """
import agent

def test_ask(agentreplay):
    print("answer", agent.ask())

def test_look(agentreplay):
    print("answer", agent.look())
"""

INI = r"""
agentreplay_ignore =
    host: 127.0.0.*  # one address for each environment
    path: /v1/projects/*/locations/*  # the project of each environment
    $.model ~ ^arn:aws:bedrock:[a-z0-9-]+:\d+: = the account of each environment
    header:accept ~ account=\d+ = the account of each environment
"""

CI = {"HOST": "127.0.0.9", "PROJECT": "ci-project", "REGION": "eu-west-3", "ACCOUNT": "222222222222"}


@pytest.fixture(scope="module")
def environments(shared_project):
    return recorded(furnished(shared_project(lambda *_: "hello"), INI, agent=AGENT, test_shop=TEST))


def test_a_replay_in_another_environment_passes_by_the_rules_alone(environments):
    done = passed(environments.offline("-s", **CI))
    assert "answer hello" in done.stdout
    assert "answer /v1/projects/desk-project/locations/us-east-1/orders" in done.stdout
    assert "drift" not in done.stdout
    assert len(summary(environments.offline("-o", "agentreplay_ignore=", **CI))) == 2


def test_what_is_not_declared_is_still_compared(environments):
    done = environments.offline("test_shop.py::test_ask", COLUMNS="250", **CI, MODEL="m-2", PROMPT="bye")
    assert done.returncode == 1
    assert "m-2" in done.stdout
    assert "bye" in done.stdout
    assert "ci-project" not in done.stdout, "the URL is declared equal, so it is no difference"


def test_the_rules_are_shown(environments):
    done = environments.command("rules")
    for words in (
        "equal  http             host   127.0.0.*",
        "equal  http             path   /v1/projects/*/locations/*",
        "equal  tool             body   $.model ~ ^arn:aws",
        "one address for each environment  (agentreplay_ignore)",
    ):
        assert words in done.stdout


def test_a_line_that_is_invalid_stops_pytest_and_the_command_and_is_named(environments):
    line = "$.model ~ ["
    with edited(environments, "pytest.ini", "agentreplay_ignore =", f"agentreplay_ignore =\n    {line}  # why"):
        done, command = environments.run(), environments.command("rules")
    assert done.returncode == 4
    assert command.returncode != 0
    for text in (done.stdout + done.stderr, command.stdout + command.stderr):
        for words in ("pytest.ini", "agentreplay_ignore", line):
            assert words in text
        assert "Traceback" not in text


SHOP = """
import os
import anthropic, openai

CHANGED = bool(os.environ.get("CHANGED"))
SYSTEM = "You help the customers of a bookshop. Be brief and kind."
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}]

def say(message, system=None, **more):
    told = [{"role": "system", "content": system}] if system else []
    told += [{"role": "user", "content": message}]
    with openai.OpenAI(base_url=os.environ["MODEL_URL"] + "/v1", api_key="k", max_retries=0) as client:
        return client.chat.completions.create(model="gpt-5", messages=told, **more)

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

def claude_guard():
    asked = {"model": "claude-x", "max_tokens": 9, "messages": [{"role": "user", "content": "Where is A-17?"}]}
    with anthropic.Anthropic(base_url=os.environ["MODEL_URL"], api_key="k", max_retries=0) as claude:
        if CHANGED:
            claude.messages.create(**asked, system="You are a guard. Answer yes or no.")
        claude.messages.create(**asked, system=SYSTEM, tools=[{"name": "look_up", "input_schema": {"type": "object"}}])

def changed():
    say("Where is A-17?", system=SYSTEM, **({} if CHANGED else {"tools": TOOLS}))
"""
NAMES = ("swapped", "left_out", "guard", "claude_guard", "changed")
TESTS = "import shop\n" + "".join(f"\ndef test_{name}(agentreplay):\n    shop.{name}()\n" for name in NAMES)
LETTER = "model gpt-5, last message: Sort this letter: "
HERE = "called, which is not recorded here"
TOLD = {
    "swapped": f"[AR-ORDER] turn 2/3: {LETTER}tax came before {LETTER}rent, which is recorded first",
    "left_out": f"[AR-MISSING] turn 1/3: {LETTER}rent was not called before {LETTER}tax",
    "guard": f"[AR-EXTRA] turn 1/1: model gpt-5 {HERE}",
    "claude_guard": f"[AR-EXTRA] turn 1/1: model claude-x {HERE}",
    "changed": "[AR-SCHEMA] turn 1/1: model gpt-5: $.tools dropped",
}


def test_calls_put_in_left_out_moved_and_changed_are_told_apart(shared_project):
    project = furnished(shared_project(lambda body, number: f"Fine ({number})."), shop=SHOP, test_changes=TESTS)
    recorded(project)
    passed(project.offline())
    done = project.offline(CHANGED="yes", COLUMNS="250")
    assert summary(done) == TOLD
    assert "turn 1 agrees" not in done.stdout, "what comes too early has nothing before it that agrees"
    assert done.stdout.count("agentreplay accept ") == 1, "offered for the changed call alone"
