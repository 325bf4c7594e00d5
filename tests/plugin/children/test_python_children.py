"""Python child processes join the run of their test: model calls, tools, clock and random numbers, in one snapshot.

So do workers of a pool that a wide fixture holds, each job in the run of the test that submits it; and a child that dies
in the midst of a call leaves a recording whose replay comes to its end.
"""

import json
import time

import pytest

from tests.support.project import NOBODY
from tests.support.small_projects import furnished, passed, recorded, runs, summary

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

TOOLS = """
import pathlib, random, time
from dataclasses import dataclass

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

@dataclass
class Receipt:
    order: str
    number: float

def refund(order: str) -> Receipt:
    with LEDGER.open("a") as ledger:
        ledger.write(f"{order}\\n")
    return Receipt(order, random.random())

def slow(order):
    with LEDGER.open("a") as ledger:
        ledger.write(f"slow {order}\\n")
    time.sleep(2)
    return order

class Desk:
    def __init__(self, country):
        self.country = country

    def quote(self, order):
        with LEDGER.open("a") as ledger:
            ledger.write(f"quote {order}\\n")
        return f"{self.country} {random.SystemRandom().random()}"
"""

CHILD = """
import json, os, random, signal, sys, threading, time, urllib.request, uuid
import agent_tools
from agent_tools import Desk, Receipt, refund

def own_tool(order):
    with open("ledger.txt", "a") as ledger:
        ledger.write(f"own {order}\\n")
    return random.SystemRandom().random()

def ask(words, base=None):
    body = json.dumps({"model": "m-1", "messages": [{"role": "user", "content": words}]}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ.get("CHILD_API_KEY", "none")}
    url = (base or os.environ["MODEL_URL"]) + "/v1/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=20) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]

def work(words):
    told = f"{words} {random.random()} {time.time()} {uuid.uuid4()} {os.environ.get('CHILD_API_KEY')}"
    answer = ask(told)
    receipt = refund(words)
    assert type(receipt) is Receipt
    return [told, answer, receipt.order, receipt.number, random.random(), time.time(), str(uuid.uuid4())]

def use_methods(order):
    return Desk("DE").quote(order)

def later(order):
    return f"later {order} {random.SystemRandom().random()}"

def use_later(order):
    return later(order)

def die_soon():
    if os.environ.get("SURVIVES") != "1":
        threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGKILL)).start()

def in_a_request():
    die_soon()
    ask("slow")

def in_a_tool():
    die_soon()
    agent_tools.slow("A-1")

if __name__ == "__main__" and sys.argv[1].startswith("in_a_"):
    ask("hello")
    globals()[sys.argv[1]]()
elif __name__ == "__main__":
    print(json.dumps([*work(sys.argv[1]), own_tool("A-1")]))
"""

BESIDE = """
import asyncio, json, sys, threading
from concurrent.futures import ThreadPoolExecutor
import httpx, os
import agent_child

with ThreadPoolExecutor(3) as pool:
    threads = list(pool.map(lambda order: [agent_child.ask(order), agent_child.refund(order).number], "abc"))

async def ask(client):
    reply = await client.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json={"messages": []})
    return reply.json()["choices"][0]["message"]["content"]

async def tasks():
    async with httpx.AsyncClient() as client:
        return await asyncio.gather(*(ask(client) for _ in range(4)))

print(json.dumps([threads, asyncio.run(tasks())]))
"""

GRAND = """
import json, subprocess, sys
command = [sys.executable, "agent_child.py"]
print(json.dumps(json.loads(subprocess.check_output([*command, "a"]))))
"""

TESTS = """
import asyncio, json, multiprocessing, os, pathlib, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
import pytest
import agent_child

SAID = pathlib.Path(__file__).with_name("said.jsonl")
SCRIPT = [sys.executable, "agent_child.py"]

def run(*words, **more):
    done = subprocess.run(words, capture_output=True, encoding="utf-8", **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

def with_an_environment_of_its_own():
    return run(*SCRIPT, "own", env={"MODEL_URL": os.environ["MODEL_URL"], "CHILD_API_KEY": "only-the-child-knows-this"})

def by_asyncio():
    async def child(words):
        process = await asyncio.create_subprocess_exec(*SCRIPT, words, stdout=subprocess.PIPE)
        return json.loads((await process.communicate())[0])
    async def main():
        return await asyncio.gather(*(child("same") for _ in range(2)))
    return asyncio.run(main())

def by_fork():
    out, into = os.pipe()
    if not (process := os.fork()):
        os.write(into, json.dumps(agent_child.work("fork")).encode())
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as said:
        found = json.loads(said.read())
    assert os.waitpid(process, 0)[1] == 0
    return found

def in_an_executor(method, jobs=3, workers=1):
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context(method)) as pool:
        return list(pool.map(agent_child.work, [f"job {number % 3}" for number in range(jobs)]))

def in_a_pool():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        mapped = pool.map(agent_child.work, "abcd", chunksize=1)
        return [*mapped, *pool.imap(agent_child.work, "ef"), pool.apply(agent_child.work, ("g",))]

def methods():
    code = "import agent_child, json; print(json.dumps(agent_child.use_methods('A-1')))"
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return [run(sys.executable, "-c", code), pool.submit(agent_child.use_methods, "A-2").result()]

WAYS = {
    "methods of a class": methods,
    "a shell": lambda: run(f"{sys.executable} agent_child.py shell", shell=True),
    "its own environment": with_an_environment_of_its_own,
    "a grandchild": lambda: run(sys.executable, "grand.py"),
    "threads and tasks": lambda: run(sys.executable, "beside.py"),
    "asyncio": by_asyncio,
    "fork": by_fork,
    "executor spawn": lambda: in_an_executor("spawn"),
    "executor fork": lambda: in_an_executor("fork", 12, 12),
    "pool": in_a_pool,
}

@pytest.mark.parametrize("way", WAYS)
def test_child(agentreplay, way):
    with SAID.open("a") as file:
        file.write(json.dumps([way, WAYS[way]()]) + "\\n")
"""

POOLS = """
import json, multiprocessing, os, pathlib
from concurrent.futures import ProcessPoolExecutor
import pytest
import agent_child

def keep(request, result):
    with pathlib.Path(__file__).with_name("said.jsonl").open("a") as file:
        file.write(json.dumps([request.node.name, result]) + "\\n")

def executor(method):
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method))

@pytest.fixture(scope="module", params=["fork", "spawn"])
def started(request):
    with executor(request.param) as pool:
        pool.submit(os.getpid).result()
        yield pool

@pytest.fixture(scope="module")
def pool():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        yield pool

def test_started(agentreplay, started, request):
    keep(request, [started.submit(agent_child.work, job).result() for job in "ab"])

def test_started_again(agentreplay, started, request):
    agentreplay.tool(agent_child.later)
    keep(request, [started.submit(job, "c").result() for job in (agent_child.work, agent_child.use_later)])

def test_pool(agentreplay, pool, request):
    keep(request, pool.map(agent_child.work, "ab"))

def test_pool_again(agentreplay, pool, request):
    keep(request, pool.map(agent_child.work, "ab"))
"""

KILLED = """
import multiprocessing, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
import agent_child

def test_script(agentreplay):
    subprocess.run([sys.executable, "agent_child.py", "in_a_request"], check=False, timeout=20)
    agent_child.ask("after it")

def test_worker(agentreplay):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        try:
            pool.submit(agent_child.in_a_tool).result(timeout=20)
        except BrokenProcessPool:
            pass
    agent_child.ask("after it")
"""

CONFTEST = """
import os

if os.environ.get("IMPATIENT"):
    # Nothing comes: how long it is waited for is not the subject.
    from pytest_agentreplay.intercept.process import child_server
    child_server.PATIENCE = 0.5
"""

INI = """agentreplay_allow = program:sh
agentreplay_tools =
    agent_tools.refund
    agent_tools.slow
    agent_tools.Desk.quote
    agent_child.own_tool
"""
OFFLINE = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": NOBODY + "/v1"}


def script(body, number):
    if body["messages"] and body["messages"][0]["content"] == "slow":
        time.sleep(2)
    return f"answer {number}"


@pytest.fixture(scope="module")
def project(shared_project):
    """The project with its recordings, and what each child said then, as `said`."""
    made = shared_project(script)
    tests = {"test_children": TESTS, "test_pools": POOLS, "test_killed": KILLED, "conftest": CONFTEST}
    furnished(made, INI, agent_tools=TOOLS, agent_child=CHILD, beside=BESIDE, grand=GRAND, **tests)
    made.environ |= {"MODEL_URL": made.server.url, "OPENAI_BASE_URL": made.server.url + "/v1"}
    assert "not recorded" not in recorded(made).recording.stdout
    made.said = said(made)
    return made


def said(project):
    file = project.root / "said.jsonl"
    found = dict(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    file.unlink()
    return found


def replayed(project, *words):
    """What each child said in a replay, in which no model is asked and no tool runs; and what was printed."""
    before = project.server.hits, project.ledger
    done = passed(project.replay(*words, **OFFLINE))
    assert (project.server.hits, project.ledger) == before, done.stdout
    assert "noise" not in done.stdout.lower(), done.stdout
    return said(project)


def test_a_replay_gives_children_what_they_got_and_runs_nothing(project):
    assert replayed(project) == project.said


@pytest.mark.parametrize(
    ("words", "count"),
    [(("-p", "xdist.plugin", "-n", "2", "-k", "executor or grandchild"), 3), (("test_pools.py", "-k", "again"), 3)],
    ids=["workers of xdist", "some tests"],
)
def test_a_part_of_the_children_gets_the_same(project, words, count):
    now = replayed(project, *words)
    assert len(now) == count
    assert now == {way: project.said[way] for way in now}


def test_one_snapshot_holds_what_all_processes_did(project):
    exchanges = runs(project)["child[executor fork]"].exchanges
    calls = [(x.lane, getattr(x.call, "name", "model")) for x in exchanges]
    assert sorted(calls) == sorted((f"main.j{job}", name) for job in range(1, 13) for name in ("model", "refund"))


def test_a_secret_that_only_the_child_knows_is_not_stored(project):
    text = "".join(file.read_text(encoding="utf-8") for file in project.files)
    assert "own_tool" in text
    assert "only-the-child-knows-this" not in text


def test_a_child_that_survives_a_call_without_an_answer_ends_with_a_report(project):
    done = project.offline("test_killed.py", "-k", "script", SURVIVES="1", IMPATIENT="1", COLUMNS="200")
    (told,) = summary(done).values()
    assert told.startswith("[AR-EXTRA] no answer had come when the recorded run ended")
