"""From a failing test, or another tool's export, to a green `expect: fixed`, by the commands that people type.

All traces are replayed in tests/application; these are of one run of the agent of docs/examples/refund, as different tools have kept it. Once there is a case,
model server and till are gone: everything is served from it.
"""

import re
import shutil
from pathlib import Path

import pytest
from examples.record import said

from tests.support.project import NOBODY

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "interchange" / "traces" / "generated"
EXAMPLES = ROOT / "docs" / "examples"
KEPT = ["langsmith/runs_export.jsonl", "otel-genai/otlp_refund_noargs_spanonly.jsonl", "vcrpy/openai_refund.yaml"]
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
"""What went in is kept by some tools as messages, by others as the arguments of the function that they traced."""
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


def judged(support, **wanted):
    """Run all cases: each half of each comes to what is wanted of it."""
    done = support.run("-v", "cases")
    found = re.findall(r"^cases/(\S+)/case\.yaml::(\w+) (\w+)", done.stdout, re.MULTILINE)
    assert {half for _, half, _ in found} == {"observed", "desired"}, done.stdout
    assert [one for one in found if one[2] != wanted[one[1]]] == [], done.stdout
    return done


def mended(support, count):
    """Mend the agent, say so in the cases, and break it again: each step is told."""
    hits = support.server.hits
    put(support, "fixed")
    done = judged(support, observed="FAILED", desired="FAILED")
    assert done.stdout.count("this failure no longer reproduces: set expect: fixed") == count

    for file in support.root.glob("cases/*/case.yaml"):
        support.edit(file, "expect: reproduces", "expect: fixed")
    done = judged(support, observed="PASSED", desired="PASSED")
    assert done.returncode == 0

    put(support, "broken")
    done = judged(support, observed="FAILED", desired="FAILED")
    assert len(re.findall("^FAILURE REPRODUCED", done.stdout, re.MULTILINE)) == count
    assert support.server.hits == hits


def test_a_failing_test_and_exports_of_it_become_cases_that_fail_and_then_hold(support):
    support.server._replies = said
    assert support.record("test_shop.py", MODEL_URL=support.server.url).returncode == 1
    done = support.command("freeze", "test_shop.py::test_refund", "--out", "cases/refund", "--runner", "refunds")
    assert done.returncode == 0, done.stdout + done.stderr
    for file in KEPT:
        folder = f"cases/{file.partition('/')[0].strip('_')}-{Path(file).stem[:24]}"
        done = support.command("scaffold", TRACES / file, "--out", folder, "--runner", "refunds")
        assert done.returncode == 0, done.stdout + done.stderr
    done = judged(support, observed="PASSED", desired="XFAIL")
    assert done.returncode == 0
    assert f"{len(KEPT) + 1} reproduced" in done.stdout
    mended(support, len(KEPT) + 1)
