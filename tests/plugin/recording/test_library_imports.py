"""What a library asks for while it is imported is no test's: any selection and any order of the tests replays."""

import pytest

from tests.support.exhaustive import rare

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

LIBRARY = """
import os, threading
from concurrent.futures import ThreadPoolExecutor

WAY, URL = os.environ["WAY"], os.environ["PRICES_URL"] + "/prices"

def by_httpx():
    import httpx2
    return httpx2.get(URL, timeout=5).raise_for_status().text

def by_requests():
    import urllib.request
    return urllib.request.urlopen(URL, timeout=5).read()

def by_asyncio():
    import asyncio, httpx2
    async def get():
        async with httpx2.AsyncClient() as client:
            return (await client.get(URL)).text
    return asyncio.run(get())

def by_socket():
    import socket
    host, port = URL.removeprefix("http://").partition("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=5):
        return "connected"

def by_thread():
    got = []
    def work():
        try:
            got.append(by_httpx())
        except Exception:
            pass
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return got[0]

RESUMED, OUTCOMES = threading.Event(), []

def retry():
    RESUMED.wait(60)
    try:
        OUTCOMES.append(by_httpx())
    except Exception as error:
        OUTCOMES.append(type(error).__name__)

def by_retry():
    threading.Thread(target=lambda: nested.start(), daemon=True).start()
    raise LookupError("asked again later")

nested = threading.Thread(target=retry, daemon=True)
POOL = ThreadPoolExecutor(1)

def by_pool():
    return POOL.submit(by_httpx).result()

try:
    PRICES = globals()["by_" + WAY]()
except Exception as error:
    PRICES = f"packaged, {type(error).__name__}"

def later(question):
    return POOL.submit(question).result()
"""

AGENT = """
import os
import httpx2

def ask(question):
    import pricelib
    assert pricelib.PRICES.startswith("packaged"), pricelib.PRICES

    def post():
        body = {"model": "m-1", "messages": [{"role": "user", "content": question}]}
        return httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).json()

    return pricelib.later(post)["choices"][0]["message"]["content"]
"""

TEST = """
import agent

def test_one(agentreplay):
    assert agent.ask("one")

def test_two(agentreplay):
    assert agent.ask("two")
"""


@pytest.fixture
def shop(project):
    project.write(agent=AGENT, test_shop=TEST)
    installed = project.root / ".venv" / "site-packages" / "pricelib"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text(LIBRARY, encoding="utf-8")
    (project.root / "pytest.ini").write_text(f"[pytest]\npythonpath = . {installed.parent.as_posix()}\n", "utf-8")
    project.server._replies = lambda *_: "hello"
    project.environ["PRICES_URL"] = project.server.url
    return project


def asked(project):
    return [request.path for request in project.server.requests]


@pytest.mark.parametrize("way", ["httpx", "socket", "pool", *rare("requests", "asyncio", "thread")])
def test_an_import_is_refused_for_every_test_alike(shop, way):
    shop.environ["WAY"] = way
    done = shop.record("--agentreplay-no-prove")
    assert done.returncode == 0, done.stdout + done.stderr
    assert asked(shop) == ["/v1/chat/completions"] * 2, "nobody asks for prices"
    assert done.stdout.count("import    pricelib asks for") == 1
    assert [len(snapshot.run.exchanges) for snapshot in shop.snapshots] == [1, 1]
    shop.write(conftest="def pytest_collection_modifyitems(items):\n    items.reverse()\n")
    for words in ([], ["-k", "one"]):
        done = shop.offline(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "import    pricelib asks for 127.0.0.1" in done.stdout


RETRY_BETWEEN_TESTS = """
def pytest_runtest_logfinish():
    import pricelib
    pricelib.RESUMED.set()
    pricelib.nested.join(60)
    assert pricelib.OUTCOMES == ["ConnectError"], pricelib.OUTCOMES
"""


def test_a_thread_of_an_import_is_refused_after_the_test_has_ended(shop):
    shop.environ["WAY"] = "retry"
    shop.write(conftest=RETRY_BETWEEN_TESTS)
    for done in (shop.record("-k", "one"), shop.replay("-k", "one")):
        assert done.returncode == 0, done.stdout + done.stderr
    assert asked(shop) == ["/v1/chat/completions"], "neither the recording nor a replay asks for prices"


def test_hosts_that_are_allowed_and_tests_without_the_plugin_reach_what_an_import_asks_for(shop):
    code = "import pricelib; assert 'packaged' not in pricelib.PRICES"
    shop.write(test_plain=f"def test_plain():\n    {code}\n")
    done = shop.run("test_plain.py", WAY="httpx")
    assert done.returncode == 0, done.stdout + done.stderr
    shop.edit("agent.py", 'assert pricelib.PRICES.startswith("packaged")', 'assert "packaged" not in pricelib.PRICES')
    with (shop.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write(f"agentreplay_allow_hosts = {shop.server.url.removeprefix('http://')}\n")
    done = shop.record("test_shop.py", WAY="httpx")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "import    pricelib" not in done.stdout
    assert asked(shop)[:2] == ["/prices", "/prices"]


def test_a_module_of_the_project_that_asks_while_it_is_imported_is_recorded(shop):
    shop.write(prices=LIBRARY)
    shop.edit("agent.py", "import pricelib\n    assert pricelib", "import prices as pricelib\n    assert not pricelib")
    done = shop.record("-k", "one", WAY="httpx")
    assert done.returncode == 0, done.stdout + done.stderr
    (snapshot,) = shop.snapshots
    assert [exchange.call.method for exchange in snapshot.run.exchanges] == ["GET", "POST"]


def test_the_module_of_a_named_tool_may_be_the_first_to_import_it(shop):
    shop.write(tools="import pricelib\n\ndef look():\n    return pricelib.PRICES\n")
    with (shop.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("agentreplay_tools = tools.look\n")
    for done in (shop.record(WAY="thread"), shop.offline(WAY="thread")):
        assert done.returncode == 0, done.stdout + done.stderr
        assert "import    pricelib asks for" in done.stdout
    assert "/prices" not in asked(shop)
