"""A child process that dies in the midst of a call: the recording is kept, and a replay of it comes to its end."""

import re
import time

import pytest

CHILD = """
import json, os, pathlib, signal, sys, threading, time, urllib.request
import agent_tools

def ask(words, **more):
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": words}], **more}).encode()
    url = os.environ["MODEL_URL"] + "/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json"})) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]

def die_soon():
    if os.environ.get("SURVIVES") != "1":
        threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGKILL)).start()

def in_a_request():
    die_soon()
    ask("slow")

def in_a_tool():
    die_soon()
    agent_tools.slow("A-1")

if __name__ == "__main__":
    ask("hello")
    globals()[sys.argv[1]]()
"""

TOOLS = """
import time

def slow(order):
    with open("ledger.txt", "a") as ledger:
        ledger.write(order + chr(10))
    time.sleep(2)
    return order
"""

TESTS = """
import multiprocessing, os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
import pytest
import agent_child

@pytest.mark.parametrize("call", ["in_a_request", "in_a_tool"])
def test_script(agentreplay, call):
    subprocess.run([sys.executable, "agent_child.py", call], check=False, timeout=20)
    agent_child.ask("after it")

@pytest.mark.parametrize("call", ["in_a_request", "in_a_tool"])
def test_worker(agentreplay, call):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        try:
            pool.submit(getattr(agent_child, call)).result(timeout=20)
        except BrokenProcessPool:
            pass
    agent_child.ask("after it")
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools = agent_tools.slow
"""


def script(body, number):
    if body["messages"][0]["content"] == "slow":
        time.sleep(2)
    return f"answer {number}"


@pytest.fixture(scope="module")
def recorded(shared_project):
    """The project with its recordings, of children that died."""
    project = shared_project(script)
    project.write(agent_child=CHILD, agent_tools=TOOLS, test_killed=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = project.record("--agentreplay-no-prove")
    assert done.returncode == 0, done.stdout + done.stderr
    return project


def test_a_child_that_dies_again_replays(recorded):
    done = recorded.offline()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_a_child_that_survives_a_call_without_an_answer_ends_with_a_report(recorded):
    done = recorded.offline("-k", "script and request", SURVIVES="1", COLUMNS="200")
    summary = done.stdout.partition("short test summary info")[2]
    assert re.search(
        r"^FAILED \S+ - \[AR-EXTRA\] no answer had come when the recorded run ended", summary, re.MULTILINE
    )
