"""A child process can do nothing live in a replay: it joins and is held to the recording, or it does not run."""

import re
import subprocess
import sys

import pytest

from tests.support.small_projects import furnished, recorded, summary

CHILD = """
import json, os, pathlib, socket, subprocess, sys, time, urllib.request

NOW = os.environ.get("NOW") == "1"

def refund(order):
    with open("ledger.txt", "a") as ledger:
        ledger.write(order + chr(10))
    return order

def ask(words, base=None):
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": words}]}).encode()
    request = urllib.request.Request(
        (base or os.environ["MODEL_URL"]) + "/v1/chat/completions", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]

def changed():
    ask("other words" if NOW else "words")

def one_more():
    ask("words")
    if NOW:
        try:
            ask("more words")
        except BaseException:
            os._exit(0)

def another_tool():
    ask("words")
    if NOW:
        import agent_child
        agent_child.refund("A-17")

def connects():
    ask("words")
    if NOW:
        try:
            socket.create_connection(("127.0.0.1", int(os.environ["MODEL_URL"].rpartition(":")[2])))
        except BaseException:
            pass

def starts_git():
    ask("words")
    if NOW:
        try:
            subprocess.run(["git", "--version"])
        except BaseException:
            pass

def outlives():
    pathlib.Path("started.txt").touch()
    while not pathlib.Path("over.txt").exists():
        time.sleep(0.02)
    try:
        ask("late")
    except BaseException as error:
        pathlib.Path("late.txt").write_text(str(error), encoding="utf-8")
    else:
        pathlib.Path("late.txt").write_text("answered", encoding="utf-8")

if __name__ == "__main__":
    globals()[sys.argv[1]]()
"""

TESTS = """
import multiprocessing, os, pathlib, subprocess, sys, time
import pytest
import agent_child

def run(*words, **more):
    subprocess.run(words, check=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **more)

@pytest.mark.parametrize("what", ["changed", "one_more", "another_tool", "connects", "starts_git"])
def test_joined(agentreplay, what):
    run(sys.executable, "agent_child.py", what)

@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_process(agentreplay, method):
    process = multiprocessing.get_context(method).Process(target=agent_child.connects)
    process.start()
    process.join()

def test_fork(agentreplay):
    if not (process := os.fork()):
        agent_child.connects()
        os._exit(0)
    os.waitpid(process, 0)

@pytest.mark.parametrize("options", [("-I", "-c"), ("-Sc",)], ids="-".join)
def test_apart(agentreplay, options):
    agent_child.ask("in this process")
    code = "import sys; sys.path.insert(0, '.'); import agent_child; agent_child.changed(); agent_child.refund('apart')"
    run(sys.executable, *options, code)

def test_without_the_plugin(agentreplay):
    agent_child.ask("in this process")
    run(os.environ["OTHER_PYTHON"], "agent_child.py", "changed")

@pytest.mark.agentreplay(children=["quiet *"])
def test_quiet():
    agent_child.ask("in this process")
    run("./quiet", "x")

def test_late(agentreplay):
    agent_child.ask("in time")
    subprocess.Popen([sys.executable, "agent_child.py", "outlives"])
    while not pathlib.Path("started.txt").exists():
        time.sleep(0.02)

def test_after_late():
    pathlib.Path("over.txt").touch()
    until = time.monotonic() + 20
    while not pathlib.Path("late.txt").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert "refused" in pathlib.Path("late.txt").read_text(encoding="utf-8")
"""

CONNECTS = r"\[AR-NET\] .*1 connect to 127\.0\.0\.1:\d+ from agent_child\.py"
TOLD = {
    "joined[changed]": r"\[AR-PROMPT\] turn 1/1: .*added \"other",
    "joined[one_more]": r"\[AR-EXTRA\] .*model m-1",
    "joined[another_tool]": r"\[AR-\w+\] .*refund",
    "joined[connects]": CONNECTS,
    "joined[starts_git]": r"\[AR-NET\] .*1 child process git from agent_child\.py",
    "apart[-I--c]": r"\[AR-NET\] .*child process python -I",
    "apart[-Sc]": r"\[AR-NET\] .*child process python -S",
    "without_the_plugin": r"\[AR-NET\] .*child process python",
    "quiet": r"\[AR-NET\] .*child process quiet \(no child asked the gateway",
    **dict.fromkeys(("process[fork]", "process[forkserver]", "fork"), CONNECTS),
}
"""What fails each test whose child does something else."""


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(lambda body, number: f"answer {number}")
    furnished(made, "agentreplay_tools = agent_child.refund\n", agent_child=CHILD, test_children=TESTS)
    other = made.root / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(other)], check=True)
    quiet = made.root / "quiet"
    live = f"import agent_child; agent_child.ask('live', {made.server.url!r})"
    quiet.write_text(f'#!/bin/sh\n{sys.executable} -S -c "{live}"\n', encoding="utf-8")
    quiet.chmod(0o755)
    made.environ |= {"MODEL_URL": made.server.url, "OTHER_PYTHON": str(other / "bin" / "python"), "COLUMNS": "200"}
    return made


def test_what_a_child_does_otherwise_fails_its_test_and_reaches_nobody(project):
    told = recorded(project, "-k", "not late").recording.stdout
    for name in ("python -I", "python -S", "quiet"):
        assert f"child process {name}" in told, "a recording lists children that did not join"
    before = project.server.hits, project.ledger
    done = project.replay("-k", "not late", NOW="1")
    assert (project.server.hits, project.ledger) == before, done.stdout
    found = summary(done)
    assert found.keys() == TOLD.keys()
    assert not [(test, said) for test, said in found.items() if not re.match(TOLD[test], said)]
    assert re.search(r"called from +agent_child\.py:\d+ in ask", done.stdout), "the line of the child is told"


def test_a_child_that_outlives_its_test_is_refused(project):
    for mode, asked in (("record", 1), ("replay", 0)):
        for name in ("started.txt", "over.txt", "late.txt"):
            (project.root / name).unlink(missing_ok=True)
        hits = project.server.hits
        done = getattr(project, mode)("-k", "late", COLUMNS="80")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "AR-LATE" in done.stdout, done.stdout
        assert project.server.hits == hits + asked
        assert done.stdout.count("called from agent_child.py") == 1
