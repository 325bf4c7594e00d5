"""`--replay=live --replay-set`: real SDKs send the changed request, and so do Python children; the run is judged by it."""

import json

import pytest

from tests.support.small_projects import flat, furnished, passed, recorded, sections

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = """
import os, pathlib

import anthropic, openai

URL = os.environ["MODEL_URL"]
PROMPT = pathlib.Path(__file__).with_name("prompt.txt").read_text()

def by_openai():
    with openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=0) as client:
        return client.responses.create(model="m-1", instructions=PROMPT, input="hi").output_text

def by_anthropic():
    with anthropic.Anthropic(base_url=URL, api_key="k", max_retries=0) as client:
        said = client.messages.create(
            model="m-1", max_tokens=9, system=PROMPT, messages=[{"role": "user", "content": "hi"}]
        )
        return said.content[0].text

def without_prompt():
    with openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=0) as client:
        try:
            return client.responses.create(model="m-1", input="hi").output_text
        except Exception:
            return "nobody is there"
"""

CHILD = """
import os
import httpx

body = {"model": "m-1", "instructions": "Be kind.", "input": "hi"}
print(httpx.post(os.environ["MODEL_URL"] + "/v1/responses", json=body).text)
"""

TESTS = """
import subprocess, sys
import pytest
import agent

pytestmark = pytest.mark.agentreplay(allow=[f"program:{sys.executable}"])

def test_openai():
    assert "Dear" in agent.by_openai()

def test_anthropic():
    assert "Dear" in agent.by_anthropic()

def test_child():
    done = subprocess.run([sys.executable, "agent_child.py"], capture_output=True, text=True)
    assert "Dear" in done.stdout, done.stderr

def test_plain():
    agent.without_prompt()
"""

CONFTEST = """
import json, pathlib

def pytest_runtest_logreport(report):
    run = getattr(report, "agentreplay", {}).get("replay", {}).get("live_run")
    if run:
        with pathlib.Path(__file__).with_name("runs.jsonl").open("a") as file:
            file.write(json.dumps(run) + "\\n")
"""


def model(body, number):
    """Answers politely; says what it is."""
    return f"Dear customer, I am {body['model']}. It has shipped, and is on its way to you."


@pytest.fixture(scope="module")
def shop(shared_project):
    project = furnished(shared_project(model), agent=AGENT, agent_child=CHILD, test_shop=TESTS, conftest=CONFTEST)
    (project.root / "prompt.txt").write_text("Be kind.", encoding="utf-8")
    (project.root / "brief.txt").write_text("Be brief.", encoding="utf-8")
    return recorded(project)


def live(project, *words, **environ):
    """A live run; what it sent, and what it reported, by test."""
    (project.root / "runs.jsonl").unlink(missing_ok=True)
    before = project.server.hits
    done = project.run("--replay=live", *words, **environ)
    runs = project.root / "runs.jsonl"
    rows = map(json.loads, runs.read_text(encoding="utf-8").splitlines()) if runs.exists() else ()
    sent = [request.json for request in project.server.requests[before:]]
    return done, sent, {row["test"].rpartition("::test_")[2]: row for row in rows}


def test_the_changed_request_is_what_is_sent_and_reported(shop):
    words = ("--replay-set", "model=m-2", "--replay-set", "temperature = 0", "-k", "not plain")
    done, sent, runs = live(shop, *words)
    passed(done)
    assert [(body["model"], body["temperature"]) for body in sent] == [("m-2", 0)] * 3
    assert {name: run["model"] for name, run in runs.items()} == dict.fromkeys(("openai", "anthropic", "child"), "m-2")
    assert all(run["changed"] == {"model": "m-2", "temperature": "0"} for run in runs.values())


def test_the_prompt_becomes_that_of_a_file(shop):
    done, sent, runs = live(shop, "--replay-set", "prompt=@brief.txt", "-k", "openai or anthropic")
    passed(done)
    assert [body.get("instructions", body.get("system")) for body in sent] == ["Be brief."] * 2
    assert runs["openai"]["changed"] == {"prompt": "@brief.txt"}


def test_a_request_that_cannot_be_changed_stops_the_run_though_the_agent_goes_on(shop):
    done, sent, runs = live(shop, "--replay-set", "prompt=@brief.txt", "-k", "plain")
    assert done.returncode == 1
    assert not sent
    assert "--replay-set prompt: the request has no system text" in sections(done)["plain[live-1]"], done.stdout
    assert runs["plain"]["stopped"] == "--replay-set prompt: the request has no system text"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["--replay-set", "model=m-2"],
            "--replay-set=model=m-2 is for live models: add --replay=live",
        ),
        (
            ["--replay=live", "--replay-set", "prompt=@gone.txt"],
            "--replay-set prompt=@gone.txt: gone.txt: there is no such",
        ),
        (["--replay=live", "--replay-set", "stream=true"], "--replay-set stream: the agent writes it"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(shop, words, why):
    hits = shop.server.hits
    done = shop.run(*words)
    assert done.returncode == 4
    assert f"ERROR: {why}" in done.stderr
    assert "Traceback" not in flat(done) + done.stderr
    assert shop.server.hits == hits
