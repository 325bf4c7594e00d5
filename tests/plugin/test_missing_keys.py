"""SDKs that refuse to start without a key: recorded with keys, replayed on a machine that has none."""

import pytest

pytestmark = pytest.mark.env("main", "legacy", "lowest")

KEY, CLAUDE_KEY = "sk-live-0123456789abcdef", "sk-ant-fedcba9876543210"

AGENT = """
import os
import anthropic, openai

URL = os.environ["MODEL_URL"]

def ask(client):
    messages = [{"role": "user", "content": "Where is A-17?"}]
    return client.chat.completions.create(model="m-1", messages=messages).choices[0].message.content

def ask_both():
    with openai.OpenAI(base_url=URL + "/v1") as client:
        ask(client)
    with anthropic.Anthropic(base_url=URL) as claude:
        claude.messages.create(model="c-1", max_tokens=9, messages=[{"role": "user", "content": "Hi"}])

def send_keys():
    keys = {"session_key": os.environ["SESSION_KEY"], "other": os.environ["OPENAI_API_KEY"]}
    with openai.OpenAI(base_url=URL + "/v1") as client:
        client.post("/pay", body=keys, cast_to=object)
"""

TESTS = """
import os
import openai, pytest
import agent

NAMES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SESSION_KEY")
BEFORE = {name: os.environ.get(name) for name in NAMES}

@pytest.fixture(scope="session")
def client():
    with openai.OpenAI(base_url=agent.URL + "/v1") as client:
        yield client

def test_in_the_test(agentreplay):
    agent.ask_both()

def test_in_a_wide_fixture(agentreplay, client):
    agent.ask(client)

def test_in_bodies(agentreplay):
    agent.send_keys()

def test_that_takes_its_key_away(agentreplay, monkeypatch, request):
    with openai.OpenAI(base_url=agent.URL + "/v1") as client:
        agent.ask(client)
    monkeypatch.delenv("OPENAI_API_KEY")
    request.getfixturevalue("client")
    with pytest.raises(openai.OpenAIError):
        openai.OpenAI(base_url=agent.URL + "/v1")

def test_beside_the_plugin():
    assert {name: os.environ.get(name) for name in NAMES} == BEFORE
"""

INI = "[pytest]\npythonpath = .\n"


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project()
    made.environ = {"COLUMNS": "80"}
    made.write(agent=AGENT, test_keys=TESTS)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": CLAUDE_KEY, "SESSION_KEY": "one-of-a-session"}
    done = made.record(**keys, UNUSED_API_KEY="never-sent-anywhere")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout
    return made


def test_a_recording_names_the_variables_whose_values_were_sent_and_no_others(project):
    kept = {snapshot.run.header.test: snapshot.run.header.kit["keys"] for snapshot in project.snapshots}
    assert {test.partition("::")[2]: keys for test, keys in kept.items()} == {
        "test_in_the_test": [["ANTHROPIC_API_KEY"], ["OPENAI_API_KEY"]],
        "test_in_a_wide_fixture": [["OPENAI_API_KEY"]],
        "test_in_bodies": [["OPENAI_API_KEY"], ["SESSION_KEY"]],
        "test_that_takes_its_key_away": [["OPENAI_API_KEY"]],
    }
    for file in project.files:
        text = file.read_text(encoding="utf-8")
        assert KEY not in text
        assert CLAUDE_KEY not in text
        assert "UNUSED_API_KEY" not in text


@pytest.mark.parametrize("value", [None, ""], ids=["not set", "empty, as CI sets a secret that it withholds"])
def test_it_replays_without_the_keys_and_leaves_the_environment_as_it_was(project, value):
    keys = {} if value is None else dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SESSION_KEY"), value)
    done = project.offline(**keys)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_it_replays_with_other_keys_and_in_another_order(project):
    keys = {"OPENAI_API_KEY": "sk-live-fedcba9876543210", "SESSION_KEY": "one-of-another-session"}
    done = project.offline("test_keys.py::test_beside_the_plugin", "test_keys.py::test_in_bodies", **keys)
    assert done.returncode == 0, done.stdout + done.stderr


def test_accepting_requests_needs_no_key_either(project):
    project.edit("agent.py", "Where is A-17?", "Where is A-18?")
    file = next(file for file in project.files if "wide_fixture" in file.name)
    done = project.command("accept", file, "--requests", "--reason", "the same question of another order")
    project.edit("agent.py", "Where is A-18?", "Where is A-17?")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "accepted  " in done.stdout


def test_tools_that_run_for_real_are_not_given_placeholders(project):
    done = project.replay("--replay-tools=verify", "test_keys.py::test_in_the_test")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "api_key" in done.stdout
