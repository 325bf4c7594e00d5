"""A replay in another environment: the host, the path and values that differ by environment are declared equal."""

import pytest

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
[pytest]
pythonpath = .
agentreplay_ignore =
    host: 127.0.0.*  # one address for each environment
    path: /v1/projects/*/locations/*  # the project of each environment
    $.model ~ ^arn:aws:bedrock:[a-z0-9-]+:\d+: = the account of each environment
    header:accept ~ account=\d+ = the account of each environment
"""

CI = {"HOST": "127.0.0.9", "PROJECT": "ci-project", "REGION": "eu-west-3", "ACCOUNT": "222222222222"}


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(lambda *_: "hello")
    made.write(agent=AGENT, test_shop=TEST)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = made.record()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_a_replay_in_another_environment_passes(project):
    done = project.offline("-s", **CI)
    assert done.returncode == 0, done.stdout
    assert "answer hello" in done.stdout
    assert "answer /v1/projects/desk-project/locations/us-east-1/orders" in done.stdout
    assert "drift" not in done.stdout


def test_without_the_rules_it_fails(project):
    done = project.offline("-o", "agentreplay_ignore=", **CI)
    assert done.returncode == 1
    assert "2 failed" in done.stdout


@pytest.mark.parametrize(("name", "value", "shown"), [("PROMPT", "bye", "bye"), ("MODEL", "m-2", "m-2")])
def test_what_is_not_declared_is_still_compared(project, name, value, shown):
    done = project.offline("test_shop.py::test_ask", COLUMNS="250", **CI, **{name: value})
    assert done.returncode == 1
    assert shown in done.stdout
    assert "ci-project" not in done.stdout, "the URL is declared equal, so it is no difference"


def test_the_rules_are_shown(project):
    done = project.command("rules")
    for words in (
        "equal  http             host   127.0.0.*",
        "equal  http             path   /v1/projects/*/locations/*",
        "equal  tool             body   $.model ~ ^arn:aws",
        "one address for each environment  (agentreplay_ignore)",
    ):
        assert words in done.stdout


@pytest.mark.parametrize("line", ["host: *", "path: v1/*", "$.model ~ ["])
def test_a_line_that_is_invalid_stops_pytest_and_the_command_and_is_named(project, line):
    before = (project.root / "pytest.ini").read_text(encoding="utf-8")
    with (project.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write(f"    {line}  # why\n")
    try:
        done, command = project.run(), project.command("rules")
    finally:
        (project.root / "pytest.ini").write_text(before, encoding="utf-8")
    assert done.returncode == 4
    for text in (done.stdout + done.stderr, command.stdout + command.stderr):
        assert "pytest.ini" in text
        assert "agentreplay_ignore" in text
        assert line in text
    assert command.returncode != 0
    assert "Traceback" not in command.stderr
