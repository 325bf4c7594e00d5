"""From another tool's export to a green `expect: fixed`, by the commands that people type, with the agent that failed.

The traces are of one run of this agent, as different tools have kept it. Model server and till are gone: everything is
served from the case.
"""

import shutil
from pathlib import Path

import pytest

from tests.conftest import NOBODY

ROOT = Path(__file__).parents[2]
TRACES = ROOT / "tests" / "interchange" / "traces" / "generated"
EXAMPLES = ROOT / "docs" / "examples"
KEPT = [
    "langsmith/runs_export.jsonl",
    "otel-genai/otlp_refund_spanonly.jsonl",
    "otel-genai/otlp_refund_noargs_spanonly.jsonl",
    "langfuse/otlp_export.json",
    "openinference/otlp_refund.jsonl",
    "openllmetry/otlp_refund.jsonl",
    "phoenix/rest_spans.json",
    "mlflow/trace_to_dict.json",
    "opik/trace_01a1f934-0627-7269-9cb4-95074a254024.json",
    "braintrust/project_logs_events.jsonl",
    "weave/calls.jsonl",
    "galileo/trace_schema_dump.json",
    "openai-agents/chatmodel_trace_processor_export.jsonl",
    "inspect-ai/2026-11-20T13-38-07-00-00_refund_7QdpHPghAbWBgMuk5biypy.json",
    "openai/chat_completions_log.jsonl",
    "_synthesised/helicone_export.jsonl",
    "promptlayer/track_request_bodies.jsonl",
    "vcrpy/openai_refund.yaml",
]
INI = """
[pytest]
pythonpath = .
agentreplay_tools =
    examples.refund.tools.lookup_order = read
    examples.refund.tools.issue_refund
agentreplay_runners =
    refunds = agent:answer
"""


@pytest.fixture
def support(project):
    """A project with the agent that failed, and no model to be asked."""
    (project.root / "agent.py").unlink(missing_ok=True)
    (project.root / "test_shop.py").unlink(missing_ok=True)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    shutil.copytree(EXAMPLES / "refund", project.root / "examples" / "refund")
    shutil.copy(EXAMPLES / "chat.py", project.root / "examples")
    agent(project, "broken")
    project.environ["MODEL_URL"] = NOBODY
    return project


def agent(project, version):
    """Put this version of the agent in its place."""
    shutil.copy(EXAMPLES / "refund" / f"{version}.py", project.root / "agent.py")


def verdicts(done):
    """What pytest says of each half."""
    found = dict(
        row.split()[:2]
        for row in done.stdout.splitlines()
        if "case.yaml::" in row and not row.startswith(("FAILED", "_"))
    )
    return {name.rpartition("::")[2]: word for name, word in found.items()}


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.partition("/")[0] + "-" + file.rpartition("/")[2][:12])
def test_an_export_becomes_a_case_that_fails_and_then_holds(support, file):
    done = support.command("scaffold", TRACES / file, "--out", "cases/refund", "--runner", "refunds")
    assert done.returncode == 0, done.stdout + done.stderr

    done = support.run("-v", "cases")
    assert verdicts(done) == {"observed": "PASSED", "desired": "XFAIL"}, done.stdout
    assert done.returncode == 0

    agent(support, "fixed")
    done = support.run("-v", "cases")
    assert verdicts(done)["observed"] == "FAILED", done.stdout
    assert "set expect: fixed" in done.stdout

    support.edit("cases/refund/case.yaml", "expect: reproduces", "expect: fixed")
    done = support.run("-v", "cases")
    assert verdicts(done) == {"observed": "PASSED", "desired": "PASSED"}, done.stdout
    assert done.returncode == 0

    agent(support, "broken")
    done = support.run("-v", "cases")
    assert verdicts(done) == {"observed": "FAILED", "desired": "FAILED"}, done.stdout
    assert "FAILURE REPRODUCED" in done.stdout
    assert support.server.hits == 0
