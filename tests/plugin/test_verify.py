"""`--replay-tools=verify`: read tools run beside their recorded results, everything else stays frozen."""

import json
import time

import pytest

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

INI = """
[pytest]
pythonpath = .
agentreplay_tools =
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
agentreplay_retrievals = agent.search = bge
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
    project = shared_project()
    project.write(agent=AGENT, test_shop=TESTS)
    (project.root / "pytest.ini").write_text(INI, encoding="utf-8")
    (project.root / "world.json").write_text(
        WORLD.replace("EPOCH", str(time.time() - time.monotonic())), encoding="utf-8"
    )
    project.environ["SERVICE_URL"] = project.server.url
    done = project.record()
    assert done.returncode == 0, done.stdout
    return project


@pytest.fixture
def world(shop):
    """Changes the world for one test, and empties the ledger before."""
    file = shop.root / "world.json"
    before = file.read_text(encoding="utf-8")

    def change(old, new):
        assert old in file.read_text(encoding="utf-8")
        file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    shop.root.joinpath("ledger.txt").write_text("", encoding="utf-8")
    yield change
    file.write_text(before, encoding="utf-8")


def verified(shop, *words, **environ):
    return shop.run("--replay-tools=verify", *words, **environ)


def flat(done):
    return " ".join(done.stdout.split())


def test_read_tools_run_and_agree_while_the_model_and_the_other_tools_stay_frozen(shop, world):
    hits = shop.server.hits
    done = verified(shop)
    assert done.returncode == 0, done.stdout
    assert "model frozen, read tools VERIFIED" in done.stdout
    assert "verified live" in done.stdout
    ran = shop.ledger
    assert {*ran} == {
        *("look_up", "rows", "look_up_later", "promised", "pages", "pages_later", "search", "risky", "service"),
        *("nested", "today"),
    }
    assert "refund" not in ran
    assert shop.server.hits == hits + 1, "the service was asked, no model"


def test_frozen_is_the_default_and_runs_nothing(shop, world):
    assert shop.replay().returncode == 0
    assert shop.ledger == []


@pytest.fixture(scope="module")
def drifted(shop):
    """One verifying run of all tests in a world where everything has changed."""
    file = shop.root / "world.json"
    before = file.read_text(encoding="utf-8")
    chunks = [{"id": "doc-17", "score": 0.81, "text": "Shoes."}, {"id": "doc-4", "score": 0.5, "text": "Hats."}]
    after = json.loads(before) | {"chunks": [chunks[1], chunks[0] | {"score": 0.4}], "broken": True}
    after["order"]["status"] = "lost"
    after["rows"][1]["score"] = 0.75
    file.write_text(json.dumps(after), encoding="utf-8")
    try:
        return verified(shop)
    finally:
        file.write_text(before, encoding="utf-8")


def of_test(done, name):
    """What the report says of one test, on one line."""
    return " ".join(done.stdout.partition(f"__ {name} __")[2].partition("\n___")[0].split())


def test_a_changed_result_is_a_divergence_and_the_agent_gets_the_recorded_one(drifted):
    assert drifted.returncode == 1
    assert "Traceback" not in drifted.stdout
    assert "assert " not in drifted.stdout.partition("short test summary")[0], "all tests went on with what is recorded"
    told = of_test(drifted, "test_plain")
    assert "[AR-RESULT] before turn 1/1: tool look_up: result changed, $.status late -> lost" in told
    assert 'recorded "late" now "lost"' in told
    assert "called from test_shop.py:5 in test_plain" in told
    assert 'agentreplay_tolerances = ["look_up $.status = ignore"]' in told
    assert "pytest --snapshot-record test_shop.py::test_plain" in told


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("test_rows", "tool rows: result changed, $[1].score 0.25 -> 0.75"),
        ("test_later", "tool look_up_later: result changed, $.status late -> lost"),
        ("test_later", "then: [AR-RESULT] tool promised: result changed"),
        ("test_pages", "tool pages: result changed, $[1].score"),
        ("test_pages", "then: [AR-RESULT] tool pages_later: result changed"),
        ("test_search", "retrieval search: chunk doc-17 is 2nd now, was 1st"),
        ("test_search", "chunk doc-17: score 0.81 recorded, 0.4 now"),
        ("test_risky", "tool risky: result changed"),
        ("test_risky", "KeyError: 'A-17'"),
    ],
)
def test_every_kind_of_function_is_compared(drifted, test, said):
    assert said in of_test(drifted, test), drifted.stdout


def test_more_and_fewer_items_of_a_generator_differ(shop, world):
    world(', {"id": 2, "score": 0.25}]', ', {"id": 2, "score": 0.25}, {"id": 3, "score": 0}]')
    assert "tool pages: result changed, $[2]" in flat(verified(shop, "test_shop.py::test_pages"))
    world('{"id": 2, "score": 0.25}, {"id": 3, "score": 0}', '{"id": 2, "score": 0.25}')
    assert verified(shop, "test_shop.py::test_pages").returncode == 0
    world(', {"id": 2, "score": 0.25}]', "]")
    assert "tool pages: result changed, $[1]" in flat(verified(shop, "test_shop.py::test_pages"))


def test_what_is_near_enough_is_no_difference(shop, world):
    world('"updated_at": 1', '"updated_at": 2')
    world('[{"id": 1, "score": 0.5}, {"id": 2, "score": 0.25}]', '[{"id": 2, "score": 0.255}, {"id": 1, "score": 0.5}]')
    done = verified(shop, "test_shop.py::test_plain", "test_shop.py::test_rows")
    assert done.returncode == 0, done.stdout
    world('"score": 0.255', '"score": 0.28')
    assert "tool rows: result changed, $[1].score" in flat(verified(shop, "test_shop.py::test_rows"))


def test_the_world_is_reached_inside_a_verified_tool_alone(shop, world):
    shop.write(
        test_leak="""
import agent, httpx2, os, threading, pytest

def test_leak(agentreplay):
    agent.service("A-17")
    httpx2.get(os.environ["SERVICE_URL"] + "/health")
"""
    )
    file = shop.root / "test_leak.py"
    try:
        assert shop.record("test_leak.py").returncode == 0
        shop.edit("test_leak.py", '"/health"', '"/other"')
        hits = shop.server.hits
        done = verified(shop, "test_leak.py")
        assert "[AR-REQUEST]" in done.stdout, done.stdout
        assert shop.server.hits == hits + 1, "the service's own, and no other"
        shop.edit(
            "test_leak.py",
            'httpx2.get(os.environ["SERVICE_URL"] + "/other")',
            """
    import socket
    host, port = os.environ["SERVICE_URL"].removeprefix("http://").split(":")
    socket.create_connection((host, int(port)))""",
        )
        assert "[AR-NET]" in verified(shop, "test_leak.py").stdout
    finally:
        file.unlink()


def test_a_write_tool_or_a_model_that_is_not_recorded_there_is_refused_inside_a_verified_tool(shop, world):
    before = (shop.root / "agent.py").read_text(encoding="utf-8")
    try:
        shop.edit("agent.py", 'note("look_up")', 'note("look_up"); refund(order)')
        done = verified(shop, "test_shop.py::test_plain")
        assert "tool refund called inside tool look_up" in flat(done), done.stdout
        assert "refund" not in shop.ledger
        shop.edit("agent.py", "refund(order)\n", 'model("psst")\n')
        hits = shop.server.hits
        assert "model m-1 called inside tool look_up" in flat(verified(shop, "test_shop.py::test_plain"))
        assert shop.server.hits == hits
    finally:
        (shop.root / "agent.py").write_text(before, encoding="utf-8")


@pytest.mark.parametrize("words", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "xdist"])
def test_verifying_nothing_is_a_usage_error(shop, world, words):
    before = (shop.root / "pytest.ini").read_text(encoding="utf-8")
    (shop.root / "pytest.ini").write_text(
        before.replace(" = read", "").replace("agentreplay_retrievals = agent.search = bge", ""), encoding="utf-8"
    )
    try:
        done = verified(shop, "test_shop.py::test_plain", *words)
        assert done.returncode == 4, done.stdout
        assert "--replay-tools=verify had nothing to verify" in done.stdout
        assert "agentreplay_read_tools" in done.stdout
        assert shop.ledger == []
    finally:
        (shop.root / "pytest.ini").write_text(before, encoding="utf-8")
    assert verified(shop, "test_shop.py::test_plain", *words).returncode == 0


@pytest.mark.parametrize(
    ("words", "ini", "said"),
    [
        (["--snapshot-record"], "", "the mode is record: take one of them"),
        (["--replay=off"], "", "the mode is off"),
        ([], "agentreplay_tolerances = look_up $.x", "write ignore, unordered, exact"),
        ([], "agentreplay_tolerances = look_up = ignore", "write it like lookup_order $.updated_at"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(shop, words, ini, said):
    done = verified(shop, *words, *(["-o", ini.replace(" = ", "=", 1)] if ini else []))
    assert done.returncode == 4
    assert said in done.stderr
