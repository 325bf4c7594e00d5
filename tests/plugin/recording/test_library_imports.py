"""What a library asks for while it is imported is no test's: any selection and any order of the tests replays."""

import re

import pytest

from tests.support.small_projects import flat, furnished, passed

pytestmark = pytest.mark.env("main")  # nothing in it depends on the release of a dependency

LIBRARY = """
import os, threading
from concurrent.futures import ThreadPoolExecutor

WAY, URL = __name__.rpartition("_")[2], os.environ["PRICES_URL"] + "/prices"

def by_httpx():
    import httpx2
    return httpx2.get(URL, timeout=5).raise_for_status().text

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
import importlib, os
import httpx2

def ask(way, question):
    library = importlib.import_module(f"pricelib_{way}")
    assert library.PRICES.startswith("packaged"), library.PRICES

    def post():
        body = {"model": "m-1", "messages": [{"role": "user", "content": question}]}
        return httpx2.post(os.environ["MODEL_URL"] + "/v1/chat/completions", json=body).json()

    return library.later(post)["choices"][0]["message"]["content"]
"""
WAYS = ["httpx", "socket", "thread", "pool"]
TESTS = f"""
import agent, pytest

@pytest.mark.parametrize("question", ["one", "two"])
@pytest.mark.parametrize("way", {[*WAYS, "retry"]})
def test_asks(way, question, agentreplay):
    assert agent.ask(way, question)
"""
CONFTEST = """
import os, sys

def pytest_collection_modifyitems(items):
    if "REVERSED" in os.environ:
        items.reverse()

def pytest_runtest_logfinish():
    "Between two tests the thread of an import tries again."
    if library := sys.modules.get("pricelib_retry"):
        library.RESUMED.set()
        library.nested.join(60)
        assert library.OUTCOMES == ["ConnectError"], library.OUTCOMES
"""


@pytest.fixture(scope="module")
def made(shared_project):
    project = shared_project(lambda *_: "hello")
    installed = project.root / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    for way in (*WAYS, "retry"):
        (installed / f"pricelib_{way}.py").write_text(LIBRARY, encoding="utf-8")
    project.environ["PRICES_URL"] = project.server.url
    project.ini = f"pythonpath = {installed.as_posix()} .\n"
    return project


@pytest.fixture
def shop(made):
    for file in (*made.files, *made.root.glob("*.py")):
        file.unlink()
    furnished(made, agent=AGENT, conftest=CONFTEST, test_shop=TESTS)
    (made.root / "pytest.ini").write_text(f"[pytest]\n{made.ini}", encoding="utf-8")
    made.server.requests.clear()
    return made


def asked(project):
    return [request.path for request in project.server.requests]


def told(done):
    return re.findall(r"^import    pricelib_(\w+) asks for ", passed(done).stdout, re.MULTILINE)


def test_an_import_is_refused_for_every_test_alike_and_so_is_its_thread_after_the_test(shop):
    assert sorted(told(shop.record())) == sorted(WAYS)
    assert asked(shop) == ["/v1/chat/completions"] * 10, "nobody asks for prices"
    assert [len(snapshot.run.exchanges) for snapshot in shop.snapshots] == [1] * 10
    assert sorted(told(shop.offline(REVERSED="yes"))) == sorted(WAYS)
    assert sorted(told(shop.offline("-k", "one"))) == sorted(WAYS)


def test_hosts_that_are_allowed_and_tests_without_the_plugin_reach_what_an_import_asks_for(shop):
    shop.write(
        test_plain="def test_plain():\n    import pricelib_httpx as it\n    assert 'packaged' not in it.PRICES\n"
    )
    passed(shop.run("test_plain.py"))
    shop.edit("agent.py", 'assert library.PRICES.startswith("packaged")', 'assert "packaged" not in library.PRICES')
    with (shop.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write(f"agentreplay_allow = host:{shop.server.url.removeprefix('http://')}\n")
    assert told(shop.record("test_shop.py", "-k", "httpx")) == []
    assert asked(shop)[:2] == ["/prices", "/prices"]


def test_a_module_of_the_project_that_asks_while_it_is_imported_is_recorded(shop):
    shop.write(prices_httpx=LIBRARY)
    shop.edit("agent.py", 'f"pricelib_{way}"', '"prices_httpx"')
    shop.edit("agent.py", "assert library", "assert not library")
    done = passed(shop.record("-k", "httpx"))
    line = "import    prices_httpx makes requests while it is imported: they belong to the first test that imports it"
    assert line in done.stdout
    methods = [[exchange.call.method for exchange in snapshot.run.exchanges] for snapshot in shop.snapshots]
    assert sorted(methods) == [["GET", "POST"], ["POST"]]
    assert "import    " not in passed(shop.replay("-k", "httpx")).stdout
    why = "prices_httpx made requests while it was imported: they belong to the first test that imports it"
    refused = flat(shop.replay("-k", "httpx", REVERSED="yes"))
    assert refused.count(why) == 1, "the second imports it first now"
    shop.write(conftest=f"{CONFTEST}\nimport prices_httpx\n")
    left_out = shop.replay("-k", "httpx")
    assert "1 failed, 1 passed" in left_out.stdout
    assert flat(left_out).count(why) == 1, "neither does"


def test_the_module_of_a_named_tool_may_be_the_first_to_import_it(shop):
    shop.write(tools="import pricelib_thread\n\ndef look():\n    return pricelib_thread.PRICES\n")
    with (shop.root / "pytest.ini").open("a", encoding="utf-8") as ini:
        ini.write("agentreplay_tools = tools.look\n")
    for run in (shop.record, shop.offline):
        assert told(run("-k", "thread")) == ["thread"]
    assert "/prices" not in asked(shop)
