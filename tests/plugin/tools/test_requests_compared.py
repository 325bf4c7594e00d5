"""Requests as a replay compares them: what is declared equal in another environment."""

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


def test_a_replay_in_another_environment_passes_by_the_rules_alone_and_the_rest_is_compared(environments):
    done = passed(environments.offline("-s", **CI))
    assert "answer hello" in done.stdout
    assert "answer /v1/projects/desk-project/locations/us-east-1/orders" in done.stdout
    assert "drift" not in done.stdout
    assert len(summary(environments.offline("-o", "agentreplay_ignore=", **CI))) == 2
    other = environments.offline("test_shop.py::test_ask", COLUMNS="250", **CI, MODEL="m-2", PROMPT="bye").stdout
    assert "m-2" in other
    assert "bye" in other
    assert "ci-project" not in other, "the URL is declared equal, so it is no difference"


def test_a_changed_prompt_is_accepted_in_another_environment(environments):
    before = {file: file.read_bytes() for file in environments.files}
    with edited(environments, "agent.py", '"PROMPT", "hi"', '"PROMPT", "bye"'):
        done = environments.command(
            "accept", "test_shop.py::test_ask", "--requests", "--reason", "shorter", **CI, MODEL="m-1"
        )
        assert "accepted" in done.stdout, done.stdout
        assert "1 changed request" in done.stdout, done.stdout
    for file, data in before.items():
        file.write_bytes(data)


def test_the_rules_are_shown(environments):
    done = environments.command("check", "audit", "--rules")
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
        done, command = environments.run(), environments.command("check", "audit", "--rules")
    assert done.returncode == 4
    assert command.returncode != 0
    for text in (done.stdout + done.stderr, command.stdout + command.stderr):
        for words in ("pytest.ini", "agentreplay_ignore", line):
            assert words in text
        assert "Traceback" not in text
