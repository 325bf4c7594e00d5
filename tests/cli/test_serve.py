"""`agentreplay serve`: a snapshot for a process that knows nothing of pytest."""

import json
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

OUTER = """
import json, os, sys, urllib.error, urllib.request

PROMPT = "You help customers.\\nBe brief.\\nBe kind."
SCHEMAS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("lookup_order", "refund")
]
TOOLS = {
    "lookup_order": lambda order_id: {"order": order_id, "status": "late"},
    "refund": lambda order_id, amount: f"refunded {amount}",
}

def ask(messages):
    body = json.dumps({"model": "m-1", "messages": messages, "tools": SCHEMAS}).encode()
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"content-type": "application/json", "accept": "*/*"}
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)["choices"][0]["message"]

messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "Where is A-17?"}]
for _ in range(int(sys.argv[1])):
    reply = ask(messages)
    if not reply.get("tool_calls"):
        print(reply["content"])
        break
    messages.append(reply)
    for call in reply["tool_calls"]:
        result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
"""


@pytest.fixture(scope="module")
def served(shared_project):
    """A recorded project, its snapshot, and a program outside of it that does what its agent does."""
    from tests.support.project import TEST, refunds

    project = shared_project(refunds)
    project.furnish(TEST)
    project.write(outer=OUTER)
    assert project.record().returncode == 0
    project.server.stop()
    return project


def serve(project, *words):
    return project.command("serve", project.files[0], *words)


def test_a_command_gets_the_recorded_answers(served):
    done = serve(served, "--", sys.executable, "outer.py", "9")
    assert (done.returncode, done.stdout) == (0, "Here is your refund (answer 3).\n"), done.stderr
    assert done.stderr.splitlines() == ["served 3 calls, 0 not asked for"]


def test_what_is_asked_otherwise_is_told_and_the_command_fails(served):
    served.edit("outer.py", "Be brief.", "Be short.")
    done = serve(served, "--port", "0", "--", sys.executable, "outer.py", "9")
    served.edit("outer.py", "Be short.", "Be brief.")
    assert (done.returncode, done.stdout) == (1, "")
    assert "HTTP Error 400: Bad Request" in done.stderr
    assert "served 0 calls, 3 not asked for" in done.stderr
    assert "[AR-PROMPT] turn 1/3: model m-1: system text" in done.stderr


def test_what_is_not_asked_for_is_told(served):
    done = serve(served, "--", sys.executable, "outer.py", "1")
    assert done.returncode == 1
    assert "served 1 call, 2 not asked for" in done.stderr
    assert "[AR-MISSING] turn 2/3: the test ended, model m-1 was not called" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="a console's Ctrl-C reaches every process of it on Windows")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_without_a_command_it_serves_until_it_is_interrupted(served, how):
    words = [sys.executable, "-m", "pytest_agentreplay", "serve", "--port", "0", str(served.files[0])]
    environ = served.surroundings()
    with subprocess.Popen(
        words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as running:
        try:
            told = running.stderr.readline()
            url = re.search(r"at (http://127\.0\.0\.1:\d+/t/\S+) until Ctrl-C", told)[1]
            assert running.stdout.readline() == f"export OPENAI_BASE_URL={url}/p/openai/v1\n"
            outer = [sys.executable, "outer.py", "9"]
            environ["OPENAI_BASE_URL"] = f"{url}/p/openai/v1"
            done = subprocess.run(
                outer, cwd=served.root, env=environ, capture_output=True, encoding="utf-8", timeout=60
            )
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


def test_what_cannot_be_served(served, tmp_path):
    assert serve(served, "--", "no-such-program").returncode == 125
    assert served.command("serve", tmp_path / "none.snapshot.json").returncode == 2
    damaged = tmp_path / "damaged.snapshot.json"
    damaged.write_text(json.dumps({"schemaVersion": "1.0"}), encoding="utf-8")
    assert served.command("serve", damaged).returncode == 4
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = serve(served, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "cannot listen on port" in done.stderr
