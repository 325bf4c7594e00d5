"""A frozen tool stays frozen when the module that defines it is loaded again."""

import pytest

SHOP = """
import functools, pathlib
import helpers

LEDGER = pathlib.Path(__file__).with_name("ledger.txt")

def note(line):
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")

def bare(work):
    def wrapper(*args):
        return work(*args)
    return wrapper

def refund(order):
    note(f"refund {order}")
    return len(LEDGER.read_text())

@bare
def wrapped(order):
    note(f"wrapped {order}")
    return len(LEDGER.read_text())

class Till:
    def pay(self, order):
        note(f"pay {order}")
        return len(LEDGER.read_text())

    @classmethod
    def count(cls):
        note("count")
        return len(LEDGER.read_text())

    @staticmethod
    async def wait():
        note("wait")
        return len(LEDGER.read_text())

def all_of_it():
    import asyncio, shop, shop.mail
    return [
        shop.refund("A-1"), shop.wrapped("A-1"), shop.Till().pay("A-1"), shop.Till.count(), asyncio.run(shop.Till.wait()),
        shop.mail.send("A-1"), shop.mail.draft("A-1"), shop.mail.lend("A-1"),
    ]
"""

MAIL = """
import shop
from helpers import lend

def send(order):
    shop.note(f"send {order}")
    return len(shop.LEDGER.read_text())

def draft(order):
    shop.note(f"draft {order}")
    return len(shop.LEDGER.read_text())
"""

HELPERS = """
def lend(order):
    import shop
    shop.note(f"lend {order}")
    return len(shop.LEDGER.read_text())
"""

TESTS = """
import importlib, sys
import pytest

NAMED = ["shop.refund", "shop.wrapped", "shop.Till.pay", "shop.Till.count", "shop.Till.wait", "shop.mail.*", "shop.mail.lend"]

def reload():
    importlib.reload(importlib.import_module("helpers"))
    importlib.reload(importlib.import_module("shop"))
    importlib.reload(importlib.import_module("shop.mail"))

def import_again():
    for name in ("shop", "shop.mail", "helpers"):
        sys.modules.pop(name)
    importlib.import_module("shop.mail")

def twice():
    reload()
    import_again()
    reload()

WAYS = [reload, import_again, twice]

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
    for tool in (shop.refund, shop.Till.pay, shop.Till.count, shop.Till.wait, shop.mail.send, shop.mail.draft, shop.mail.lend):
        agentreplay.tool(tool)
    agentreplay.tool(shop.wrapped, name="wrapped")
    anew()
    import shop, shop.mail
    shop.refund("A-1"), shop.Till().pay("A-1"), shop.Till.count(), shop.mail.send("A-1"), shop.mail.draft("A-1")

def test_without():
    import_again()
    import shop
    shop.refund("live")
"""


@pytest.fixture(scope="module")
def shop(shared_project):
    project = shared_project()
    project.write(shop__mail=MAIL, helpers=HELPERS, test_anew=TESTS)
    (project.root / "shop" / "__init__.py").write_text(SHOP, encoding="utf-8")
    (project.root / "shop" / "ledger.txt").write_text("", encoding="utf-8")
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    return project


def test_a_tool_that_is_made_anew_stays_frozen(shop):
    ledger = shop.root / "shop" / "ledger.txt"
    recorded = shop.record()
    assert recorded.returncode == 0, recorded.stdout
    assert "does not replay" not in recorded.stdout, recorded.stdout
    assert {len(s.run.exchanges) for s in shop.snapshots if "test_named" in s.run.header.test} == {17}
    assert {len(s.run.exchanges) for s in shop.snapshots if "test_given" in s.run.header.test} == {5}
    before = ledger.read_text(encoding="utf-8")
    replayed = shop.offline()
    assert replayed.returncode == 0, replayed.stdout
    assert ledger.read_text(encoding="utf-8").removeprefix(before) == "refund live\n"


MAKERS = """
import functools, pathlib

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

def make_nested():
    def make():
        def send(order):
            yield note(f"send {order}")
        return send
    return make

def logged(work):
    def wrapper(order):
        return work(order)
    return wrapper

class Kit:
    @staticmethod
    def lend():
        @logged
        def lend(order):
            return note(f"lend {order}")
        return lend

@logged
def audit(order):
    note(f"audit {order}")

Shop = make_shop()
refund = make_refund("EUR")
make_send = make_nested()
send = make_send()
lend = Kit.lend()
"""

MAKER_TESTS = """
import asyncio, importlib, os
import pytest, makers

LATER = []

def use(shop, refund, send, lend):
    return [shop().refund("A-1"), asyncio.run(shop.wait("A-1")), refund("A-1", 2, loud=True, x=1), [*send("A-1")], lend("A-1")]

def use_new(module=makers):
    LATER[:] = [module.make_refund("EUR")]
    return use(module.make_shop(), LATER[0], module.make_send(), module.Kit.lend())

NAMED = ["makers.Shop.refund", "makers.Shop.wait", "makers.refund", "makers.send", "makers.lend"]

@pytest.mark.agentreplay(tools=NAMED)
def test_named():
    use(makers.Shop, makers.refund, makers.send, makers.lend)
    use_new()
    use_new()

def test_given(agentreplay):
    for tool in (makers.Shop.refund, makers.Shop.wait, makers.refund, makers.send, makers.lend):
        agentreplay.tool(tool, name=tool.__qualname__)
    use_new()
    @makers.logged
    def other(order):
        pass
    other("A-1")

@pytest.mark.agentreplay(tools=NAMED)
def test_reloaded():
    importlib.reload(makers)
    use_new()

@pytest.mark.agentreplay(tools=["makers.refund"])
def test_other_closure():
    makers.make_refund(os.environ.get("CURRENCY", "USD"))("A-1")

def test_without():
    assert makers.make_refund.__code__.co_consts
    LATER[0]("live")
    use_new()
"""


def test_a_tool_that_its_factory_makes_anew_stays_frozen(shared_project):
    project = shared_project()
    project.write(makers=MAKERS, test_makers=MAKER_TESTS)
    (project.root / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    ledger = project.root / "ran.txt"
    recorded = project.record()
    assert recorded.returncode == 0, recorded.stdout
    assert "does not replay" not in recorded.stdout, recorded.stdout
    kept = {s.run.header.test.rpartition("::")[2]: len(s.run.exchanges) for s in project.snapshots}
    assert kept == {"test_named": 15, "test_given": 5, "test_reloaded": 5, "test_other_closure": 1}
    before = ledger.read_text(encoding="utf-8")
    replayed = project.offline()
    assert replayed.returncode == 0, replayed.stdout
    live = ledger.read_text(encoding="utf-8").removeprefix(before).splitlines()
    assert len(live) == 6, live
    assert live[0].startswith("refund live EUR")
    changed = project.offline("-k", "other_closure", CURRENCY="EUR")
    assert changed.returncode == 1, changed.stdout
