"""`agentreplay serve`: a snapshot for a process that knows nothing of pytest."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from tests.support.finished import ended

OUTER = """
import os, sys

os.environ["MODEL_URL"] = os.environ["OPENAI_BASE_URL"].removesuffix("/v1")
import agent

if sys.argv[1] == "once":
    agent.ask([{"role": "system", "content": agent.PROMPT}, {"role": "user", "content": "Where is A-17?"}])
else:
    print(agent.answer("Where is A-17?"))
"""
ASK = (sys.executable, "outer.py")


@pytest.fixture(scope="module")
def served(shared_project):
    """A recorded project, its snapshot, and a program outside of pytest that does what its agent does."""
    project = shared_project()
    project.furnish()
    project.write(outer=OUTER)
    assert project.record().returncode == 0
    project.server.stop()
    return project


def serve(project, *words):
    return project.command("serve", project.files[0], *words)


def test_a_command_gets_the_recorded_answers(served):
    done = serve(served, "--", *ASK, "all")
    assert (done.returncode, done.stdout) == (0, "Here is your refund (answer 3).\n"), done.stderr
    assert done.stderr.splitlines() == ["served 3 calls, 0 not asked for"]


def test_what_is_asked_otherwise_and_what_is_not_asked_for_is_told_and_the_command_fails(served):
    served.edit("agent.py", "Be brief.", "Be short.")
    done = serve(served, "--port", "0", "--", *ASK, "all")
    served.edit("agent.py", "Be short.", "Be brief.")
    assert (done.returncode, done.stdout) == (1, "")
    assert "served 0 calls, 3 not asked for" in done.stderr
    assert "[AR-PROMPT] turn 1/3: model m-1: system text" in done.stderr
    done = ended(serve(served, "--", *ASK, "once"), 1)
    assert "served 1 call, 2 not asked for" in done.stderr
    assert "[AR-MISSING] turn 2/3: the test ended, model m-1 was not called" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a console's Ctrl-C reaches every process of it on Windows")
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_without_a_command_it_serves_until_it_is_interrupted(served, how):
    words = [sys.executable, "-m", "pytest_agentreplay", "serve", "--port", "0", str(served.files[0])]
    environ = served.surroundings()
    piped = {"env": environ, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(words, **piped) as running:
        try:
            url = re.search(r"at (http://127\.0\.0\.1:\d+/t/\S+) until Ctrl-C", running.stderr.readline())[1]
            base = f"{url}/p/openai/v1"
            assert running.stdout.readline() == f"export OPENAI_BASE_URL={base}\n"
            piped["env"] = environ | {"OPENAI_BASE_URL": base}
            done = subprocess.run([*ASK, "all"], cwd=served.root, timeout=60, **piped)
            assert "refund" in done.stdout, done.stderr
            running.send_signal(how)
            running.wait(20)
            said, summary = running.stdout.read(), running.stderr.read()
        finally:
            running.kill()
    assert running.returncode == 0, summary
    assert "served 3 calls, 0 not asked for" in summary
    assert "export OPENAI_API_KEY=agentreplay-no-key-is-needed\n" in said
    assert re.search(r"^export HTTPS_PROXY=http://agentreplay:[0-9a-f]+@127\.0\.0\.1:\d+$", said, re.MULTILINE)


def test_what_cannot_be_served(served, typed, tmp_path):
    assert serve(served, "--", "no-such-program").returncode == 125
    assert typed("serve", tmp_path / "none.snapshot.json").code == 2
    damaged = tmp_path / "damaged.snapshot.json"
    damaged.write_text(json.dumps({"schemaVersion": "1.0"}), encoding="utf-8")
    assert typed("serve", damaged).code == 4
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = "serve", served.files[0], "--port", taken.getsockname()[1]
        done = served.command(*words, PYTHONWARNINGS="always::ResourceWarning")
    assert (done.returncode, "cannot listen on port" in done.stderr) == (2, True)
    assert "unclosed" not in done.stderr
