"""Which function a frozen tool is: it stays frozen where it is made anew, and its name is its own among others."""

import pytest

from tests.support.small_projects import furnished, passed, recorded, runs, summary

SHOP = """
import pathlib
import helpers

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")
    return len(LEDGER.read_text())

def bare(work):
    return lambda *args: work(*args)

def refund(order):
    return note(f"refund {order}")

@bare
def wrapped(order):
    return note(f"wrapped {order}")

class Till:
    def pay(self, order):
        return note(f"pay {order}")

def all_of_it():
    import shop, shop.mail
    return [
        shop.refund("A-1"), shop.wrapped("A-1"), shop.Till().pay("A-1"), shop.mail.send("A-1"), shop.mail.lend("A-1")
    ]
"""

MAIL = """
import shop
from helpers import lend

def send(order):
    return shop.note(f"send {order}")
"""

HELPERS = """
def lend(order):
    import shop
    return shop.note(f"lend {order}")
"""

TESTS = """
import importlib, sys
import pytest

NAMED = ["shop.refund", "shop.wrapped", "shop.Till.pay", "shop.mail.*", "shop.mail.lend"]

def reload():
    importlib.reload(importlib.import_module("helpers"))
    importlib.reload(importlib.import_module("shop"))
    importlib.reload(importlib.import_module("shop.mail"))

def import_again():
    for name in ("shop", "shop.mail", "helpers"):
        sys.modules.pop(name)
    importlib.import_module("shop.mail")

WAYS = [reload, import_again]

@pytest.mark.parametrize("anew", WAYS)
@pytest.mark.agentreplay(tools=NAMED)
def test_named(anew):
    import shop, shop.mail
    old = shop.refund
    first = shop.all_of_it()
    anew()
    import shop
    assert first < shop.all_of_it(), "they count up"
    old("A-2")

@pytest.mark.parametrize("anew", WAYS)
def test_given(anew, agentreplay):
    import shop, shop.mail
    for tool in (shop.refund, shop.Till.pay, shop.mail.send, shop.mail.lend):
        agentreplay.tool(tool)
    agentreplay.tool(shop.wrapped, name="wrapped")
    anew()
    import shop, shop.mail
    shop.refund("A-1"), shop.Till().pay("A-1"), shop.mail.send("A-1")

def test_without():
    import_again()
    import shop
    shop.refund("live")
"""


def test_a_tool_whose_module_is_loaded_again_stays_frozen(shared_project):
    project = furnished(shared_project(), shop__mail=MAIL, helpers=HELPERS, test_anew=TESTS)
    (project.root / "shop" / "__init__.py").write_text(SHOP, encoding="utf-8")
    ledger = project.root / "shop" / "ledger.txt"
    recorded(project)
    assert {name: len(run.exchanges) for name, run in runs(project).items()} == {
        f"{test}[{way}]": calls for test, calls in (("named", 11), ("given", 3)) for way in ("reload", "import_again")
    }
    before = ledger.read_text(encoding="utf-8")
    passed(project.offline())
    assert ledger.read_text(encoding="utf-8").removeprefix(before) == "refund live\n"


MAKERS = """
import pathlib

LEDGER = pathlib.Path(__file__).with_name("ran.txt")

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")
    return len(LEDGER.read_text())

def make_shop():
    class Shop:
        def refund(self, order):
            return note(f"refund {order}")
        @staticmethod
        async def wait(order):
            return note(f"wait {order}")
    return Shop

def make_refund(currency):
    calls = 0
    def refund(order, *more, loud=False, **rest):
        nonlocal calls
        calls += 1
        return note(f"refund {order} {currency} {more} {loud} {rest}")
    return refund

def logged(work):
    return lambda order: work(order)

class Kit:
    @staticmethod
    def lend():
        @logged
        def lend(order):
            return note(f"lend {order}")
        return lend

Shop = make_shop()
refund = make_refund("EUR")
lend = Kit.lend()
"""

MAKER_TESTS = """
import asyncio, os
import pytest, makers

LATER = []

def use(shop, refund, lend):
    return [shop().refund("A-1"), asyncio.run(shop.wait("A-1")), refund("A-1", 2, loud=True, x=1), lend("A-1")]

def use_new():
    LATER[:] = [makers.make_refund("EUR")]
    return use(makers.make_shop(), LATER[0], makers.Kit.lend())

NAMED = ["makers.Shop.refund", "makers.Shop.wait", "makers.refund", "makers.lend"]

@pytest.mark.agentreplay(tools=NAMED)
def test_named():
    use(makers.Shop, makers.refund, makers.lend)
    use_new()

def test_given(agentreplay):
    for tool in (makers.Shop.refund, makers.Shop.wait, makers.refund, makers.lend):
        agentreplay.tool(tool, name=tool.__qualname__)
    use_new()
    @makers.logged
    def other(order):
        pass
    other("A-1")

@pytest.mark.agentreplay(tools=["makers.refund"])
def test_other_closure():
    makers.make_refund(os.environ.get("CURRENCY", "USD"))("A-1")

def test_without():
    assert makers.make_refund.__code__.co_consts
    LATER[0]("live")
    use_new()
"""


def test_a_tool_that_its_factory_makes_anew_stays_frozen(shared_project):
    project = recorded(furnished(shared_project(), makers=MAKERS, test_makers=MAKER_TESTS))
    ledger = project.root / "ran.txt"
    kept = {name: len(run.exchanges) for name, run in runs(project).items()}
    assert kept == {"named": 8, "given": 4, "other_closure": 1}
    before = ledger.read_text(encoding="utf-8")
    passed(project.offline())
    live = ledger.read_text(encoding="utf-8").removeprefix(before).splitlines()
    assert len(live) == 5, live
    assert live[0].startswith("refund live EUR")
    assert project.offline("-k", "other_closure", CURRENCY="EUR").returncode == 1


AGENT = """
import pathlib

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")
    return line

class SearchTool:
    def run(self, word):
        return note(f"search {word}")

class DeleteTool:
    def run(self, word):
        return note(f"delete {word}")

"""

TOOLS = """
import agent

def search(word):
    return agent.note(f"NAME {word}")
"""

NAME_TESTS = """
import os
import pytest, agent, tools_a, tools_b

SWAP = bool(os.environ.get("SWAP"))

@pytest.mark.parametrize("turn", [1, -1])
def test_functions(agentreplay, turn):
    given = [tools_a.search, tools_b.search][::turn]
    for tool in given:
        agentreplay.tool(tool)
    (tools_b if SWAP else tools_a).search("x")

def test_one_is_called_before_the_other_is_given(agentreplay):
    agentreplay.tool(tools_a.search)
    (agent.note if SWAP else tools_a.search)("early")
    agentreplay.tool(tools_b.search)
    (tools_a if SWAP else tools_b).search("late")

def test_methods(agentreplay):
    agentreplay.tool(agent.SearchTool.run)
    agentreplay.tool(agent.DeleteTool().run)
    (agent.DeleteTool if SWAP else agent.SearchTool)().run("x")

def test_given_names(agentreplay):
    agentreplay.tool(tools_a.search, name="find")
    agentreplay.tool(tools_b.search)
    tools_a.search("x"), tools_b.search("x")
    assert [call.name for call in agentreplay.run.tool_calls] == ["find", "search"]
"""


@pytest.fixture(scope="module")
def named(shared_project):
    tools = {f"tools_{letter}": TOOLS.replace("NAME", letter) for letter in "ab"}
    return recorded(furnished(shared_project(), agent=AGENT, test_names=NAME_TESTS, **tools))


def test_names_are_full_where_two_share_one(named):
    assert {name: [x.call.name for x in run.exchanges] for name, run in runs(named).items()} == {
        "functions[1]": ["tools_a.search"],
        "functions[-1]": ["tools_a.search"],
        "one_is_called_before_the_other_is_given": ["tools_a.search", "tools_b.search"],
        "methods": ["agent.SearchTool.run"],
        "given_names": ["find", "search"],
    }


def test_another_one_of_that_name_is_a_divergence(named):
    passed(named.offline())
    done = named.replay(SWAP="1")
    assert "4 failed, 1 passed" in done.stdout, done.stdout


CLOSURES = """
import pytest

class Client:
    def __init__(self, shop):
        self.shop = shop

def make(held):
    count = 0
    def tool(order):
        nonlocal count
        count += 1
        return f"{getattr(held, 'shop', held)} {order} {count}"
    return tool

def both(agentreplay, first, second, **names):
    one = agentreplay.tool(make(first), **{key: value[0] for key, value in names.items()})
    one("A-1")
    two = agentreplay.tool(make(second), **{key: value[1] for key, value in names.items()})
    return one("A-2"), two("A-2")

@pytest.mark.parametrize("kind", [str, Client, lambda shop: [shop], lambda shop: make(shop)])
def test_alike(agentreplay, kind):
    with pytest.raises(Exception, match="another function of the same factory.*give each its own"):
        both(agentreplay, kind("books"), kind("pens"))

def test_same(agentreplay):
    assert both(agentreplay, Client("books"), Client("books")) == ("books A-2 2", "books A-2 1")

def test_named(agentreplay):
    assert both(agentreplay, "books", "pens", name=("lookup", "refund")) == ("books A-2 2", "pens A-2 1")
"""


def test_two_functions_of_one_factory_are_told_apart_by_names_or_refused(shared_project):
    project = recorded(furnished(shared_project(), test_closures=CLOSURES))
    passed(project.offline())
    assert [x.call.name for x in runs(project)["named"].exchanges] == ["lookup", "lookup", "refund"]


BOUND = """
import asyncio, collections, dataclasses, functools, logging, os, random, sqlite3, threading, time, uuid
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import httpx, pydantic, pytest

OTHER = "OTHER" in os.environ

@dataclasses.dataclass
class Customer:
    name: str

def bound_to(user):
    def refund(order, note=""):
        return f"{order} {user}"
    return refund

def decorated(user):
    def logged(work):
        @functools.wraps(work)
        def wrapper(*args):
            return work(*args)
        return wrapper
    return logged(bound_to(user))

def bare(user):
    work = bound_to(user)
    return lambda order: work(order)

def method(user):
    class Desk:
        def refund(self, order):
            return f"{order} {user}"
    return Desk().refund

WAYS = {
    "text": lambda name: bound_to(name),
    "object": lambda name: bound_to(Customer(name)),
    "list": lambda name: bound_to([{"name": name}]),
    "decorated": decorated,
    "bare": bare,
    "method": method,
}

@pytest.mark.parametrize("way", WAYS)
def test_bound(agentreplay, way):
    refund = WAYS[way]("eve" if OTHER else "ada")
    agentreplay.tool(refund, name="refund")
    refund("A-1")

def test_services(agentreplay, tmp_path, monkeypatch, request):
    client, lock, cell, log, base = httpx.Client(), threading.Lock(), asyncio.Lock(), logging.getLogger("x"), os.environ
    disk, draws, began, run, pool = sqlite3.connect(":memory:"), random.Random(), time.time(), uuid.uuid4(), ThreadPoolExecutor()
    def add(number):
        client, lock, cell, log, base, disk, draws, began, run, pool, tmp_path, monkeypatch, request, agentreplay, os
        return number + len(later)
    later = [lambda: add]
    agentreplay.tool(add)
    add(1)

def test_secrets(agentreplay):
    api_key, key = "no-vendors-form-81723", pydantic.SecretStr("4711-of-a-class")
    def ask(word):
        api_key, key
    agentreplay.tool(ask)
    ask("x")

def test_local_server(agentreplay):
    class Server:
        def __init__(self):
            self.http = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
            self.port, self.address = self.http.server_port, self.http.server_address
    server = Server()
    url = f"http://127.0.0.1:{server.port}/orders"
    def look(order):
        return server and url and order
    agentreplay.tool(look)
    look("A-1")
    server.http.server_close()

def test_changed(agentreplay):
    calls, cache, count = [], {}, 0
    async def look(order):
        nonlocal count
        count += 1
        calls.append(order)
        await asyncio.sleep(0.01)
        return cache.setdefault(order, order)
    def seen():
        return len(calls)
    def seen_elsewhere(held):
        return lambda: len(held)
    elsewhere = seen_elsewhere(calls)
    for tool in (look, seen):
        agentreplay.tool(tool)
    agentreplay.tool(elsewhere, name="elsewhere")
    async def run():
        return await asyncio.gather(*map(look, "ABC"))
    assert asyncio.run(run()) == ["A", "B", "C"]
    assert (seen(), elsewhere()) == (3, 3)

def test_threads(agentreplay):
    calls = []
    def look(order):
        calls.append(order)
        time.sleep(0.01)
        return order
    agentreplay.tool(look)
    with ThreadPoolExecutor() as pool:
        assert [*pool.map(look, "ABCDEF")] == [*"ABCDEF"]
"""


def test_what_the_closure_of_a_tool_holds_is_compared_and_what_belongs_to_the_process_is_not(shared_project):
    project = recorded(furnished(shared_project(), test_bound=BOUND))
    assert "uncompared" not in project.recording.stdout, project.recording.stdout
    passed(project.offline())
    stored = "".join(file.read_text(encoding="utf-8") for file in project.root.rglob("*.snapshot.json"))
    assert "no-vendors-form" not in stored
    assert "4711-of-a" not in stored
    told = summary(project.offline(OTHER="1"))
    assert {name: text.partition(":")[0] for name, text in told.items()} == {
        f"bound[{way}]": "[AR-ARGS] call 1/1" for way in ("text", "object", "list", "decorated", "bare", "method")
    }


COPIED = """
import functools, pathlib

def note(line):
    with pathlib.Path("ledger.txt").open("a") as ledger:
        ledger.write(line + "\\n")
    return line

def refund(order):
    return note(f"refund {order}")

@functools.lru_cache
def look(order):
    return note(f"look {order}")

class Desk:
    def cancel(self, order):
        return note(f"cancel {order}")

def main():
    return refund("A-1"), look("A-1"), Desk().cancel("A-1")

if __name__ == "__main__":
    RESULT = main()
"""
COPIES = """
import importlib.util, pathlib, runpy, sys
import pytest
import copied

def load(name):
    found = importlib.util.spec_from_file_location(name, copied.__file__)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module

def executed(text):
    names = {"__name__": "other"}
    exec(text, names)
    return names["main"]()

BEFORE = load("other")
RUN_BEFORE = runpy.run_path("copied.py")
SOURCE = pathlib.Path(copied.__file__).read_text()
WAYS = {
    "spec": lambda: load("other").main(),
    "spec-of-the-same-name": lambda: load("copied").main(),
    "run_path": lambda: runpy.run_path("copied.py")["main"](),
    "run_path-main": lambda: runpy.run_path("copied.py", run_name="__main__")["RESULT"],
    "run_module": lambda: runpy.run_module("copied")["main"](),
    "before": lambda: BEFORE.main(),
    "run_path-before": lambda: RUN_BEFORE["main"](),
    "exec": lambda: executed(compile(SOURCE, "copied.py", "exec")),
    "exec-text": lambda: executed(SOURCE),
}

@pytest.mark.parametrize("way", WAYS)
def test_copy(agentreplay, way):
    assert WAYS[way]() == ("refund A-1", "look A-1", "cancel A-1")
    agentreplay.run.assert_tool_calls(["refund", "look", "cancel"])
    assert sys.getprofile() is None
"""


def test_the_tools_of_a_second_copy_of_a_module_are_frozen(shared_project):
    ini = "agentreplay_tools =\n    copied.refund\n    copied.look = read\n    copied.Desk.cancel\n"
    project = recorded(furnished(shared_project(), ini, copied=COPIED, test_copies=COPIES))
    assert len(project.ledger) == 9 * 3
    passed(project.offline())
