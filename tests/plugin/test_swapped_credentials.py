"""Secrets of the environment that a run sends to the wrong place, recorded in one process and replayed in another."""

import json

import pytest

ADA, EVE = "ada-7f3k9q2mz8w4x1", "eve-0p5d6t8hj3n7v2"
NEW_ADA, NEW_EVE = "ada-2b8r4y6cs1g9u3", "eve-9e1a7l5fw0o3i6"

AGENT = """
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

TEST = """
import os
import pytest
import agent

@pytest.mark.parametrize("name", ["body", "tool", "alike"])
def test_program(name, agentreplay):
    agentreplay.secret(agent.ADA)
    agentreplay.secret(agent.EVE)
    getattr(agent, name)()
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools =
    agent.pay
"""

KEYS = {"SHOP_KEY_A": ADA, "SHOP_KEY_B": EVE}
NAMES = "SHOP_KEY_A SHOP_KEY_B"


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project()
    made.write(agent=AGENT, test_shop=TEST)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = made.record(**KEYS, HELD_BY=NAMES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not replay" not in done.stdout, done.stdout + done.stderr
    return made


def test_a_recording_names_the_variable_of_each_placeholder_and_nothing_else_of_it(project):
    for snapshot in project.snapshots:
        variables = snapshot.run.header.kit["redactions"]["variables"]
        assert variables == {"key:1": "SHOP_KEY_A", "key:2": "SHOP_KEY_B"}
    for file in project.root.rglob("*.snapshot.json"):
        text = file.read_text(encoding="utf-8")
        assert ADA not in text
        assert EVE not in text


@pytest.mark.parametrize("keys", [KEYS, {"SHOP_KEY_A": NEW_ADA, "SHOP_KEY_B": NEW_EVE}], ids=["same", "rotated"])
def test_swapped_keys_are_a_divergence(project, keys):
    done = project.offline(**keys, HELD_BY=NAMES, PROGRAM="swapped")
    assert "3 failed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("[[redacted:key:1]]") >= 3, done.stdout


@pytest.mark.parametrize(
    ("keys", "held_by"),
    [
        (KEYS, NAMES),
        ({"SHOP_KEY_A": NEW_ADA, "SHOP_KEY_B": NEW_EVE}, NAMES),
        ({"SHOP_KEY_A": "dummy-key-of-the-ci-job", "SHOP_KEY_B": "dummy-key-of-the-ci-job"}, NAMES),
        ({"SHOP_KEY_A": ADA, "SHOP_KEY_B": "dummy-key-of-the-ci-job"}, NAMES),
        ({"SHOP_KEY_A": NEW_ADA}, NAMES),
        ({"SHOP_KEY_B": NEW_EVE}, NAMES),
        ({}, NAMES),
        ({"STORE_KEY_A": ADA, "STORE_KEY_B": EVE}, "STORE_KEY_A STORE_KEY_B"),
        ({"SHOP_KEY_A": ADA, "STORE_KEY_B": EVE}, "SHOP_KEY_A STORE_KEY_B"),
        ({"SHOP_KEY_B": ADA, "STORE_KEY_B": EVE}, "SHOP_KEY_B STORE_KEY_B"),
    ],
    ids=["same", "rotated", "dummies", "a dummy", "A alone", "B alone", "none", "renamed", "B renamed", "one reused"],
)
def test_the_keys_of_another_machine_match(project, keys, held_by):
    done = project.offline(**keys, HELD_BY=held_by)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_a_recording_without_names_replays_as_before(project):
    files = {file: file.read_text(encoding="utf-8") for file in project.root.rglob("*.snapshot.json")}
    try:
        for file, text in files.items():
            content = json.loads(text)
            del content["header"]["kit"]["redactions"]["variables"]
            file.write_text(json.dumps(content), encoding="utf-8")
        done = project.run(**KEYS, HELD_BY=NAMES, PROGRAM="swapped", MODEL_URL="http://127.0.0.1:9")
        assert "3 passed" in done.stdout, done.stdout + done.stderr
    finally:
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
