"""Python child processes join the run of their test: model calls, tools, clock and random numbers, in one snapshot."""

import json

import pytest

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

TOOLS = """
import os, pathlib, random
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

class Desk:
    def __init__(self, country):
        self.country = country

    def quote(self, order):
        with LEDGER.open("a") as ledger:
            ledger.write(f"quote {order}\\n")
        return f"{self.country} {random.SystemRandom().random()}"

    @classmethod
    def open(cls, country):
        with LEDGER.open("a") as ledger:
            ledger.write(f"open {country}\\n")
        return country, random.SystemRandom().random()
"""

CHILD = """
import json, os, random, sys, time, urllib.request, uuid
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
    return [Desk("DE").quote(order), *Desk.open("FR")]

def put(queue, words):
    queue.put(work(words))

if __name__ == "__main__":
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
print(json.dumps([json.loads(subprocess.check_output([*command, words])) for words in "ab"]))
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

def one_after_the_other():
    return [run(*SCRIPT, words) for words in "xy"]

def by_asyncio():
    async def child(words):
        process = await asyncio.create_subprocess_exec(*SCRIPT, words, stdout=subprocess.PIPE)
        return json.loads((await process.communicate())[0])
    async def main():
        return await asyncio.gather(*(child("same") for _ in range(3)))
    return asyncio.run(main())

def by_anyio():
    import anyio
    return json.loads(anyio.run(anyio.run_process, [*SCRIPT, "anyio"]).stdout)

def read_from(start):
    out, into = os.pipe()
    process = start(into)
    os.close(into)
    with os.fdopen(out) as said:
        found = json.loads(said.read())
    assert os.waitpid(process, 0)[1] == 0
    return found

def by_posix_spawn():
    return read_from(lambda into: os.posix_spawn(
        sys.executable, [*SCRIPT, "posix"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, into, 1)]
    ))

def by_fork():
    def start(into):
        if process := os.fork():
            return process
        os.write(into, json.dumps(agent_child.work("fork")).encode())
        os._exit(0)
    return read_from(start)

def by_fork_and_exec():
    def start(into):
        if process := os.fork():
            return process
        os.dup2(into, 1)
        os.execv(sys.executable, [*SCRIPT, "exec"])
    return read_from(start)

def in_a_process(method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=agent_child.put, args=(queue, "process"))
    process.start()
    found = queue.get(timeout=60)
    process.join()
    return found

def in_an_executor(method, jobs=4, workers=2):
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
    "a script": lambda: run(*SCRIPT, "script"),
    "a module": lambda: run(sys.executable, "-m", "agent_child", "module"),
    "a console script": lambda: run("./console", "console"),
    "a shell": lambda: run(f"{sys.executable} agent_child.py shell", shell=True),
    "its own environment": with_an_environment_of_its_own,
    "one after the other": one_after_the_other,
    "a grandchild": lambda: run(sys.executable, "grand.py"),
    "threads and tasks": lambda: run(sys.executable, "beside.py"),
    "asyncio": by_asyncio,
    "anyio": by_anyio,
    "posix_spawn": by_posix_spawn,
    "fork": by_fork,
    "fork and exec": by_fork_and_exec,
    "process spawn": lambda: in_a_process("spawn"),
    "process forkserver": lambda: in_a_process("forkserver"),
    "process fork": lambda: in_a_process("fork"),
    "executor spawn": lambda: in_an_executor("spawn"),
    "executor forkserver": lambda: in_an_executor("forkserver"),
    "executor fork": lambda: in_an_executor("fork", 20, 20),
    "pool": in_a_pool,
    "the gateway": lambda: None,
}

@pytest.mark.parametrize("way", WAYS)
def test_child(agentreplay, way):
    if way == "the gateway":
        code = "import agent_child, json, os; print(json.dumps(agent_child.ask('x', os.environ['OPENAI_BASE_URL'][:-3])))"
        environ = {**os.environ, **agentreplay.gateway.env}
        found = run(sys.executable, "-c", code, env=environ)
    else:
        found = WAYS[way]()
    with SAID.open("a") as file:
        file.write(json.dumps([way, found]) + "\\n")
"""

INI = """[pytest]
pythonpath = .
agentreplay_allow_subprocess = sh
agentreplay_tools =
    agent_tools.refund
    agent_tools.Desk.quote
    agent_tools.Desk.open
    agent_child.own_tool
"""


@pytest.fixture(scope="module")
def project(shared_project):
    made = shared_project(lambda body, number: f"answer {number}")
    made.write(agent_tools=TOOLS, agent_child=CHILD, beside=BESIDE, grand=GRAND, test_children=TESTS)
    (made.root / "pytest.ini").write_text(INI, encoding="utf-8")
    made.environ |= {"MODEL_URL": made.server.url, "OPENAI_BASE_URL": made.server.url + "/v1"}
    return made


@pytest.fixture(scope="module")
def recorded(project):
    """The project with its recordings, and what each child said then."""
    import sys

    console = project.root / "console"
    script = f"#!{sys.executable}\nimport sys\nfrom agent_child import work\nimport json\n"
    console.write_text(script + "print(json.dumps(work(sys.argv[1])))\n", encoding="utf-8")
    console.chmod(0o755)
    done = project.record("--agentreplay-no-prove", "test_children.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not recorded" not in done.stdout, done.stdout
    return project, said(project)


def said(project):
    file = project.root / "said.jsonl"
    found = dict(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    file.unlink()
    return found


def ledger(project):
    file = project.root / "ledger.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_a_replay_gives_children_what_they_got_and_runs_nothing(recorded):
    project, then = recorded
    hits, lines = project.server.hits, ledger(project)
    done = project.replay("test_children.py", OPENAI_API_KEY="", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.server.hits == hits, "a child has asked the model in a replay"
    assert ledger(project) == lines, "a tool of a child has run in a replay"
    now = said(project)
    assert now.keys() == then.keys()
    for way, words in then.items():
        assert now[way] == words, way


def test_children_of_workers_of_xdist_replay(recorded):
    project, then = recorded
    hits, lines = project.server.hits, ledger(project)
    words = ("-p", "xdist.plugin", "-n", "2", "-k", "executor or grandchild or pool")
    done = project.replay("test_children.py", *words, OPENAI_API_KEY="", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.server.hits, ledger(project)) == (hits, lines)
    now = said(project)
    assert len(now) == 5
    assert now == {way: then[way] for way in now}


def test_one_snapshot_holds_what_all_processes_did(recorded):
    project, _ = recorded
    run = next(each.run for each in project.snapshots if "[executor fork]" in each.run.header.test)
    calls = [(x.lane, getattr(x.call, "name", "model")) for x in run.exchanges]
    assert sorted(calls) == sorted((f"main.j{job}", name) for job in range(1, 21) for name in ("model", "refund"))


def test_a_secret_that_only_the_child_knows_is_not_stored(recorded):
    project, _ = recorded
    text = "".join(file.read_text(encoding="utf-8") for file in project.root.rglob("*.snapshot.json"))
    assert "own_tool" in text
    assert "only-the-child-knows-this" not in text
