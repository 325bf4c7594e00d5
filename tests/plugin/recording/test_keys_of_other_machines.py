"""Recorded with keys and replayed on a machine that has none or others; a key that is sent to the wrong place is told."""

import json
import os

import pytest

from tests.support.exhaustive import rare
from tests.support.project import NOBODY
from tests.support.small_projects import edited, furnished, passed, recorded, runs, sections

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


@pytest.fixture(scope="module")
def keyed(shared_project):
    made = furnished(shared_project(), agent=AGENT, test_keys=TESTS)
    made.environ = {"COLUMNS": "80"}
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": CLAUDE_KEY, "SESSION_KEY": "one-of-a-session"}
    return recorded(made, **keys, UNUSED_API_KEY="never-sent-anywhere")


def test_a_recording_names_the_variables_whose_values_were_sent_and_no_others(keyed):
    assert {name: run.header.kit["keys"] for name, run in runs(keyed).items()} == {
        "in_the_test": [["ANTHROPIC_API_KEY"], ["OPENAI_API_KEY"]],
        "in_a_wide_fixture": [["OPENAI_API_KEY"]],
        "in_bodies": [["OPENAI_API_KEY"], ["SESSION_KEY"]],
        "that_takes_its_key_away": [["OPENAI_API_KEY"]],
    }
    text = "".join(file.read_text(encoding="utf-8") for file in keyed.files)
    assert not [secret for secret in (KEY, CLAUDE_KEY, "UNUSED_API_KEY") if secret in text]


def test_it_replays_without_the_keys_or_with_others_in_any_order_and_leaves_the_environment_as_it_was(keyed):
    assert "5 passed" in passed(keyed.offline()).stdout
    withheld = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "SESSION_KEY"), "")  # as CI does it with a secret
    assert "5 passed" in passed(keyed.offline(**withheld)).stdout
    others = {"OPENAI_API_KEY": "sk-live-fedcba9876543210", "SESSION_KEY": "one-of-another-session"}
    passed(keyed.offline("test_keys.py::test_beside_the_plugin", "test_keys.py::test_in_bodies", **others))


def test_accepting_requests_needs_no_key_and_tools_that_run_for_real_are_given_no_placeholder(keyed):
    file = next(file for file in keyed.files if "wide_fixture" in file.name)
    with edited(keyed, "agent.py", "Where is A-17?", "Where is A-18?"):
        done = keyed.command("accept", file, "--requests", "--reason", "the same question of another order")
    assert "accepted  " in passed(done).stdout
    done = keyed.replay("--replay-tools=checked", "test_keys.py::test_in_the_test")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "api_key" in done.stdout


# Keys that are sent to the wrong place.

ADA, EVE = "ada-7f3k9q2mz8w4x1", "eve-0p5d6t8hj3n7v2"
NEW_ADA, NEW_EVE = "ada-2b8r4y6cs1g9u3", "eve-9e1a7l5fw0o3i6"

SWAPPING = """
import os
import httpx2

ADA, EVE = (os.environ.get(name, "dummy") for name in os.environ["HELD_BY"].split())
if os.environ.get("PROGRAM") == "swapped":
    ADA, EVE = EVE, ADA
BASE = os.environ["MODEL_URL"]

def pay(key, whom):
    return f"paid {whom}"

def body():
    for key, whom in ((ADA, "ada"), (EVE, "eve")):
        httpx2.post(f"{BASE}/v1/pay", json={"account_key": key, "to": whom})

def tool():
    for key, whom in ((ADA, "ada"), (EVE, "eve")):
        pay(key, whom)

def alike():
    for key in (ADA, EVE):
        pay(f"Bearer {key}", "anybody")
"""

SWAPPED = """
import os
import pytest
import agent

@pytest.mark.parametrize("name", ["body", "tool", "alike"])
def test_program(name, agentreplay):
    agentreplay.secret(agent.ADA)
    agentreplay.secret(agent.EVE)
    getattr(agent, name)()
"""

KEYS = {"SHOP_KEY_A": ADA, "SHOP_KEY_B": EVE}
ROTATED = {"SHOP_KEY_A": NEW_ADA, "SHOP_KEY_B": NEW_EVE}
NAMES = "SHOP_KEY_A SHOP_KEY_B"


@pytest.fixture(scope="module")
def swapping(shared_project):
    made = furnished(shared_project(), "agentreplay_tools = agent.pay\n", agent=SWAPPING, test_shop=SWAPPED)
    return recorded(made, **KEYS, HELD_BY=NAMES)


def test_a_recording_names_the_variable_of_each_placeholder_and_nothing_else_of_it(swapping):
    for run in runs(swapping).values():
        assert run.header.kit["redactions"]["variables"] == {"key:1": "SHOP_KEY_A", "key:2": "SHOP_KEY_B"}
    text = "".join(file.read_text(encoding="utf-8") for file in swapping.files)
    assert not [key for key in (ADA, EVE) if key in text]


@pytest.mark.parametrize("keys", [KEYS, ROTATED], ids=["same", "rotated"])
def test_swapped_keys_are_a_divergence(swapping, keys):
    done = swapping.offline(**keys, HELD_BY=NAMES, PROGRAM="swapped")
    assert "3 failed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("[[redacted:key:1]]") >= 3, done.stdout


DUMMY = "dummy-key-of-the-ci-job"


@pytest.mark.parametrize(
    ("keys", "held_by"),
    [
        (ROTATED, NAMES),
        ({"SHOP_KEY_B": NEW_EVE}, NAMES),
        ({"STORE_KEY_A": ADA, "STORE_KEY_B": EVE}, "STORE_KEY_A STORE_KEY_B"),
        ({"SHOP_KEY_B": ADA, "STORE_KEY_B": EVE}, "SHOP_KEY_B STORE_KEY_B"),
        *rare(
            (KEYS, NAMES),
            ({"SHOP_KEY_A": ADA, "SHOP_KEY_B": DUMMY}, NAMES),
            ({"SHOP_KEY_A": DUMMY, "SHOP_KEY_B": DUMMY}, NAMES),
            ({"SHOP_KEY_A": NEW_ADA}, NAMES),
            ({}, NAMES),
            ({"SHOP_KEY_A": ADA, "STORE_KEY_B": EVE}, "SHOP_KEY_A STORE_KEY_B"),
        ),
    ],
)
def test_the_keys_of_another_machine_match(swapping, keys, held_by):
    assert "3 passed" in passed(swapping.offline(**keys, HELD_BY=held_by)).stdout


def test_a_recording_without_names_replays_as_before(swapping):
    kept = {file: file.read_text(encoding="utf-8") for file in swapping.files}
    for file, text in kept.items():
        content = json.loads(text)
        del content["header"]["kit"]["redactions"]["variables"]
        file.write_text(json.dumps(content), encoding="utf-8")
    try:
        done = swapping.run(**KEYS, HELD_BY=NAMES, PROGRAM="swapped", MODEL_URL=NOBODY)
    finally:
        for file, text in kept.items():
            file.write_text(text, encoding="utf-8")
    assert "3 passed" in passed(done).stdout


# Credentials from files and logins.

READING = """
import configparser, os, pathlib, subprocess
import httpx2

BASE = os.environ["MODEL_URL"]

class NoCredentialsError(Exception):
    "As in botocore."
NoCredentialsError.__module__ = "botocore.exceptions"

def read_key(profile="default"):
    file = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    rows = configparser.RawConfigParser()
    rows.read(os.path.expanduser(file))
    if not rows.has_section(profile):
        raise NoCredentialsError("Unable to locate credentials")
    return rows[profile]["aws_access_key_id"]

def ask(key):
    signed = f"AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/bedrock/aws4_request, Signature=0"
    httpx2.post(f"{BASE}/v1/pay", json={"a": 1}, headers={"authorization": signed})

def ask_with_role():
    body = {"model": "m", "messages": [{"role": "user", "content": "A token, please"}]}
    token = httpx2.post(f"{BASE}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
    httpx2.get(f"{BASE}/latest/role", headers={"x-aws-ec2-metadata-token": token})
    ask("ASIAEXAMPLEOFAROLE77")

def log_in(program):
    return subprocess.run([program, "account"], capture_output=True, check=False).returncode
"""
READ = """
import pathlib
import pytest
import reading

try:
    AT_IMPORT = reading.read_key()
except reading.NoCredentialsError:
    AT_IMPORT = None

def test_default(agentreplay):
    reading.ask(reading.read_key())

def test_profiles(agentreplay):
    reading.ask(reading.read_key("work"))
    reading.ask(reading.read_key())

def test_own(agentreplay):
    reading.ask("AKIAEXAMPLEINTHETEST")

def test_none(agentreplay, monkeypatch):
    reading.ask(reading.read_key())
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "nowhere")
    with pytest.raises(reading.NoCredentialsError):
        reading.read_key()

def test_role(agentreplay):
    reading.ask_with_role()

def test_at_import(agentreplay):
    if AT_IMPORT is None:
        raise reading.NoCredentialsError("Unable to locate credentials")
    reading.ask(AT_IMPORT)

def test_login(agentreplay):
    reading.log_in(str(pathlib.Path(__file__).with_name("az")))
    reading.ask("token")
"""
AWS_FILE = "[default]\naws_access_key_id = AKIAQWERTYUIOPASDFGH\n[work]\naws_access_key_id = AKIAZXCVBNMLKJHGFDSA\n"


@pytest.mark.skipif(os.name == "nt", reason="HOME, and a program without a suffix")
def test_credentials_in_files_are_hidden_from_the_proof_and_supplied_in_replays(shared_project, tmp_path):
    project = furnished(
        shared_project(lambda body, number: "AQAEAE7qk2Jx9mT3vB8nR5wLdFzYhGcKpSuXiQoVa"),
        reading=READING,
        test_read=READ,
    )
    project.environ, project.proves, project.forked_proofs = {"COLUMNS": "200"}, True, True
    (tmp_path / "desk" / ".aws").mkdir(parents=True)
    (tmp_path / "desk" / ".aws" / "credentials").write_text(AWS_FILE, encoding="utf-8")
    (project.root / "az").write_text("#!/bin/sh\n", encoding="utf-8")
    (project.root / "az").chmod(0o755)
    desk, other = {"HOME": str(tmp_path / "desk")}, {"HOME": str(tmp_path)}
    told = passed(project.record(**desk)).stdout
    missing = "credentials came from a file or a login: "
    assert f"{missing}in CI set any AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in told
    assert f"{missing}record with AZURE_CLIENT_ID, AZURE_TENANT_ID" in told
    assert told.count("does not replay") == 2
    kits = {name: run.header.kit.get("credentials") for name, run in runs(project).items()}
    used = {"aws": ["default"], "google": {}}
    assert kits == dict.fromkeys(("default", "none", "at_import"), used) | {
        "profiles": used | {"aws": ["default", "work"]},
        **dict.fromkeys(("own", "role", "login")),
    }
    assert not [key for key in ("QWERTY", "ZXCVBN") if any(key in f.read_text(encoding="utf-8") for f in project.files)]
    assert "5 passed" in passed(project.offline("-k", "not import and not login", **other)).stdout
    assert "5 passed" in passed(project.offline("-k", "not import and not login", **desk)).stdout
    report = sections(project.offline("-k", "login", **other))["login"]
    assert report.startswith("[AR-CREDENTIALS] no credentials here: record with AZURE_CLIENT_ID")
    assert "agentreplay_allow" not in report
    assert "--snapshot-record" not in report
