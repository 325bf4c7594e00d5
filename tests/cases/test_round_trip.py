"""From a failing test, and another tool's export, to a green `expect: fixed`, by the commands that people type.

Once there is a case, model server and till are gone: everything is served from it. What is told on the way, and when a
mended agent breaks again, is in tests/plugin/cases; the exports of all other tools are replayed in tests/runs.
"""

import re
import shutil
from pathlib import Path

import pytest
from examples.record import said

from tests.support.project import NOBODY

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

ROOT = Path(__file__).parents[2]
EXPORT = ROOT / "tests/traces/traces/generated/otel-genai/otlp_refund_noargs_spanonly.jsonl"
EXAMPLES = ROOT / "docs" / "examples"
INI = """
[pytest]
pythonpath = .
agentreplay_tools =
    examples.refund.tools.lookup_order = read
    examples.refund.tools.issue_refund
agentreplay_runners =
    refunds = runner:run
"""
RUNNER = """
import agent

def run(messages=(), question="", input=""):
    return agent.answer([*messages] or [{"role": "user", "content": question or input}])
"""
TEST = """
import agent

def test_refund(agentreplay):
    messages = [{"role": "user", "content": "Please refund order A-1001, it arrived broken."}]
    assert "I have refunded" not in agent.answer(messages)
"""


@pytest.fixture
def support(project):
    """A project with the agent that failed, and no model to be asked."""
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    shutil.copytree(EXAMPLES / "refund", project.root / "examples" / "refund")
    shutil.copy(EXAMPLES / "chat.py", project.root / "examples")
    project.write(runner=RUNNER, test_shop=TEST)
    put(project, "broken")
    project.environ["MODEL_URL"] = NOBODY
    return project


def put(project, version):
    """Put this version of the agent in its place."""
    shutil.copy(EXAMPLES / "refund" / f"{version}.py", project.root / "agent.py")


def run_cases(support):
    """What pytest prints of all cases, which pass."""
    done = support.run("-v", "cases")
    assert re.findall(r"^cases/\S+::(\w+) PASSED", done.stdout, re.MULTILINE) == ["own", "trace"], done.stdout
    assert done.returncode == 0
    return done.stdout


def test_a_failing_test_and_an_export_of_it_become_cases_that_fail_and_then_hold(support):
    support.server._replies = said
    assert support.record("test_shop.py", MODEL_URL=support.server.url).returncode == 1
    hits = support.server.hits
    for made in (
        ("case", "new", "test_shop.py::test_refund", "--out", "cases/own"),
        ("case", "new", EXPORT, "--out", "cases/trace"),
    ):
        done = support.command(*made, "--runner", "refunds")
        assert done.returncode == 0, done.stdout + done.stderr
    assert "cases: 2 as expected (2 reproduce the failure)" in run_cases(support)
    put(support, "fixed")
    for file in support.root.glob("cases/*/case.yaml"):
        support.edit(file, "expect: reproduces", "expect: fixed")
    assert "cases: 2 as expected (2 fixed" in run_cases(support)
    assert support.server.hits == hits
