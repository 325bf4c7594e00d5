"""A replay that passes loads what serves the calls; what explains, adopts, accepts or records waits until it is needed."""

import pytest

TEST = """
import httpx2, os, sys

def ask(word):
    reply = httpx2.post(
        os.environ["MODEL_URL"] + "/v1/chat/completions",
        json={"model": "m-1", "messages": [{"role": "user", "content": word}]},
    )
    return reply.json()["choices"][0]["message"]["content"]

def test_answer(agentreplay):
    assert ask(os.environ.get("WORD", "hello")) == "fine"
"""

CONFTEST = """
import pathlib, sys

def pytest_unconfigure(config):
    pathlib.Path(__file__).with_name("modules.txt").write_text("\\n".join(sorted(sys.modules)), encoding="utf-8")
"""

WAITING = (
    "intercept.ordering.discrete_time",
    "intercept.gateway.gateway",
    "intercept.tools.tool",
    "cases",
    "codec.journal",
    "core.backends.adopt",
    "core.align",
    "core.diagnose",
    "core.serialize",
    "core.redaction.pii",
    "core.tolerance",
    "report.findings",
    "report.terminal",
    "runs.accept",
    "runs.adopting",
    "runs.replay_kit",
    "runs.recording_session",
    "runs.recovery",
    "redact.final_scan",
)
"""Parts of the package that a replay of HTTP calls which passes does without."""


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(lambda body, number: "fine")
    made.write(test_answer=TEST, conftest=CONFTEST)
    (made.root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = made.record()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def loaded(project):
    """The modules of ours that the last process of pytest has loaded, and all others."""
    modules = (project.root / "modules.txt").read_text(encoding="utf-8").split()
    prefix = "pytest_agentreplay."
    return [name.removeprefix(prefix) for name in modules if name.startswith(prefix)], modules


def test_a_replay_that_passes_loads_only_what_serves_its_calls(project):
    done = project.offline()
    assert done.returncode == 0, done.stdout + done.stderr
    ours, every = loaded(project)
    assert "runs.replay_session" in ours
    early = [name for name in ours if name.startswith(tuple(f"{part}." for part in WAITING)) or name in WAITING]
    assert not early, early
    assert "tomllib" not in every


def test_a_divergence_loads_what_explains_it(project):
    done = project.offline(WORD="goodbye")
    assert done.returncode == 1
    assert "[AR-PROMPT]" in done.stdout
    ours, _ = loaded(project)
    assert {"core.diagnose", "report.findings"} <= set(ours)
