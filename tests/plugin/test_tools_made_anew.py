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
