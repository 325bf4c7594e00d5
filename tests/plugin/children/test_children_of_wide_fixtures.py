"""Workers of a pool that a wide fixture holds: each job works in the run of the test that submits it."""

import json

import pytest

TOOLS = """
import random

def note(line):
    with open("ledger.txt", "a") as ledger:
        ledger.write(line + chr(10))
    return line, random.SystemRandom().random()

def refund(order):
    return note(f"refund {order}")
"""

WORKER = """
import json, os, random, time, urllib.request, uuid
import agent_tools

def ask(words):
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": words}]}).encode()
    url = os.environ["MODEL_URL"] + "/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json"})) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]

def work(words):
    prompt = f"{words} {random.random()} {time.time()} {uuid.uuid4()} {uuid.uuid1()}"
    answer = ask(prompt)
    receipt = agent_tools.refund(words)
    return [prompt, answer, receipt, random.random(), time.time(), str(uuid.uuid4())]

def later(order):
    return agent_tools.note(f"later {order}")

def use_later(order):
    return later(order)
"""

TESTS = """
import json, multiprocessing, os, pathlib
from concurrent.futures import ProcessPoolExecutor
import pytest
import agent_worker

RESULTS = pathlib.Path(__file__).with_name("results.jsonl")

def keep(name, result):
    with RESULTS.open("a") as file:
        file.write(json.dumps([name, result]) + "\\n")

def executor(method):
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method))

@pytest.fixture(scope="module")
def opened():
    with executor("fork") as pool:
        yield pool

@pytest.fixture(scope="module", params=["fork", "spawn"])
def started(request):
    with executor(request.param) as pool:
        pool.submit(os.getpid).result()
        yield pool

@pytest.fixture(scope="module")
def used():
    with executor("fork") as pool:
        keep("fixture", pool.submit(agent_worker.work, "fixture").result())
        yield pool

@pytest.fixture(scope="module")
def pool():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        yield pool

def test_opened(agentreplay, opened, request):
    keep(request.node.name, [opened.submit(agent_worker.work, job).result() for job in "ab"])

def test_started(agentreplay, started, request):
    keep(request.node.name, [started.submit(agent_worker.work, job).result() for job in "ab"])

def test_started_again(agentreplay, started, request):
    agentreplay.tool(agent_worker.later)
    keep(request.node.name, [started.submit(job, "c").result() for job in (agent_worker.work, agent_worker.use_later)])

def test_used(agentreplay, used, request):
    keep(request.node.name, used.submit(agent_worker.work, "a").result())

def test_used_again(agentreplay, used, request):
    keep(request.node.name, used.submit(agent_worker.work, "a").result())

def test_pool(agentreplay, pool, request):
    keep(request.node.name, pool.map(agent_worker.work, "ab"))

def test_pool_again(agentreplay, pool, request):
    keep(request.node.name, pool.map(agent_worker.work, "ab"))
"""

INI = """[pytest]
pythonpath = .
agentreplay_tools = agent_tools.refund
"""


@pytest.fixture(scope="module")
def recorded(shared_project):
    """The project with its recordings, and what each test got from its workers."""
    project = shared_project(lambda body, number: f"answer {number}")
    project.write(agent_tools=TOOLS, agent_worker=WORKER, test_pools=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    done = project.record("--agentreplay-no-prove", "test_pools.py")
    assert done.returncode == 0, done.stdout + done.stderr
    return project, results(project)


def results(project):
    file = project.root / "results.jsonl"
    read = dict(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    file.unlink()
    return read


@pytest.mark.parametrize("words", [(), ("-k", "again")], ids=["all tests", "some tests"])
def test_a_replay_gives_workers_that_a_fixture_holds_what_they_got(recorded, words):
    project, then = recorded
    done = project.offline("test_pools.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "noise" not in done.stdout.lower(), done.stdout
    now = results(project)
    for test, result in now.items():
        assert result == then[test], test
    if not words:
        assert now.keys() == then.keys()
