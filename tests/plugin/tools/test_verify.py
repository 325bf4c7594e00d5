"""`--replay-tools=checked`: read tools run beside their recorded results, everything else stays frozen."""

import json
import time

import pytest

from tests.support.small_projects import edited, flat, furnished, passed, recorded, replace, sections

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

AGENT = '''
import asyncio, json, os, pathlib, time, threading
import httpx2

HERE = pathlib.Path(__file__).parent

def note(line):
    with HERE.joinpath("ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(line + "\\n")

def world():
    """What lies behind the tools; it changes between two runs."""
    return json.loads(HERE.joinpath("world.json").read_text(encoding="utf-8"))

def model(text):
    body = {"model": "m-1", "messages": [{"role": "user", "content": text}]}
    return httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).json()

def look_up(order: str) -> dict:
    note("look_up")
    return world()["order"]

def rows(order: str) -> list:
    note("rows")
    return world()["rows"]

def refund(order: str) -> str:
    note("refund")
    return "refunded"

async def look_up_later(order: str) -> dict:
    note("look_up_later")
    await asyncio.sleep(0)
    return world()["order"]

def pages(order: str):
    note("pages")
    for row in world()["rows"]:
        sent = yield row
        if sent == "stop":
            return

async def pages_later(order: str):
    note("pages_later")
    for row in world()["rows"]:
        yield row

def promised(order: str):
    return look_up_quietly(order)

async def look_up_quietly(order):
    note("promised")
    return world()["order"]

def search(query: str) -> list:
    note("search")
    return world()["chunks"]

def risky(order: str) -> int:
    note("risky")
    if world().get("broken"):
        raise KeyError(order)
    return 7

def service(order: str) -> str:
    note("service")
    return httpx2.get(os.environ["SERVICE_URL"] + "/health").text[:1]

def nested(order: str) -> str:
    note("nested")
    look_up(order)
    return refund(order) + model("inside")["choices"][0]["message"]["content"][:0]

def today(order: str) -> bool:
    note("today")
    return abs(time.time() - time.monotonic() - world()["epoch"]) < 3600
'''

TESTS = """
import asyncio, agent, pytest

def test_plain(agentreplay):
    assert agent.look_up("A-17")["status"] == "late"
    assert agent.refund("A-17") == "refunded"
    agent.model("hello")

def test_rows(agentreplay):
    assert [row["id"] for row in agent.rows("A-17")] == [1, 2]

def test_later(agentreplay):
    async def all_of_it():
        return await asyncio.gather(agent.look_up_later("A-17"), agent.look_up_later("A-18"))
    assert [found["status"] for found in asyncio.run(all_of_it())] == ["late", "late"]
    assert asyncio.run(agent.promised("A-17"))["status"] == "late"

def test_pages(agentreplay):
    assert [row["id"] for row in agent.pages("A-17")] == [1, 2]
    stopped = agent.pages("A-18")
    assert next(stopped)["id"] == 1
    with pytest.raises(StopIteration):
        stopped.send("stop")
    dropped = agent.pages("A-19")
    assert next(dropped)["id"] == 1
    dropped.close()
    async def all_of_it():
        return [row["id"] async for row in agent.pages_later("A-17")]
    assert asyncio.run(all_of_it()) == [1, 2]

def test_search(agentreplay):
    assert agent.search("shoes")[0]["id"] == "doc-17"

def test_risky(agentreplay):
    assert agent.risky("A-17") == 7

def test_service(agentreplay):
    assert agent.service("A-17")

def test_nested(agentreplay):
    assert agent.nested("A-17") == "refunded"
    assert agent.today("A-17")
"""

INI = """agentreplay_tools =
    agent.look_up = read
    agent.look_up_later = read
    agent.promised = read
    agent.pages = read
    agent.pages_later = read
    agent.rows = read
    agent.risky = read
    agent.service = read
    agent.nested = read
    agent.today = read
    agent.refund
    agent.search = retrieval bge
agentreplay_tolerances =
    look_up* $.updated_at = ignore
    rows $ = unordered
    rows $[*].score = 0.01
"""
WORLD = """{"order": {"status": "late", "updated_at": 1}, "epoch": EPOCH,
 "rows": [{"id": 1, "score": 0.5}, {"id": 2, "score": 0.25}],
 "chunks": [{"id": "doc-17", "score": 0.81, "text": "Shoes."}, {"id": "doc-4", "score": 0.5, "text": "Hats."}]}"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = furnished(shared_project(), INI, agent=AGENT, test_shop=TESTS)
    world = WORLD.replace("EPOCH", str(time.time() - time.monotonic()))
    (project.root / "world.json").write_text(world, encoding="utf-8")
    project.environ["SERVICE_URL"] = project.server.url
    return recorded(project)


@pytest.fixture(autouse=True)
def nothing_ran(shop):
    (shop.root / "ledger.txt").write_text("", encoding="utf-8")


def verified(shop, *words):
    return shop.run("--replay-tools=checked", *words)


def test_read_tools_run_and_agree_while_the_model_and_the_other_tools_stay_frozen(shop):
    passed(shop.replay())
    assert shop.ledger == [], "frozen is the default"
    hits = shop.server.hits
    done = passed(verified(shop))
    assert "model frozen, read tools CHECKED" in done.stdout
    assert "verified live" in done.stdout
    read = ("look_up", "rows", "look_up_later", "promised", "pages", "pages_later", "search", "risky", "service")
    assert {*shop.ledger} == {*read, "nested", "today"}
    assert shop.server.hits == hits + 1, "the service was asked, no model"


SAID = {
    "plain": (
        "[AR-RESULT] before turn 1/1: tool look_up: result changed, $.status late -> lost",
        'recorded "late" now "lost"',
        "called from test_shop.py:5 in test_plain",
        "agentreplay_tolerances = look_up $.status = ignore",
        "pytest --snapshot-record test_shop.py::test_plain",
    ),
    "rows": ("tool rows: result changed, $[1].score 0.25 -> 0.75",),
    "later": (
        "tool look_up_later: result changed, $.status late -> lost",
        "then: [AR-RESULT] tool promised: result changed",
    ),
    "pages": (
        "tool pages: result changed, $[1].score",
        "then: [AR-RESULT] tool pages_later: result changed",
    ),
    "search": (
        "retrieval search: chunk doc-17 is 2nd now, was 1st",
        "chunk doc-17: score 0.81 recorded, 0.4 now",
    ),
    "risky": ("tool risky: result changed", "KeyError: 'A-17'"),
}


def test_every_kind_of_function_is_compared_and_the_agent_gets_the_recorded_result(shop):
    file = shop.root / "world.json"
    before = file.read_text(encoding="utf-8")
    world = json.loads(before)
    world["broken"], world["order"]["status"], world["rows"][1]["score"] = True, "lost", 0.75
    world["chunks"][0]["score"] = 0.4
    world["chunks"].reverse()
    replace(file, json.dumps(world))
    try:
        done = verified(shop)
        tools = '[tool.pytest.ini_options]\nagentreplay_tools = ["agent.look_up = read", "agent.refund"]\n'
        replace(shop.root / "settings.toml", tools)
        in_toml = flat(verified(shop, "test_shop.py::test_plain", "-c", "settings.toml"))
    finally:
        replace(file, before)
    assert 'or let it differ: agentreplay_tolerances = ["look_up $.status = ignore"]' in in_toml
    assert done.returncode == 1
    assert "Traceback" not in done.stdout
    assert "assert " not in done.stdout.partition("short test summary")[0], "all tests went on with what is recorded"
    found = sections(done)
    assert not [(test, said) for test, lines in SAID.items() for said in lines if said not in found[test]], found


def test_what_is_near_enough_is_no_difference(shop):
    rows = '[{"id": 1, "score": 0.5}, {"id": 2, "score": 0.25}]'
    near = '[{"id": 2, "score": 0.255}, {"id": 1, "score": 0.5}]'
    tests = ("test_shop.py::test_plain", "test_shop.py::test_rows")
    with edited(shop, "world.json", '"updated_at": 1', '"updated_at": 2'), edited(shop, "world.json", rows, near):
        passed(verified(shop, *tests))
        with edited(shop, "world.json", '"score": 0.255', '"score": 0.28'):
            assert "tool rows: result changed, $[1].score" in flat(verified(shop, *tests))


LEAK = """
import agent, httpx2, os, socket

def test_leak(agentreplay):
    agent.service("A-17")
    httpx2.get(os.environ["SERVICE_URL"] + "/health")
"""
BY_SOCKET = 'socket.create_connection(("127.0.0.1", int(os.environ["SERVICE_URL"].rpartition(":")[2])))'


def test_the_world_is_reached_inside_a_verified_tool_alone(shop):
    shop.write(test_leak=LEAK)
    try:
        recorded(shop, "test_leak.py")
        shop.edit("test_leak.py", '"/health"', '"/other"')
        hits = shop.server.hits
        done = verified(shop, "test_leak.py")
        assert "[AR-EXTRA]" in done.stdout, done.stdout
        assert shop.server.hits == hits + 1, "the service's own, and no other"
        shop.edit("test_leak.py", 'httpx2.get(os.environ["SERVICE_URL"] + "/other")', BY_SOCKET)
        assert "[AR-NET]" in verified(shop, "test_leak.py").stdout
    finally:
        (shop.root / "test_leak.py").unlink()


def test_what_is_not_recorded_there_is_refused_inside_a_verified_tool(shop):
    hits = shop.server.hits
    refunds = edited(shop, "agent.py", 'note("look_up")', 'note("look_up"); refund(order)')
    with refunds, edited(shop, "agent.py", 'note("risky")', 'note("risky"); model("psst")'):
        told = flat(verified(shop, "-k", "plain or risky"))
    assert "tool refund called inside tool look_up" in told
    assert "model m-1 called inside tool risky" in told
    assert "refund" not in shop.ledger
    assert shop.server.hits == hits


@pytest.mark.parametrize("words", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "xdist"])
def test_verifying_nothing_is_a_usage_error(shop, words):
    read = edited(shop, "pytest.ini", " = read", "")
    with read, edited(shop, "pytest.ini", "    agent.search = retrieval bge\n", ""):
        done = verified(shop, "test_shop.py::test_plain", *words)
    assert done.returncode == 4, done.stdout
    assert "--replay-tools=checked had nothing to check" in done.stdout
    assert "agentreplay_tools = lookup_order = read" in done.stdout
    assert shop.ledger == []


def test_verifying_a_recording_is_a_usage_error(shop):
    done = verified(shop, "--snapshot-record")
    assert done.returncode == 4
    assert "the mode is record: take one of them" in done.stderr
