"""`agentreplay ls --stale` and the section of the footer."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.kept_files import contents, put_back
from tests.support.small_projects import edited, furnished, passed, recorded

AGENT = """
import os
import httpx2

def refund(order, amount, *, note="x", **more):
    return "refunded"

def ask(text, model="m-1"):
    tools = [{"type": "function", "function": {"name": "refund", "parameters": {"type": "object", "properties": {"order": {}}}}}]
    body = {"model": model, "messages": [{"role": "user", "content": text}], "tools": tools}
    return httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).json()
"""
TESTS = """
import agent

def test_refund(agentreplay):
    agent.refund("A-1", 20)
    agent.ask("refunded?", "gpt-4-32k")

def test_gone(agentreplay):
    agent.ask("hello")
"""
INI = "agentreplay_tools =\n    agent.refund\n"


@pytest.fixture(scope="module")
def original(shared_project):
    project = shared_project(lambda body, number: "yes")
    recorded(furnished(project, INI, agent=AGENT, test_shop=TESTS))
    project.kept = contents(project.root)
    return project


@pytest.fixture
def shop(original):
    put_back(original.root, original.kept)
    return original


def stale(shop, *words, code):
    done = shop.command("ls", "--stale", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def make_older(shop, days):
    """Move the recordings into the past."""
    for file in shop.files:
        data = json.loads(file.read_text(encoding="utf-8"))
        when = datetime.now(UTC) - timedelta(days=days)
        data["header"]["recorded"] = when.isoformat(timespec="seconds")
        data["header"]["clock"] = int(when.timestamp() * 1e9)
        file.write_text(json.dumps(data), encoding="utf-8")
        assert shop.command("verify", "--accept-edit", str(file), "--reason", "test").returncode == 0


def test_what_is_stale_is_named_by_reason_with_its_files(shop):
    said = stale(shop, code=1)
    assert said.startswith(
        "asks gpt-4-32k, retired 2025-06-06: 1 file\n  __agent_snapshots__/test_shop/test_refund.snap"
    )
    assert "tool" not in said
    with (
        edited(shop, "agent.py", "def refund(order, amount, *, note", "def refund(number, amount, *, note"),
        edited(shop, "agent.py", ", **more", ""),
    ):
        said = stale(shop, code=1)
    assert "tool refund takes (number, amount, *, note=), recorded (order, amount, *, note=, **more)" in said
    assert "the model was told of refund(order), which it does not take: 2 files" in said
    with edited(shop, "agent.py", "def refund(", "def repay("):
        assert "agent.refund, frozen as refund, is not defined\n  next: correct the line" in stale(shop, code=1)
    with edited(shop, "test_shop.py", "def test_gone", "def test_here"):
        said = stale(shop, "--json", code=1)
    rows = {row["kind"]: row for row in json.loads(said)["stale"]}
    assert rows["gone"]["files"] == ["__agent_snapshots__/test_shop/test_gone.snapshot.json"]
    gone = next(file for file in shop.files if "gone" in file.name)
    assert stale(shop, gone, code=0) == "1 snapshot, none is stale\n"


def test_age_and_models_of_the_project(shop):
    make_older(shop, 200)
    assert "recorded more than 180 days ago: 2 files" in stale(shop, code=1)
    ini = shop.root / "pytest.ini"
    text = ini.read_text(encoding="utf-8")
    more = "agentreplay_checks =\n    old = 300d\n    retired:m-* = 2026-01-31\n    retired:gpt-4-32k = 2999-01-01\n"
    ini.write_text(text + more, encoding="utf-8")
    said = stale(shop, code=1)
    assert "asks m-1, retired 2026-01-31: 1 file" in said
    assert "gpt-4-32k" not in said
    assert "days ago" not in said
    ini.write_text(text + "agentreplay_checks = retired:m-1 = soon\n", encoding="utf-8")
    done = shop.command("ls", "--stale")
    assert done.returncode == 2
    assert "agentreplay_checks: 'retired:m-1 = soon': write retired:m-1 = 2026-01-31" in done.stderr


def test_the_footer_tells_of_old_recordings_and_of_changed_tools(shop):
    assert "stale" not in passed(shop.offline()).stdout
    with edited(shop, "agent.py", "def refund(order, amount", "def refund(order, amount=0"):
        said = " ".join(passed(shop.offline(COLUMNS="200")).stdout.split())
    assert "stale some recordings are out of date: agentreplay ls --stale" in said
    assert (
        "2 tests: tool refund takes (order, amount=, *, note=, **more), recorded (order, amount, *, note=, **more)"
        in said
    )
    make_older(shop, 200)
    said = " ".join(passed(shop.offline("-o", "agentreplay_checks=old=100", COLUMNS="200")).stdout.split())
    assert "2 tests: recorded more than 100 days ago" in said
    assert "1 test: asks gpt-4-32k, retired 2025-06-06" in said
    assert "stale" not in passed(shop.offline("-o", "agentreplay_checks=old=0")).stdout
    # A new recording that says the same leaves a snapshot as it is, but for one that is stale by its day.
    assert passed(shop.record()).stdout.count("(replaced, ") == 2
    assert passed(shop.record()).stdout.count("unchanged") == 2


def test_what_cannot_be_read_and_where_there_is_nothing(shop, tmp_path):
    assert shop.command("ls", "--stale", "nowhere").returncode == 2
    empty = shop.root / "empty"
    empty.mkdir()
    assert shop.command("ls", "--stale", str(empty)).returncode == 5
    shop.files[0].write_text("{}", encoding="utf-8")
    done = shop.command("ls", "--stale")
    assert done.returncode == 4
    assert re.search(r"test_\w+\.snapshot\.json: ", done.stderr)
